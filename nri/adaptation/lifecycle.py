"""Made-up lives of pods and containers that look like containerd's.

All values follow from a seed: the same seed gives the same ids, uids and times. The order of events is containerd's:
first every pod is run and its containers are started, then each container gets new resources, then all are stopped
and removed. Process numbers are above those that Linux gives to processes, so that a plugin that looks one up finds
nothing, unless :class:`PodTemplate` sets one.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from nri import api
from nri.api import Event
from nri.api.messages import copy_of

NO_PROCESS = 1 << 22
"""The first process number that Linux does not give to any process (``PID_MAX_LIMIT``)."""

_START = 1_700_000_000 * 10**9  # a time in 2023, nanoseconds
_SECOND = 10**9
_UPDATED = api.LinuxResources(
    cpu={"shares": {"value": 1024}, "quota": {"value": 100000}, "period": {"value": 100000}},
    memory={"limit": {"value": 512 * 1024 * 1024}},
)


@dataclass(frozen=True, kw_only=True)
class LifecycleEvent:
    """One event of a pod's life, with its pod and container."""

    event: int
    pod: api.PodSandbox
    container: api.Container | None = None
    resources: api.LinuxResources | None = None
    """The requested resources of UpdateContainer and UpdatePodSandbox."""
    overhead: api.LinuxResources | None = None


