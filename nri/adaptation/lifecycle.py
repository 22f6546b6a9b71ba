"""The lives of pods and containers, and their replay on a runtime.

The order of events is containerd's: first every pod is run and its containers are started, then each container gets
new resources, then all are stopped and removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

from nri.adaptation.errors import EventError
from nri.adaptation.runtime import Outcome, Runtime
from nri.types.v1 import Request, Spec
from nri.v2 import api
from nri.v2.api import Event, oci

_START = 1_700_000_000 * 10**9  # a time in 2023, nanoseconds
_SECOND = 10**9
_ON_BOTH = frozenset(
    [f"io.kubernetes.cri.sandbox-{key}" for key in ("id", "name", "namespace", "uid")]
)
_KIND = "io.cri-containerd.kind"

_NEVER = frozenset(Event.values())
SKIPPED: dict[int, frozenset[int]] = {
    Event.RUN_POD_SANDBOX: _NEVER,
    Event.CREATE_CONTAINER: _NEVER,
    Event.START_CONTAINER: _NEVER - {Event.REMOVE_CONTAINER},
    Event.UPDATE_CONTAINER: frozenset([Event.POST_UPDATE_CONTAINER]),
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
    """The requested resources of UpdateContainer."""


def pod_of(request: Request) -> api.PodSandbox:
    """Return the pod of a v0.1 ``create`` about its sandbox, as a runtime describes it."""
    spec = request.shown
    path = spec.cgroups_path
    kubelet = {}
    for key in ("name", "namespace", "uid"):
        kubelet[key] = request.labels.get(f"io.kubernetes.pod.{key}", "")

    return api.PodSandbox(
        id=request.id,
        **kubelet,
        pid=request.pid,
        labels=request.labels,
        annotations=spec.annotations,
        linux={
            "cgroup_parent": path.partition(":")[0] if ":" in path else path.rpartition("/")[0],
            "cgroups_path": path,
            "namespaces": _namespaces(spec),
            "resources": oci.resources_from_oci(spec.resources or {}),
        },
    )


def container_of(pod: api.PodSandbox, name: str, request: Request) -> api.Container:
    """Return the container of a v0.1 ``setup``, as a runtime describes it when it is about to be created."""
    spec = request.shown
    shown = spec.to_value()
    linux = {"resources": spec.resources or {}, "cgroupsPath": spec.cgroups_path}
    shown["linux"] = shown.get("linux", {}) | linux
    container = oci.container_from_oci(shown)
    container.linux.namespaces.extend(_namespaces(spec))
    container.id = request.id
    container.pod_sandbox_id = pod.id
    container.name = name
    container.state = api.ContainerState.CONTAINER_CREATED
    container.created_at = _START
    labels = {key: text for key, text in pod.labels.items() if key.startswith("io.kubernetes.pod.")}
    container.labels.update(labels | {"io.kubernetes.container.name": name})
    if _KIND in pod.labels:
        container.labels[_KIND] = "container"
    for key, text in spec.annotations.items():  # without the pod's, which the bridge has added
        if pod.annotations.get(key) != text or key in _ON_BOTH:
            container.annotations[key] = text
    return container


def _namespaces(spec: Spec) -> list[api.LinuxNamespace]:
    return [api.LinuxNamespace(type=kind, path=path) for kind, path in spec.namespaces.items()]


def lives(
    pods: Sequence[tuple[api.PodSandbox, Sequence[api.Container]]],
) -> Iterator[LifecycleEvent]:
    """Yield the events of the lives of pods, each with its containers."""
    for pod, members in pods:
        yield LifecycleEvent(event=Event.RUN_POD_SANDBOX, pod=pod)
        for index, container in enumerate(members):
            yield _now(Event.CREATE_CONTAINER, pod, container)
            yield _now(Event.POST_CREATE_CONTAINER, pod, container)
            container.pid = pod.pid + 1 + index
            yield _now(Event.START_CONTAINER, pod, container)
            container.state = api.ContainerState.CONTAINER_RUNNING
            container.started_at = container.created_at + _SECOND
            yield _now(Event.POST_START_CONTAINER, pod, container)
    for pod, members in pods:
        for container in members:
            yield replace(
                _now(Event.UPDATE_CONTAINER, pod, container), resources=deepcopy(_UPDATED)
            )
            yield _now(Event.POST_UPDATE_CONTAINER, pod, container)
    for pod, members in pods:
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


def _now(event: int, pod: api.PodSandbox, container: api.Container) -> LifecycleEvent:
    """Return an event with the container as it is now."""
    return LifecycleEvent(event=event, pod=pod, container=deepcopy(container))


def _ignore(item: LifecycleEvent, outcome: Outcome | None, error: EventError | None) -> None:
    """Do nothing after an event."""


class Replayer:
    """Replays events on a runtime. The plugins' adjustments of a container are shown in its later events.

    A pod or container that a plugin refuses is stopped and removed at once, as containerd does; its other events are
    skipped.

    :param on_event: called after each event, with its outcome or the error that made it fail.
    :ivar failed: the number of events that failed, or had an error that was logged.
    """

    def __init__(
        self,
        runtime: Runtime,
        on_event: Callable[[LifecycleEvent, Outcome | None, EventError | None], object] = _ignore,
    ) -> None:
        self.failed = 0
        self._runtime = runtime
        self._on_event = on_event
        self._skipped: dict[str, frozenset[int]] = {}

    def replay(self, lifecycle: Iterable[LifecycleEvent]) -> None:
        """Send the events, without those that an earlier failure has made impossible."""
        for item in lifecycle:
            skipped = self._skipped.get(item.pod.id, frozenset())
            if item.container is not None:
                skipped |= self._skipped.get(item.container.id, frozenset())
            if item.event not in skipped:
                self._send(item)

    def _send(self, item: LifecycleEvent) -> None:
        container = deepcopy(item.container)
        if container is not None and container.id in self._runtime.store.containers:
            # With the changes so far.
            whole = deepcopy(self._runtime.store.containers[container.id])
            for name in ("state", "pid", "created_at", "started_at", "finished_at"):
                setattr(whole, name, getattr(container, name))
            container = whole
        try:
            outcome = self._runtime.send(item.event, item.pod, container, resources=item.resources)
        except EventError as error:
            self._skipped[(container or item.pod).id] = SKIPPED.get(item.event, frozenset())
            self.failed += 1
            self._on_event(item, None, error)
            for event in UNDOING.get(item.event, ()):
                self._send(replace(item, event=event))
            return
        self.failed += outcome.error is not None
        self._on_event(item, outcome, None)
