"""Fill a recorded request with the values of a made-up pod or container, so that it has exactly the recorded keys."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, Protocol

from nri.types import gojson

_CRI = "io.kubernetes.cri."
_SANDBOX_SHARE = f"{_CRI}sandbox-"


class ValuesOfPod(Protocol):
    """The values of a :class:`nri.testing.Pod` that its requests have."""

    profile: RequestProfile
    name: str
    namespace: str
    uid: str
    id: str
    pid: int
    runtime: str
    kubelet: bool
    cgroup_version: int
    labels: dict[str, str]
    annotations: dict[str, str]

    @property
    def cgroups_path(self) -> str:
        """The sandbox's."""

    @property
    def containers(self) -> Sequence[ValuesOfContainer]:
        """Its containers."""


class ValuesOfContainer(Protocol):
    """The values of a :class:`nri.testing.Container` that its requests have."""

    name: str
    id: str
    pid: int
    image: str
    annotations: dict[str, str]
    resources: dict[str, Any]
    adjustable: dict[str, Any]

    @property
    def pod(self) -> ValuesOfPod:
        """Its pod."""

    @property
    def cgroups_path(self) -> str:
        """The container's."""


def pod_request(pod: ValuesOfPod, state: str, resources: dict[str, Any]) -> dict[str, Any]:
    """Return the request about a pod's sandbox, as decoded JSON."""
    value = _template(pod, None, state)
    spec = value["spec"]
    spec["annotations"] = _runtime_annotations(pod, None, spec.get("annotations", {}))
    if pod.profile.annotated == "all":
        spec["annotations"] |= pod.annotations
    spec["resources"] = {**spec["resources"], **resources}
    return value


def container_request(container: ValuesOfContainer, state: str, resources: dict[str, Any]) -> dict[str, Any]:
    """Return the request about a container, as decoded JSON."""
    pod = container.pod
    value = _template(pod, container, state)
    spec = value["spec"]
    spec["annotations"] = _runtime_annotations(pod, container, spec.get("annotations", {}))
    if pod.profile.annotated == "all":
        spec["annotations"] |= pod.annotations | container.annotations
    usual = default_resources(pod)
    asked = {**usual, **resources}
    for key, item in asked.items():
        if key in spec["resources"] and item in ({}, None):
            continue
        if key != "devices" or key in spec["resources"]:
            spec["resources"][key] = item
    if pod.cgroup_version == 2:
        spec["namespaces"] = {"cgroup": "", **spec["namespaces"]}
    if state == "setup":
        _adjustable(container, spec)
    return value


def default_resources(pod: ValuesOfPod) -> dict[str, Any]:
    """Return the recorded ``linux.resources`` of a container of this runtime."""
    found: dict[str, Any] = recorded(f"{pod.profile.recordings}.container-create")["spec"]["resources"]
    return found


def resources_of(container: ValuesOfContainer) -> dict[str, Any]:
    """Return the ``linux.resources`` of a container."""
    return {**default_resources(container.pod), **container.resources}


def _template(pod: ValuesOfPod, container: ValuesOfContainer | None, state: str) -> dict[str, Any]:
    """Return a recorded request of this kind with the ids, pids, labels and the cgroupsPath of pod and container."""
    name = f"{pod.profile.recordings}.{'pod' if container is None else 'container'}-{state}"
    before = recorded(name)
    text = text_of(name)
    owner = pod if container is None else container
    if sandbox := before.get("sandboxID"):
        text = text.replace(sandbox, pod.id)
    text = re.sub(r"/proc/[0-9]+/", f"/proc/{pod.pid}/", text.replace(before["id"], owner.id))
    value: dict[str, Any] = gojson.loads(text)  # type: ignore[assignment] # each file has an object
    for key in ("conf", "results"):
        value.pop(key, None)
    value["state"] = state
    value["id"] = owner.id
    if "pid" in value:
        value["pid"] = owner.pid
    value["spec"]["cgroupsPath"] = owner.cgroups_path
    if "labels" in value:
        value["labels"] = _labels(pod, value["labels"])
    return value