@dataclass(frozen=True, kw_only=True)
class PodTemplate:
    """The values that the made-up pods and containers have in common."""

    seed: int = 0
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of each pod. containerd does not pass them on to the containers."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of each pod."""
    cgroup_parent: str = "/kubepods/burstable"
    """The pods' parent cgroup: a path, or a slice as in ``kubepods-burstable.slice``."""
    pid: int = 0
    """Process number of every process; 0 makes one up for each."""
    namespace: str = "default"

    def pod(self, number: int = 0) -> api.PodSandbox:
        """Return a pod whose process runs."""
        id_, uid = self._id("pod", number), str(uuid.UUID(self._id("uid", number)[:32]))
        name = f"web-{number}"
        log_directory = f"/var/log/pods/{self.namespace}_{name}_{uid}"
        parent, path = self._cgroups(uid, id_)
        return api.PodSandbox(
            id=id_,
            name=name,
            uid=uid,
            namespace=self.namespace,
            pid=self.pid or NO_PROCESS + 100 * number,
            ips=[f"10.88.{number // 250}.{number % 250 + 2}"],
            labels={
                "app": "web",
                **self.labels,
                "io.kubernetes.pod.name": name,
                "io.kubernetes.pod.namespace": self.namespace,
                "io.kubernetes.pod.uid": uid,
                "io.cri-containerd.kind": "sandbox",
            },
            annotations={
                **self.annotations,
                "io.kubernetes.cri.container-type": "sandbox",
                "io.kubernetes.cri.podsandbox.image-name": "registry.k8s.io/pause:3.10",
                "io.kubernetes.cri.sandbox-id": id_,
                "io.kubernetes.cri.sandbox-log-directory": log_directory,
                "io.kubernetes.cri.sandbox-name": name,
                "io.kubernetes.cri.sandbox-namespace": self.namespace,
                "io.kubernetes.cri.sandbox-uid": uid,
            },
            linux=api.LinuxPodSandbox(
                cgroup_parent=parent,
                cgroups_path=path,
                namespaces=[
                    {"type": "pid"},
                    {"type": "ipc"},
                    {"type": "uts"},
                    {"type": "mount"},
                    {"type": "network"},
                ],
                resources={"cpu": {"shares": {"value": 2}}, "devices": [{"access": "rwm"}]},
            ),
        )

    def container(self, pod: api.PodSandbox, number: int = 0) -> api.Container:
        """Return a container of ``pod`` that is about to be created."""
        id_, name = self._id("container", f"{pod.id}/{number}"), f"app-{number}"
        joined = {"network": "net", "ipc": "ipc", "uts": "uts"}
        namespaces = [api.LinuxNamespace(type="pid"), api.LinuxNamespace(type="mount")]
        namespaces += [api.LinuxNamespace(type=kind, path=f"/proc/{pod.pid}/ns/{joined[kind]}") for kind in joined]
        return api.Container(
            id=id_,
            pod_sandbox_id=pod.id,
            name=name,
            state=api.ContainerState.CONTAINER_CREATED,
            labels={
                "io.kubernetes.container.name": name,
                "io.kubernetes.pod.name": pod.name,
                "io.kubernetes.pod.namespace": pod.namespace,
                "io.kubernetes.pod.uid": pod.uid,
                "io.cri-containerd.kind": "container",
            },
            annotations={
                "io.kubernetes.cri.container-name": name,
                "io.kubernetes.cri.container-type": "container",
                "io.kubernetes.cri.image-name": "docker.io/library/nginx:1.27",
                "io.kubernetes.cri.sandbox-id": pod.id,
                "io.kubernetes.cri.sandbox-name": pod.name,
                "io.kubernetes.cri.sandbox-namespace": pod.namespace,
                "io.kubernetes.cri.sandbox-uid": pod.uid,
            },
            args=["nginx", "-g", "daemon off;"],
            env=["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", f"HOSTNAME={pod.name}"],
            mounts=[
                {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            ],
            linux=api.LinuxContainer(
                namespaces=namespaces,
                cgroups_path=self._below(pod.linux.cgroup_parent, id_),
                oom_score_adj={"value": 1000},
                resources={
                    "cpu": {"shares": {"value": 512}, "quota": {"value": 50000}, "period": {"value": 100000}},
                    "memory": {"limit": {"value": 256 * 1024 * 1024}},
                    "devices": [{"access": "rwm"}],
                },
            ),
            created_at=_START + number * _SECOND,
        )

    def lives(self, pods: int = 1, containers: int = 1) -> Iterator[LifecycleEvent]:
        """Yield the events of so many pods' lives, each with so many containers."""
        everything = []
        for number in range(pods):
            pod = self.pod(number)
            everything.append((pod, [self.container(pod, index) for index in range(containers)]))
        for pod, members in everything:
            yield LifecycleEvent(event=Event.RUN_POD_SANDBOX, pod=pod)
            for index, container in enumerate(members):
                yield LifecycleEvent(event=Event.CREATE_CONTAINER, pod=pod, container=copy_of(container))
                yield LifecycleEvent(event=Event.POST_CREATE_CONTAINER, pod=pod, container=copy_of(container))
                container.pid = self.pid or pod.pid + 1 + index
                yield LifecycleEvent(event=Event.START_CONTAINER, pod=pod, container=copy_of(container))
                container.state = api.ContainerState.CONTAINER_RUNNING
                container.started_at = container.created_at + _SECOND
                yield LifecycleEvent(event=Event.POST_START_CONTAINER, pod=pod, container=copy_of(container))
        for pod, members in everything:
            for container in members:
                yield LifecycleEvent(
                    event=Event.UPDATE_CONTAINER, pod=pod, container=copy_of(container), resources=copy_of(_UPDATED)
                )
                container.linux.resources.cpu.CopyFrom(_UPDATED.cpu)
                container.linux.resources.memory.CopyFrom(_UPDATED.memory)
                yield LifecycleEvent(event=Event.POST_UPDATE_CONTAINER, pod=pod, container=copy_of(container))
        for pod, members in everything:
            for container in members:
                yield LifecycleEvent(event=Event.STOP_CONTAINER, pod=pod, container=copy_of(container))
                container.state = api.ContainerState.CONTAINER_STOPPED
                container.finished_at = container.started_at + 60 * _SECOND
                container.pid = 0
            gone = copy_of(pod)
            gone.pid = 0
            yield LifecycleEvent(event=Event.STOP_POD_SANDBOX, pod=gone)
            for container in members:
                yield LifecycleEvent(event=Event.REMOVE_CONTAINER, pod=gone, container=copy_of(container))
            yield LifecycleEvent(event=Event.REMOVE_POD_SANDBOX, pod=gone)

    def _id(self, kind: str, number: object) -> str:
        return hashlib.sha256(f"{self.seed}/{kind}/{number}".encode()).hexdigest()

    def _cgroups(self, uid: str, id_: str) -> tuple[str, str]:
        """Return the cgroups of a pod and its sandbox, as kubelet and containerd name them."""
        if self.cgroup_parent.endswith(".slice"):
            stem = self.cgroup_parent.removesuffix(".slice")
            parent = f"{stem}-pod{uid.replace('-', '_')}.slice"
        else:
            parent = f"{self.cgroup_parent.rstrip('/')}/pod{uid}"
        return parent, self._below(parent, id_)

    @staticmethod
    def _below(parent: str, id_: str) -> str:
        return f"{parent}:cri-containerd:{id_}" if parent.endswith(".slice") else f"{parent}/{id_}"
