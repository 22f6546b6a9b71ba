"""Pods and containers for tests, with the requests that a real runtime would send about them.

    shop = Pod("shop", labels={"app": "shop"}, runtime="containerd-2.1")
    web = shop.container("web", resources={"cpu": {"quota": 50000, "period": 100000}})
    web.request("create", conf={"cpus": "2-3"})
    shop.request("create")

All values follow from the names: the same test gets the same ids. No process of this machine has one of the pids.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from nri.cgroups.paths import expand
from nri.cgroups.resolve import MAX_PID
from nri.testing.cgroup_files import part_of
from nri.types import gojson
from nri.types.v1 import STATES, Request, Result

QOS = ("guaranteed", "burstable", "besteffort")
DRIVERS = ("cgroupfs", "systemd")
_CLASSES = {
    "guaranteed": ["kubepods"],
    "burstable": ["kubepods", "burstable"],
    "besteffort": ["kubepods", "besteffort"],
}
OOM_SCORES = {"guaranteed": -997, "burstable": 999, "besteffort": 1000}
"""The OOM score adjustment that the kubelet gives to containers, by QoS class.

A burstable one with a large request gets less.

Source: ``GetContainerOOMScoreAdjust`` in pkg/kubelet/qos/policy.go of Kubernetes.
"""


class _Subject:
    """The base of a pod and a container: it makes the requests about them."""

    def request(
        self,
        state: str,
        *,
        conf: Any = None,
        results: Iterable[Result] = (),
        late: bool = False,
        resources: Mapping[str, Any] | None = None,
    ) -> Request:
        """Return the request about the container, or about the pod's sandbox.

        :param conf: the plugin's conf, as its entry in the host configuration has it.
        :param results: those of the plugins that ran before.
        :param resources: the new ones, for ``resize`` and ``update``; each key replaces the container's.
        :raises ValueError: the runtime sends no request of this state about it.
        """
        value = _value(self, state, dict(resources or {}))  # type: ignore[arg-type] # it is one of the two
        return Request.from_value(value, "request").replace(
            conf=conf, results=tuple(results), late=late
        )


class Pod(_Subject):
    """A pod, and what its runtime tells plugins about its sandbox.

    :param runtime: whose requests: ``containerd-1.6``, ``containerd-1.7``, ``containerd-2.1``, ``cri-o-1.36``
        (through the bridge, from 1.7 on), ``podman``, ``runc`` or ``crun`` (through ``nri hook``), or ``nri-runc``.
    :param cgroup_driver: ``cgroupfs`` or ``systemd``, for the form of the cgroupsPath.
    :param cgroup_version: 1 or 2; on 2 a container has a cgroup namespace.
    :param kubelet: whether a kubelet made it: with its labels and annotations, and in a cgroup for the pod; else as
        ``crictl runp`` does. Without meaning for podman, runc, crun and nri-runc.
    :param qos: the pod's class for the kubelet: ``guaranteed``, ``burstable`` or ``besteffort``.
    :param cgroup_parent: the cgroup above the sandbox's and the containers'; by default as the kubelet names it.
    :param pid: of the sandbox's process.
    :ivar containers: the containers, in order.
    """

    kind = "pod"
    subject = "sandbox"
    called = "a pod's sandbox"

    def __init__(  # noqa: PLR0913 - a key each
        self,
        name: str = "shop",
        *,
        namespace: str = "default",
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        runtime: str = "containerd-2.1",
        cgroup_driver: str = "cgroupfs",
        cgroup_version: int = 2,
        kubelet: bool = True,
        qos: str = "burstable",
        cgroup_parent: str = "",
        pid: int = 0,
    ) -> None:
        check_value("cgroup_driver", cgroup_driver, DRIVERS)
        check_value("cgroup_version", cgroup_version, (1, 2))
        check_value("qos", qos, QOS)
        self.profile = profile(runtime)
        self.name = name
        self.namespace = namespace
        self.runtime = runtime
        self.qos = qos
        self.labels = dict(labels or {})
        self.annotations = dict(annotations or {})
        self.cgroup_driver = cgroup_driver
        self.cgroup_version = cgroup_version
        self.kubelet = kubelet and self.profile.has_pods
        self.uid = str(uuid.UUID(made_up("uid", namespace, name)[:32]))
        self.id = made_up("pod", namespace, name)
        self.pid = pid or MAX_PID + int(self.id[:4], 16) * 100
        self.cgroup_parent = cgroup_parent or self._parent()
        self.containers: list[Container] = []

    def __repr__(self) -> str:
        return f"Pod({self.name!r}, runtime={self.runtime!r})"

    @property
    def pod(self) -> Pod:
        """The pod itself, as a container has its own."""
        return self

    @property
    def members(self) -> list[Container]:
        """The containers that are meant by the pod."""
        return self.containers

    @property
    def states(self) -> tuple[str, ...]:
        """The states that a plugin gets for the sandbox."""
        return self.profile.pod_states

    @property
    def cgroups_path(self) -> str:
        """The cgroupsPath of the sandbox's own container."""
        return self.path_of(self.id)

    @property
    def cgroup(self) -> str:
        """The path of the pod's cgroup, below the mount of a hierarchy: the one above its containers'."""
        return self.sandbox_cgroup.rpartition("/")[0]

    @property
    def sandbox_cgroup(self) -> str:
        """The path of the sandbox's own cgroup, below the mount of a hierarchy."""
        return expand(self.cgroups_path)

    def container(  # noqa: PLR0913 - a key each
        self,
        name: str,
        *,
        annotations: Mapping[str, str] | None = None,
        resources: Mapping[str, Any] | None = None,
        pid: int = 0,
        cgroups_path: str | None = None,
        image: str = "docker.io/library/busybox:1",
        args: Sequence[str] = (),
        env: Sequence[str] = (),
        mounts: Sequence[Mapping[str, Any]] = (),
        hooks: Mapping[str, Any] | None = None,
        linux: Mapping[str, Any] | None = None,
    ) -> Container:
        """Add a container to the pod, and return it.

        :param resources: ``linux.resources`` in OCI's words; each of its keys replaces the recorded one. By default
            half a CPU: ``{"cpu": {"shares": 512, "quota": 50000, "period": 100000}}`` under containerd; in a pod of
            the class ``besteffort``, and with ``{}``, no limit.
        :param cgroups_path: another cgroupsPath than the runtime's; "" for none.
        :param args: the command, for ``setup``; likewise *env* and *mounts*, which are added to the recorded ones,
            *hooks*, and *linux*, whose keys are put over the recorded ones.
        """
        if any(other.name == name for other in self.containers):
            raise ValueError(f"pod {self.name!r} has a container {name!r} already")
        if self.qos == "besteffort" and resources is None:
            resources = {"cpu": {"shares": 2, "quota": 0, "period": 100_000}}
        elif resources == {}:
            resources = {"cpu": {"quota": 0}, "memory": {"limit": 0}}
        made = Container(
            self, name, image, dict(annotations or {}), dict(resources or {}), pid, cgroups_path
        )
        made.adjustable |= {"args": [*args], "env": [*env], "mounts": [*map(dict, mounts)]}
        made.adjustable |= {"hooks": dict(hooks or {}), "linux": dict(linux or {})}
        self.containers.append(made)
        return made

    def path_of(self, id_: str) -> str:
        """Return the cgroupsPath that the runtime gives to a container of the pod."""
        parent = self.cgroup_parent
        if parent.endswith(".slice"):
            return f"{parent}:{self.profile.unit}:{id_}"
        return f"{parent.rstrip('/')}/{self.profile.in_cgroupfs}{id_}"

    def _parent(self) -> str:
        is_systemd = self.cgroup_driver == "systemd"
        if not self.kubelet:
            return self.profile.parent[is_systemd]
        classes = _CLASSES[self.qos]
        if is_systemd:
            return f"{'-'.join(classes)}-pod{self.uid.replace('-', '_')}.slice"
        return f"/{'/'.join(classes)}/pod{self.uid}"


