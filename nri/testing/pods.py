"""Pods and containers for tests, with the requests that a real runtime would send about them.

    shop = Pod("shop", labels={"app": "shop"}, runtime="containerd-2.1")
    web = shop.container("web", resources={"cpu": {"quota": 50000, "period": 100000}})
    web.request("create", conf={"cpus": "2-3"})
    shop.request("create")

All values follow from the names: the same test gets the same ids. No process of this machine has one of the pids.
"""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING, Any

from nri.cgroups.paths import expand
from nri.cgroups.resolve import MAX_PID
from nri.testing.request_templates import container_request, pod_request, profile
from nri.types.v1 import Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nri.types.v1 import Result

QOS = ("guaranteed", "burstable", "besteffort")
DRIVERS = ("cgroupfs", "systemd")


class Pod:
    """A pod, and what its runtime tells plugins about its sandbox.

    :param runtime: whose requests: ``containerd-1.6``, ``containerd-1.7``, ``containerd-2.1``, ``cri-o-1.36``
        (through the bridge, from 1.7 on), ``podman``, ``runc`` or ``crun`` (through ``nri hook``).
    :param cgroup_driver: ``cgroupfs`` or ``systemd``, for the form of the cgroupsPath.
    :param cgroup_version: 1 or 2; on 2 a container has a cgroup namespace.
    :param kubelet: whether a kubelet made it: with its labels and annotations, and in a cgroup for the pod; else as
        ``crictl runp`` does. Without meaning for podman, runc and crun.
    :param qos: the pod's class for the kubelet: ``guaranteed``, ``burstable`` or ``besteffort``.
    :param cgroup_parent: the cgroup above the sandbox's and the containers'; by default as the kubelet names it.
    :param pid: of the sandbox's process.
    :ivar containers: the containers, in order.
    """

    def __init__(
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
        _check("cgroup_driver", cgroup_driver, DRIVERS)
        _check("cgroup_version", cgroup_version, (1, 2))
        _check("qos", qos, QOS)
        self.profile = profile(runtime)
        self.name, self.namespace, self.runtime, self.qos = name, namespace, runtime, qos
        self.labels, self.annotations = dict(labels or {}), dict(annotations or {})
        self.cgroup_driver, self.cgroup_version = cgroup_driver, cgroup_version
        self.kubelet = kubelet and self.profile.has_pods
        self.uid = str(uuid.UUID(made_up("uid", namespace, name)[:32]))
        self.id = made_up("pod", namespace, name)
        self.pid = pid or MAX_PID + int(self.id[:4], 16) * 100
        self.cgroup_parent = cgroup_parent or self._parent()
        self.containers: list[Container] = []

    def __repr__(self) -> str:
        return f"Pod({self.name!r}, runtime={self.runtime!r})"

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

    def container(
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
        elif resources is not None and not resources:
            resources = {"cpu": {"quota": 0}, "memory": {"limit": 0}}
        more = {"args": list(args), "env": list(env), "mounts": [dict(mount) for mount in mounts]}
        made = Container(
            self,
            name,
            annotations=dict(annotations or {}),
            resources=dict(resources or {}),
            pid=pid,
            cgroups_path=cgroups_path,
            image=image,
            adjustable={**more, "hooks": dict(hooks or {}), "linux": dict(linux or {})},
        )
        self.containers.append(made)
        return made

    def request(
        self,
        state: str,
        *,
        conf: Any = None,
        results: Iterable[Result] = (),
        late: bool = False,
        resources: Mapping[str, Any] | None = None,
    ) -> Request:
        """Return the request about the pod's sandbox.

        :raises ValueError: the runtime sends no request of this state about a sandbox.
        """
        self._require(state, self.profile.pod_states, "a pod's sandbox")
        value = pod_request(self, state, dict(resources or {}))
        return Request.from_value(value, "request").replace(conf=conf, results=tuple(results), late=late)

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
        if is_systemd:
            classes = "" if self.qos == "guaranteed" else f"-{self.qos}"
            return f"kubepods{classes}-pod{self.uid.replace('-', '_')}.slice"
        return f"/kubepods{'' if self.qos == 'guaranteed' else f'/{self.qos}'}/pod{self.uid}"

    def _require(self, state: str, known: tuple[str, ...], what: str) -> None:
        if state not in known:
            sends = f"it sends {', '.join(known)}" if known else "it sends none"
            raise ValueError(f"{self.runtime} sends no {state!r} about {what}: {sends}")


class Container:
    """A container of a pod; :meth:`Pod.container` makes it.

    :ivar resources: its ``linux.resources`` where they are not the recorded ones; a test may change it.
    :ivar annotations: its own annotations.
    """

    def __init__(
        self,
        pod: Pod,
        name: str,
        *,
        annotations: dict[str, str],
        resources: dict[str, Any],
        pid: int,
        cgroups_path: str | None,
        image: str,
        adjustable: dict[str, Any],
    ) -> None:
        self.pod, self.name, self.image = pod, name, image
        self.annotations, self.resources, self.adjustable = annotations, resources, adjustable
        self.id = made_up("container", pod.namespace, pod.name, name)
        if not pod.profile.has_pods and pod.runtime != "podman":
            self.id = name  # a person names it
        self._has_path = pod.runtime not in ("runc", "crun")
        # Without a cgroupsPath the pid must be one that Linux can give: the highest.
        self.pid = pid or (pod.pid if self._has_path else MAX_PID - 100) + 1 + len(pod.containers)
        self._given_path = cgroups_path

    def __repr__(self) -> str:
        return f"Container({self.name!r}, pod={self.pod.name!r}, runtime={self.pod.runtime!r})"

    @property
    def cgroups_path(self) -> str:
        """The cgroupsPath in its requests; "" if runc or crun was given none."""
        if self._given_path is not None:
            return self._given_path
        return self.pod.path_of(self.id) if self._has_path else ""

    @property
    def cgroup(self) -> str:
        """The path of its cgroup, below the mount of a hierarchy."""
        return expand(self.cgroups_path or f"/{self.id}")

    def request(
        self,
        state: str,
        *,
        conf: Any = None,
        results: Iterable[Result] = (),
        late: bool = False,
        resources: Mapping[str, Any] | None = None,
    ) -> Request:
        """Return the request about the container.

        :param conf: the plugin's conf, as its entry in the host configuration has it.
        :param results: those of the plugins that ran before.
        :param resources: the new ones, for ``resize`` and ``update``; each key replaces the container's.
        :raises ValueError: the runtime sends no request of this state about a container.
        """
        self.pod._require(state, self.pod.profile.states, "a container")
        value = container_request(self, state, {**self.resources, **(resources or {})})
        return Request.from_value(value, "request").replace(conf=conf, results=tuple(results), late=late)


def made_up(*names: str) -> str:
    """Return an id that follows from some names: 64 hexadecimal digits."""
    return hashlib.sha256("/".join(names).encode()).hexdigest()


def _check(name: str, value: object, known: tuple[object, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name}: found {value!r}, expected one of {', '.join(map(repr, known))}")