def _labels(pod: ValuesOfPod, before: dict[str, str]) -> dict[str, str]:
    of_runtime = {key: item for key, item in before.items() if key not in SAMPLE_LABELS}
    if pod.runtime.startswith("cri-o"):
        of_runtime.pop("io.cri-containerd.kind", None)
    of_kubelet = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid} if pod.kubelet else {}
    return pod.labels | of_runtime | {f"io.kubernetes.pod.{key}": item for key, item in of_kubelet.items()}


def _runtime_annotations(
    pod: ValuesOfPod, container: ValuesOfContainer | None, before: dict[str, str]
) -> dict[str, str]:
    """Return the annotations that come from the runtime and the kubelet, with this pod's values."""
    found = {key: item for key, item in before.items() if key not in SAMPLE_ANNOTATIONS}
    if pod.kubelet and pod.profile.annotated == "all":
        kind = "sandbox" if container is None else "container"
        of_kubelet = recorded(f"{KUBERNETES}-{kind}-burst-ls")["spec"]["annotations"]
        found |= {key: of_kubelet[key] for key in of_kubelet.keys() - found.keys() - SAMPLE_ANNOTATIONS}
        found |= {key: item for key, item in _share(pod).items() if key in found}
    values = _values(pod, container)
    found = {key: values.get(key, item) for key, item in found.items()}
    if pod.runtime.startswith("cri-o"):
        found = {key: item for key, item in found.items() if not key.startswith(_CRI)}
        if container is not None:
            found["io.kubernetes.container.name"] = container.name
    return found


def _values(pod: ValuesOfPod, container: ValuesOfContainer | None) -> dict[str, str]:
    values = {
        f"{_SANDBOX_SHARE}id": pod.id,
        f"{_SANDBOX_SHARE}name": pod.name,
        f"{_SANDBOX_SHARE}namespace": pod.namespace,
        f"{_SANDBOX_SHARE}uid": pod.uid,
        f"{_SANDBOX_SHARE}log-directory": f"/var/log/pods/{pod.namespace}_{pod.name}_{pod.uid}",
    }
    if container is not None:
        values |= {f"{_CRI}container-name": container.name, f"{_CRI}image-name": container.image}
    return values