class Container(_Subject):
    """A container of a pod; ``Pod.container`` makes it.

    :ivar resources: its ``linux.resources`` where they are not the recorded ones; a test may change it.
    :ivar annotations: its own annotations.
    :ivar cgroups_path: the cgroupsPath in its requests; "" if runc, crun or nri-runc was given none.
    """

    kind = "container"
    subject = "container"
    called = "a container"

    def __init__(
        self,
        pod: Pod,
        name: str,
        image: str,
        annotations: dict[str, str],
        resources: dict[str, Any],
        pid: int,
        cgroups_path: str | None,
    ) -> None:
        self.pod = pod
        self.name = name
        self.image = image
        self.annotations = annotations
        self.resources = resources
        self.adjustable: dict[str, Any] = {}  # for setup
        self.id = made_up("container", pod.namespace, pod.name, name)
        first = pod.pid + 1
        path = pod.path_of(self.id)
        if pod.runtime in ("runc", "crun", "nri-runc"):
            self.id = name  # a person names it
            path = ""
            # Without a cgroupsPath the pid must be one that Linux can give: the highest.
            first = MAX_PID - 99
        self.pid = pid or first + len(pod.containers)
        self.cgroups_path = path if cgroups_path is None else cgroups_path

    def __repr__(self) -> str:
        return f"Container({self.name!r}, pod={self.pod.name!r}, runtime={self.pod.runtime!r})"

    @property
    def members(self) -> list[Container]:
        """The container alone, as a pod has all of its."""
        return [self]

    @property
    def states(self) -> tuple[str, ...]:
        """The states that a plugin gets for a container."""
        return self.pod.profile.states

    @property
    def cgroup(self) -> str:
        """The path of its cgroup, below the mount of a hierarchy."""
        return expand(self.cgroups_path or f"/{self.id}")


