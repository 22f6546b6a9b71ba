"""Made-up lives of pods and containers that look like containerd's, and their replay on a runtime.

All values follow from a seed: the same seed gives the same ids, uids and times. The order of events is containerd's:
first every pod is run and its containers are started, then each container gets new resources, then all are stopped
and removed. Process numbers are above those that Linux gives to processes, so that a plugin that looks one up finds
nothing, unless :class:`PodTemplate` sets one.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace

from nri.adaptation.errors import EventError
from nri.adaptation.merging import apply
from nri.adaptation.runtime import Outcome, Runtime
from nri.v2 import api
from nri.v2.api import Event

NO_PROCESS = 1 << 22
"""The first process number that Linux does not give to any process (``PID_MAX_LIMIT``)."""

_START = 1_700_000_000 * 10**9  # a time in 2023, nanoseconds
_SECOND = 10**9
_PERIOD = 100_000  # microseconds

_NEVER = frozenset(Event.values())
SKIPPED: dict[int, frozenset[int]] = {
    Event.RUN_POD_SANDBOX: _NEVER,
    Event.CREATE_CONTAINER: _NEVER,
    Event.START_CONTAINER: _NEVER - {Event.REMOVE_CONTAINER},
    Event.UPDATE_CONTAINER: frozenset([Event.POST_UPDATE_CONTAINER]),
    Event.UPDATE_POD_SANDBOX: frozenset([Event.POST_UPDATE_POD_SANDBOX]),
}
"""The events of a pod or container that are skipped after one of its events has failed."""

UNDOING: dict[int, tuple[int, ...]] = {
    Event.RUN_POD_SANDBOX: (Event.STOP_POD_SANDBOX, Event.REMOVE_POD_SANDBOX),
    Event.CREATE_CONTAINER: (Event.STOP_CONTAINER, Event.REMOVE_CONTAINER),
}
"""The events that a runtime sends right after one that has failed, so that plugins forget the pod or container.

Also plugins that were not asked any more, and the one that refused, get them.
"""

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
    cpus: float = 0.5
    """The CPU limit of each container; 0 for none."""
    memory: int = 256 << 20
    """The memory limit of each container in bytes; 0 for none."""

    def pod(self, number: int = 0) -> api.PodSandbox:
        """Return a pod whose process runs."""
        id_, uid = self._id("pod", number), str(uuid.UUID(self._id("uid", number)[:32]))
        name = f"web-{number}"
        if self.cgroup_parent.endswith(".slice"):  # as the kubelet names the cgroups of pods
            parent = f"{self.cgroup_parent.removesuffix('.slice')}-pod{uid.replace('-', '_')}.slice"
        else:
            parent = f"{self.cgroup_parent.rstrip('/')}/pod{uid}"
        return api.PodSandbox(
            id=id_,
            name=name,
            uid=uid,
            namespace=self.namespace,
            pid=self.pid or NO_PROCESS + 100 * number,
            ips=[f"10.88.{number // 250}.{number % 250 + 2}"],
            labels={"app": "web", **self.labels, **_labels("sandbox", name, self.namespace, uid)},
            annotations={
                **self.annotations,
                **_annotations("sandbox", id_, name, self.namespace, uid),
                "io.kubernetes.cri.podsandbox.image-name": "registry.k8s.io/pause:3.10",
                "io.kubernetes.cri.sandbox-log-directory": f"/var/log/pods/{self.namespace}_{name}_{uid}",
            },
            linux=api.LinuxPodSandbox(
                cgroup_parent=parent,
                cgroups_path=_below(parent, id_),
                namespaces=[{"type": kind} for kind in ("pid", "ipc", "uts", "mount", "network")],
                resources={"cpu": {"shares": {"value": 2}}, "devices": [{"access": "rwm"}]},
            ),
        )

    def container(self, pod: api.PodSandbox, number: int = 0) -> api.Container:
        """Return a container of ``pod`` that is about to be created."""
        id_, name = self._id("container", f"{pod.id}/{number}"), f"app-{number}"
        joined = {"network": "net", "ipc": "ipc", "uts": "uts"}
        return api.Container(
            id=id_,
            pod_sandbox_id=pod.id,
            name=name,
            state=api.ContainerState.CONTAINER_CREATED,
            labels={"io.kubernetes.container.name": name, **_labels("container", pod.name, pod.namespace, pod.uid)},
            annotations={
                "io.kubernetes.cri.container-name": name,
                "io.kubernetes.cri.image-name": "docker.io/library/nginx:1.27",
                **_annotations("container", pod.id, pod.name, pod.namespace, pod.uid),
            },
            args=["nginx", "-g", "daemon off;"],
            env=["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", f"HOSTNAME={pod.name}"],
            mounts=[
                {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            ],
            linux=api.LinuxContainer(
                namespaces=[
                    *({"type": kind} for kind in ("pid", "mount")),
                    *({"type": kind, "path": f"/proc/{pod.pid}/ns/{file}"} for kind, file in joined.items()),
                ],
                cgroups_path=_below(pod.linux.cgroup_parent, id_),
                oom_score_adj={"value": 1000},
                resources={
                    "cpu": {
                        "shares": {"value": 512},
                        "quota": {"value": int(self.cpus * _PERIOD) or -1},
                        "period": {"value": _PERIOD},
                    },
                    "memory": {"limit": {"value": self.memory}} if self.memory else {},
                    "devices": [{"access": "rwm"}],
                },
            ),
            created_at=_START + number * _SECOND,
        )

    def lives(self, pods: int = 1, containers: int = 1) -> Iterator[LifecycleEvent]:
        """Yield the events of the lives of ``pods`` pods, each with ``containers`` containers."""
        sandboxes = [self.pod(number) for number in range(pods)]
        everything = [(pod, [self.container(pod, index) for index in range(containers)]) for pod in sandboxes]
        for pod, members in everything:
            yield LifecycleEvent(event=Event.RUN_POD_SANDBOX, pod=pod)
            for index, container in enumerate(members):
                yield _now(Event.CREATE_CONTAINER, pod, container)
                yield _now(Event.POST_CREATE_CONTAINER, pod, container)
                container.pid = self.pid or pod.pid + 1 + index
                yield _now(Event.START_CONTAINER, pod, container)
                container.state = api.ContainerState.CONTAINER_RUNNING
                container.started_at = container.created_at + _SECOND
                yield _now(Event.POST_START_CONTAINER, pod, container)
        for pod, members in everything:
            for container in members:
                yield replace(_now(Event.UPDATE_CONTAINER, pod, container), resources=deepcopy(_UPDATED))
                container.linux.resources.cpu.CopyFrom(_UPDATED.cpu)
                container.linux.resources.memory.CopyFrom(_UPDATED.memory)
                yield _now(Event.POST_UPDATE_CONTAINER, pod, container)
        for pod, members in everything:
            for container in members:
                yield _now(Event.STOP_CONTAINER, pod, container)
                container.state = api.ContainerState.CONTAINER_STOPPED
                container.finished_at = container.started_at + 60 * _SECOND
                container.pid = 0
            gone = deepcopy(pod)
            gone.pid = 0
            yield LifecycleEvent(event=Event.STOP_POD_SANDBOX, pod=gone)
            for container in members:
                yield _now(Event.REMOVE_CONTAINER, gone, container)
            yield LifecycleEvent(event=Event.REMOVE_POD_SANDBOX, pod=gone)

    def _id(self, kind: str, number: object) -> str:
        return hashlib.sha256(f"{self.seed}/{kind}/{number}".encode()).hexdigest()


def _labels(kind: str, name: str, namespace: str, uid: str) -> dict[str, str]:
    pod = {"name": name, "namespace": namespace, "uid": uid}
    return {f"io.kubernetes.pod.{key}": value for key, value in pod.items()} | {"io.cri-containerd.kind": kind}


def _annotations(kind: str, id_: str, name: str, namespace: str, uid: str) -> dict[str, str]:
    sandbox = {"id": id_, "name": name, "namespace": namespace, "uid": uid}
    about = {f"io.kubernetes.cri.sandbox-{key}": value for key, value in sandbox.items()}
    return about | {"io.kubernetes.cri.container-type": kind}


def _below(parent: str, id_: str) -> str:
    """Return the cgroup of a sandbox or container, as containerd names it below the pod's."""
    return f"{parent}:cri-containerd:{id_}" if parent.endswith(".slice") else f"{parent}/{id_}"