def share_of_pod(pod: ValuesOfPod) -> dict[str, int]:
    """Return what the kubelet computes for a pod from its containers: ``quota``, ``period``, ``shares``, ``memory``.

    The quota and the memory are 0, for no limit, if a container has none.
    """
    each = [resources_of(container) for container in pod.containers]
    cpus = [resources.get("cpu") or {} for resources in each]
    quotas = [cpu.get("quota", 0) * 100_000 // cpu.get("period", 100_000) for cpu in cpus]
    limits = [(resources.get("memory") or {}).get("limit", 0) for resources in each]
    return {
        "cpu-quota": sum(quotas) if all(quota > 0 for quota in quotas) else 0,
        "cpu-period": 100_000,
        "cpu-shares": max(2, sum(cpu.get("shares", 0) for cpu in cpus)),
        "memory": sum(limits) if all(limit > 0 for limit in limits) else 0,
    }


def _share(pod: ValuesOfPod) -> dict[str, str]:
    return {f"{_SANDBOX_SHARE}{key}": str(number) for key, number in share_of_pod(pod).items()}


def _adjustable(container: ValuesOfContainer, spec: dict[str, Any]) -> None:
    """Put what the test says of the container's process, mounts, hooks and ``linux`` into a request of ``setup``."""
    given = container.adjustable
    if given["args"]:
        spec["process"]["args"] = given["args"]
    env = [line for line in spec["process"]["env"] if not line.startswith("HOSTNAME=")]
    spec["process"]["env"] = [*env, f"HOSTNAME={container.pod.name}", *given["env"]]
    spec["mounts"] = [*spec["mounts"], *given["mounts"]]
    if given["hooks"]:
        spec["hooks"] = given["hooks"]
    spec["linux"] = {**spec["linux"], **given["linux"]}


# Requests that real runtimes made, as files in ``recorded/``; the builders of :mod:`nri.testing.pods` fill them in.
#
# | files | who sent them |
# | --- | --- |
# | ``containerd-1.6.20-native.*``, ``containerd-2.1.9-native.*`` | containerd, which runs v0.1 plugins itself |
# | ``bridge/*`` | the bridge on containerd, under crictl |
# | ``kubernetes/*`` | the bridge on containerd 1.7 under Kubernetes 1.34: v1 with cgroupfs, v2 with systemd |
# | ``hook/*`` | ``nri hook`` under podman, and under runc with the config.json of ``runc spec``; crun's are equal |
# | ``*-adapter.*`` | Go's v010-adapter on containerd, which the bridge takes the place of |
#
# Names of hosts, images and test directories are replaced.

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded")
"""The directory of the recordings."""


def recordings(pattern: str = "*") -> list[str]:
    """Return the names of the recordings that match a shell pattern, sorted.

    :param pattern: for the name below the folder, without ``.json``; ``*`` matches no slash.
    """
    folder, _, last = pattern.rpartition("/")
    names = [
        name.removesuffix(".json") for name in os.listdir(os.path.join(FOLDER, folder)) if name.endswith(".json")
    ]
    return sorted(f"{folder}/{name}".lstrip("/") for name in names if fnmatchcase(name, last))


def recorded(name: str) -> dict[str, Any]:
    """Return a recorded request as decoded JSON, a new object at each call.

    :param name: as :func:`recordings` returns it, such as ``kubernetes/v2-systemd-create-container-burst-ls``.
    """
    value: dict[str, Any] = gojson.loads(text_of(name))  # type: ignore[assignment] # each file has an object
    return value


def text_of(name: str) -> str:
    """Return the text of a recording."""
    with open(os.path.join(FOLDER, f"{name}.json"), encoding="utf-8") as file:
        return file.read()


# Runtimes whose requests can be built, and what differs between them, as a table.


class RequestProfile:
    """The requests of one runtime.

    :param recordings: the recorded requests that are filled in; ``.pod-create`` and so on is added.
    :param states: the states that a plugin gets for a container.
    :param pod_states: the states that it gets for the pod sandbox.
    :param unit: in front of an id in a cgroup's name: the middle of a systemd path, and part of a cgroupfs one.
    :param in_cgroupfs: in front of an id in a cgroup's name with the cgroupfs driver.
    :param annotated: which annotations of pod and container a container's request has: ``all``, or ``none``.
    :param parent: the cgroup above the container's without a kubelet: a path, and a slice.
    """

    __slots__ = ("annotated", "in_cgroupfs", "parent", "pod_states", "recordings", "states", "unit")

    def __init__(
        self,
        recordings: str,
        *,
        states: tuple[str, ...],
        pod_states: tuple[str, ...] = (),
        unit: str = "cri-containerd",
        in_cgroupfs: str = "",
        annotated: str = "all",
        parent: tuple[str, str] = ("/kubepods", "system.slice"),
    ) -> None:
        self.recordings, self.states, self.pod_states = recordings, states, pod_states
        self.unit, self.in_cgroupfs, self.annotated, self.parent = unit, in_cgroupfs, annotated, parent

    @property
    def has_pods(self) -> bool:
        """Whether the runtime has pod sandboxes, and a kubelet may be above it."""
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
        "bridge/containerd-1.7.24", states=_BRIDGE, pod_states=_ENDS, unit="crio", in_cgroupfs="crio-"
    ),
    "podman": RequestProfile(
        "hook/podman", states=_ENDS, unit="libpod", in_cgroupfs="libpod-", parent=("/machine", "machine.slice")
    ),
    "runc": RequestProfile("hook/runc", states=_ENDS),
    "crun": RequestProfile("hook/runc", states=_ENDS),
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
        raise ValueError(f"runtime {runtime!r} is not known here: expected one of {', '.join(PROFILES)}")
    return PROFILES[runtime]