def made_up(*names: str) -> str:
    """Return an id that follows from some names: 64 hexadecimal digits."""
    return hashlib.sha256("/".join(names).encode()).hexdigest()


def check_value(name: str, value: object, allowed: tuple[object, ...]) -> None:
    """Raise ValueError if an argument has none of the values that it may have."""
    if value not in allowed:
        raise ValueError(
            f"{name}: found {value!r}, expected one of {', '.join(map(repr, allowed))}"
        )


# Fill a recorded request with the values of a made-up pod or container, so that it has exactly the recorded keys.

_CRI = "io.kubernetes.cri."
_SANDBOX_SHARE = f"{_CRI}sandbox-"


def _value(owner: Pod | Container, state: str, resources: dict[str, Any]) -> dict[str, Any]:
    """Return a request, as decoded JSON.

    :raises ValueError: the runtime sends none of this state.
    """
    pod = owner.pod
    _check_state(owner, state)
    value = _template(owner, state)
    spec = value["spec"]
    spec["annotations"] = _annotations(owner, spec.get("annotations", {}))
    if isinstance(owner, Pod):
        spec["resources"] = {**spec["resources"], **resources}
        if pod.kubelet:  # unlike the recorded ones it is not in the host's network
            spec["namespaces"] |= {"uts": "", "network": f"/var/run/netns/cni-{pod.uid}"}
        return value
    if pod.profile.recordings.startswith("bridge/"):
        of_pod = _value(pod, "create", {})["spec"]["annotations"]
        value["ownAnnotations"] = sorted([key for key in spec["annotations"] if key not in of_pod])
    _put_resources(spec["resources"], {**resources_of(owner), **resources})
    if pod.cgroup_version == 2:
        spec["namespaces"] = {"cgroup": "", **spec["namespaces"]}
    if pod.kubelet and "pid" in spec["namespaces"]:
        spec["namespaces"]["pid"] = ""
    if state == "setup":
        _adjustable(owner, spec)
    return value


def _check_state(owner: Pod | Container, state: str) -> None:
    """Raise ValueError if the runtime sends no request of this state."""
    if state not in owner.states:
        sends = ", ".join(owner.states) or "none"
        raise ValueError(
            f"{owner.pod.runtime} sends no {state!r} about {owner.called}: it sends {sends}"
        )