def _now(event: int, pod: api.PodSandbox, container: api.Container) -> LifecycleEvent:
    """Return an event with the container as it is now."""
    return LifecycleEvent(event=event, pod=pod, container=deepcopy(container))


class Replayer:
    """Replays events on a runtime. The plugins' adjustments of a container are shown in its later events.

    A pod or container that a plugin refuses is stopped and removed at once, as containerd does; its other events are
    skipped.

    :param on_event: called after each event, with its outcome or the error that made it fail.
    :param before: called before each event.
    :ivar failed: the number of events that failed, or had an error that was logged.
    """

    def __init__(
        self,
        runtime: Runtime,
        on_event: Callable[[LifecycleEvent, Outcome | None, EventError | None], None] | None = None,
        before: Callable[[LifecycleEvent], None] | None = None,
    ) -> None:
        self.failed, self._runtime = 0, runtime
        self._on_event = on_event or (lambda item, outcome, error: None)
        self._before = before or (lambda item: None)
        self._skipped: dict[str, frozenset[int]] = {}
        self._changes: dict[str, list[api.ContainerAdjustment | api.LinuxResources]] = {}

    def replay(self, lifecycle: Iterable[LifecycleEvent]) -> None:
        """Send the events, without those that an earlier failure has made impossible."""
        for item in lifecycle:
            subjects = [item.pod.id] + ([item.container.id] if item.container is not None else [])
            if not any(item.event in self._skipped.get(id_, ()) for id_ in subjects):
                self._send(item)

    def _send(self, item: LifecycleEvent) -> None:
        container = deepcopy(item.container)
        if container is not None:
            for change in self._changes.get(container.id, ()):
                apply(container, change)
        self._before(item)
        try:
            outcome = self._runtime.send(
                item.event, item.pod, container, resources=item.resources, overhead=item.overhead
            )
        except EventError as error:
            self._skipped[(container or item.pod).id] = SKIPPED.get(item.event, frozenset())
            self.failed += 1
            self._on_event(item, None, error)
            for event in UNDOING.get(item.event, ()):
                self._send(replace(item, event=event))
            return
        self.failed += outcome.error is not None
        self._note(item, outcome)
        self._on_event(item, outcome, None)

    def _note(self, item: LifecycleEvent, outcome: Outcome) -> None:
        """Keep what the event has changed, for the later events of the containers."""
        if item.container is not None and item.event == Event.CREATE_CONTAINER:
            self._changes[item.container.id] = [outcome.adjustment]
        if item.container is not None and item.event == Event.UPDATE_CONTAINER and item.resources is not None:
            self._changes.setdefault(item.container.id, []).append(item.resources)
        for update in outcome.updates:
            self._changes.setdefault(update.container_id, []).append(update.linux.resources)