def _annotations(owner: Pod | Container, recorded: dict[str, str]) -> dict[str, str]:
    """Return the annotations that the runtime shows, from those of a recorded request."""
    shown = _runtime_annotations(owner, recorded)
    if owner.pod.profile.annotated != "all":
        return shown
    return shown | owner.pod.annotations | owner.annotations


def _put_resources(shown: dict[str, Any], resources: dict[str, Any]) -> None:
    """Put resources into those of a recorded request, which has an empty object for some that are not set."""
    for key, item in resources.items():
        if key in shown and item in ({}, None):
            continue
        if key != "devices" or key in shown:
            shown[key] = item


def default_resources(pod: Pod) -> dict[str, Any]:
    """Return the recorded ``linux.resources`` of a container of this runtime."""
    resources: dict[str, Any] = recorded(f"{pod.profile.recordings}.container-create")["spec"][
        "resources"
    ]
    return resources


def resources_of(container: Container) -> dict[str, Any]:
    """Return the ``linux.resources`` of a container."""
    return {**default_resources(container.pod), **container.resources}


def resources_of_pod(pod: Pod) -> dict[str, Any]:
    """Return the ``linux.resources`` that the kubelet sets for a pod's cgroup."""
    share = share_of_pod(pod)
    cpu = {
        "shares": share["cpu-shares"],
        "quota": share["cpu-quota"],
        "period": share["cpu-period"],
    }
    return {"cpu": cpu, "memory": {"limit": share["memory"]}}


def _template(owner: Pod | Container, state: str) -> dict[str, Any]:
    """Return a recorded request of this kind with the ids, pids, labels and the cgroupsPath of pod and container."""
    pod = owner.pod
    name = f"{pod.profile.recordings}.{owner.kind}-{state}"
    before = recorded(name)
    text = text_of(name).replace(before["id"], owner.id)
    text = text.replace(before.get("sandboxID", before["id"]), pod.id)
    text = re.sub(r"/proc/[0-9]+/", f"/proc/{pod.pid}/", text)
    value: dict[str, Any] = gojson.loads(text)  # type: ignore[assignment] # each file has an object
    value["state"] = state
    value["id"] = owner.id
    if "pid" in value:
        value["pid"] = owner.pid
    value["spec"]["cgroupsPath"] = owner.cgroups_path
    if "labels" in value:
        value["labels"] = _labels(pod, value["labels"])
    return value


def _labels(pod: Pod, before: dict[str, str]) -> dict[str, str]:
    labels = pod.labels | _without(before, SAMPLE_LABELS | pod.profile.lacks)
    if pod.kubelet:
        labels["io.kubernetes.pod.name"] = pod.name
        labels["io.kubernetes.pod.namespace"] = pod.namespace
        labels["io.kubernetes.pod.uid"] = pod.uid
    return labels


def _runtime_annotations(owner: Pod | Container, before: dict[str, str]) -> dict[str, str]:
    """Return the annotations that come from the runtime and the kubelet, with this pod's values."""
    pod = owner.pod
    annotations = _without(before, SAMPLE_ANNOTATIONS)
    if pod.kubelet and pod.profile.annotated == "all":
        of_kubelet = recorded(f"{KUBERNETES}-{owner.subject}-burst-ls")["spec"]["annotations"]
        annotations = _without(of_kubelet, SAMPLE_ANNOTATIONS) | annotations
        _put_over(annotations, _share(pod))
    _put_over(annotations, _values(owner))
    if pod.profile.lacks:
        annotations = _without(annotations, [key for key in annotations if key.startswith(_CRI)])
        if isinstance(owner, Container):
            annotations["io.kubernetes.container.name"] = owner.name
    return annotations


def _without(values: dict[str, str], keys: Collection[str]) -> dict[str, str]:
    return {key: item for key, item in values.items() if key not in keys}


def _put_over(values: dict[str, str], others: dict[str, str]) -> None:
    """Replace the values of the keys that are there."""
    for key in values.keys() & others.keys():
        values[key] = others[key]


def _values(owner: Pod | Container) -> dict[str, str]:
    pod = owner.pod
    values = {
        f"{_SANDBOX_SHARE}id": pod.id,
        f"{_SANDBOX_SHARE}name": pod.name,
        f"{_SANDBOX_SHARE}namespace": pod.namespace,
        f"{_SANDBOX_SHARE}uid": pod.uid,
        f"{_SANDBOX_SHARE}log-directory": f"/var/log/pods/{pod.namespace}_{pod.name}_{pod.uid}",
    }
    if isinstance(owner, Container):
        values |= {f"{_CRI}container-name": owner.name, f"{_CRI}image-name": owner.image}
    return values


def share_of_pod(pod: Pod) -> dict[str, int]:
    """Return what the kubelet computes for a pod from its containers: ``quota``, ``period``, ``shares``, ``memory``.

    The quota and the memory are 0, for no limit, if a container has none.
    """
    quotas = []
    limits = []
    shares = 0
    for container in pod.containers:
        resources = resources_of(container)
        cpu = part_of(resources, "cpu")
        shares += cpu.get("shares", 0)
        quotas.append(cpu.get("quota", 0) * 100_000 // cpu.get("period", 100_000))
        limits.append(part_of(resources, "memory").get("limit", 0))
    return {
        "cpu-quota": _sum_of_limits(quotas),
        "cpu-period": 100_000,
        "cpu-shares": max(2, shares),
        "memory": _sum_of_limits(limits),
    }


def _sum_of_limits(limits: list[int]) -> int:
    """Return the limit of a pod; 0, for none, if one of its containers has none."""
    return sum(limits) if min(limits, default=0) > 0 else 0


def _share(pod: Pod) -> dict[str, str]:
    return {f"{_SANDBOX_SHARE}{key}": str(number) for key, number in share_of_pod(pod).items()}


def _adjustable(container: Container, spec: dict[str, Any]) -> None:
    """Put what the test says of the container's process, mounts, hooks and ``linux`` into a request of ``setup``."""
    given = container.adjustable
    if given["args"]:
        spec["process"]["args"] = given["args"]
    if container.pod.kubelet:
        spec["process"]["oomScoreAdj"] = OOM_SCORES[container.pod.qos]
    env = [line for line in spec["process"]["env"] if not line.startswith("HOSTNAME=")]
    spec["process"]["env"] = [*env, f"HOSTNAME={container.pod.name}", *given["env"]]
    spec["mounts"] = [*spec["mounts"], *given["mounts"]]
    if given["hooks"]:
        spec["hooks"] = given["hooks"]
    spec["linux"] = {**spec["linux"], **given["linux"]}


# Requests that real runtimes made, as files in ``recorded/``; the functions above fill them in.
#
# | files | who sent them |
# | --- | --- |
# | ``containerd-1.6.20-native.*``, ``containerd-2.1.9-native.*`` | containerd, which runs v0.1 plugins itself |
# | ``bridge/*`` | the bridge on containerd, under crictl |
# | ``kubernetes/*`` | the bridge on containerd 1.7 under Kubernetes 1.34: v1 with cgroupfs, v2 with systemd |
# | ``hook/*`` | ``nri hook`` under podman, and under runc with the config.json of ``runc spec``; crun's are equal |
# | ``nri-runc.*`` | ``nri-runc`` with the config.json of ``runc spec`` |
# | ``*-adapter.*`` | Go's v010-adapter on containerd, which the bridge takes the place of |
#
# Names of hosts, images and test directories are replaced.

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded")
"""The directory of the recordings."""


def recordings(pattern: str = "*") -> list[str]:
    """Return the names of the recordings that match a shell pattern, sorted.

    :param pattern: for the name below the folder, without ``.json``; ``*`` matches no slash.
    """
    files = glob.glob(f"{pattern}.json", root_dir=FOLDER)
    return sorted([file.removesuffix(".json") for file in files])


def recorded(name: str) -> dict[str, Any]:
    """Return a recorded request as decoded JSON, a new object at each call.

    :param name: as ``recordings`` returns it, such as ``kubernetes/v2-systemd-create-container-burst-ls``.
    """
    value: dict[str, Any] = gojson.loads(text_of(name))  # type: ignore[assignment] # each file has an object
    return value


def text_of(name: str) -> str:
    """Return the text of a recording."""
    with open(os.path.join(FOLDER, f"{name}.json"), encoding="utf-8") as file:
        return file.read()


# Runtimes whose requests can be built, and what differs between them, as a table.


class RequestProfile(NamedTuple):
    """The requests of one runtime."""

    recordings: str
    """The recorded requests that are filled in; ``.pod-create`` and so on is added."""
    states: tuple[str, ...]
    """The states that a plugin gets for a container."""
    pod_states: tuple[str, ...] = ()
    """The states that it gets for the pod sandbox."""
    unit: str = "cri-containerd"
    """In front of an id in a cgroup's name: the middle of a systemd path."""
    in_cgroupfs: str = ""
    """The same with the cgroupfs driver."""
    annotated: str = "all"
    """The annotations of pod and container that a container's request has: ``all``, or ``none``."""
    parent: tuple[str, str] = ("/kubepods", "system.slice")
    """The cgroup above the container's without a kubelet: a path, and a slice."""
    lacks: frozenset[str] = frozenset()
    """Labels of the recorded requests that it does not have; nor has it containerd's annotations then."""

    @property
    def has_pods(self) -> bool:
        """True if the runtime has pod sandboxes, so that a kubelet may use it."""
        return bool(self.pod_states)


_ENDS = ("create", "delete")
_BRIDGE = ("setup", "create", "resize", "update", "delete")

PROFILES = {
    "containerd-1.6": RequestProfile(
        "containerd-1.6.20-native", states=_ENDS, pod_states=_ENDS, annotated="none"
    ),  # containerd does not copy a pod's annotations, unless its option pod_annotations says so
    "containerd-1.7": RequestProfile("bridge/containerd-1.7.24", states=_BRIDGE, pod_states=_ENDS),
    "containerd-2.1": RequestProfile("bridge/containerd-2.1.9", states=_BRIDGE, pod_states=_ENDS),
    # Not recorded, but seen: docs/limits.md. The parts that CRI-O lacks are left out of containerd's.
    "cri-o-1.36": RequestProfile(
        "bridge/containerd-1.7.24",
        states=_BRIDGE,
        pod_states=_ENDS,
        unit="crio",
        in_cgroupfs="crio-",
        lacks=frozenset({"io.cri-containerd.kind"}),
    ),
    "podman": RequestProfile(
        "hook/podman",
        states=_ENDS,
        unit="libpod",
        in_cgroupfs="libpod-",
        parent=("/machine", "machine.slice"),
    ),
    "runc": RequestProfile("hook/runc", states=_ENDS),
    "crun": RequestProfile("hook/runc", states=_ENDS),
    "nri-runc": RequestProfile("nri-runc", states=tuple(map(str, STATES))),
}
"""The runtimes by name: containerd 1.6 runs plugins itself, then comes the bridge, and at last ``nri hook``."""

KUBERNETES = "kubernetes/v1-cgroupfs-create"
"""The recordings whose annotations and labels a kubelet has added; ``-sandbox-burst-ls`` and so on is added."""

SAMPLE_ANNOTATIONS = frozenset({"qos.class"})
"""Annotations in the recordings that the pod's author wrote."""

SAMPLE_LABELS = frozenset({"app", "tier", "set"})
"""Labels in the recordings that the pod's author wrote."""


def profile(runtime: str) -> RequestProfile:
    """Return the profile of a runtime; raise ValueError for an unknown one."""
    if runtime not in PROFILES:
        raise ValueError(
            f"runtime {runtime!r} is not known here: expected one of {', '.join(PROFILES)}"
        )
    return PROFILES[runtime]
