"""The pods and containers that exist, and the messages that synchronize a plugin with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy

from nri.adaptation.fields import of_resources
from nri.adaptation.merging import apply
from nri.errors import NRIError
from nri.v2 import api
from nri.v2.ttrpc import MAX_DATA

MAX_PART = MAX_DATA - 1024
"""Bytes of the longest part of a Synchronize: a message frame without its envelope."""

LEAST = 8
"""Pods and containers of a part at least, if there are so many."""

_STATES = {  # the state of a container after an event
    api.Event.CREATE_CONTAINER: api.ContainerState.CONTAINER_CREATED,
    api.Event.START_CONTAINER: api.ContainerState.CONTAINER_RUNNING,
    api.Event.STOP_CONTAINER: api.ContainerState.CONTAINER_STOPPED,
}


class Store:
    """Pods and containers by id, in the order of their first event."""

    def __init__(self) -> None:
        self.pods: dict[str, api.PodSandbox] = {}
        self.containers: dict[str, api.Container] = {}

    def note(self, event: int, pod: api.PodSandbox, container: api.Container | None) -> None:
        """Record an event that has succeeded, and so a pod or container that was not known."""
        if event == api.Event.REMOVE_POD_SANDBOX:
            self.pods.pop(pod.id, None)
        else:
            self.pods[pod.id] = deepcopy(pod)
        if container is None:
            return
        if event == api.Event.REMOVE_CONTAINER:
            self.containers.pop(container.id, None)
        else:
            copy = deepcopy(container)
            copy.state = _STATES.get(event, self.containers.get(copy.id, copy).state)  # type: ignore[call-overload]
            self.containers[copy.id] = copy

    def update(self, updates: Iterable[api.ContainerUpdate]) -> list[api.ContainerUpdate]:
        """Change containers' resources; returns the updates of containers that don't exist."""
        failed = []
        for update in updates:
            if (container := self.containers.get(update.container_id)) is None:
                failed.append(update)
            else:
                apply(container, of_resources(update.linux.resources))
        return failed


def parts(
    pods: Iterable[api.PodSandbox], containers: Iterable[api.Container], limit: int = MAX_PART
) -> Iterator[api.SynchronizeRequest]:
    """Yield the requests in order; ``more`` is set on all but the last. At least one, maybe empty.

    All go into one; while it is longer than *limit* bytes fewer, at least ``LEAST``. Source:
    ``recalcObjsPerSyncMsg`` in pkg/adaptation/plugin.go of containerd/nri.

    :raises NRIError: so few are longer than the limit.
    """
    pods = [*pods]
    containers = [*containers]
    whole = len(pods) + len(containers)
    at = 0
    count = whole
    while True:
        end = min(at + count, whole)
        first = max(0, at - len(pods))
        last = max(0, end - len(pods))
        part = api.SynchronizeRequest(pods=pods[at:end], containers=containers[first:last])
        part.more = end < whole
        size = part.ByteSize()
        if size <= limit:
            yield part
            at = end
            if not part.more:
                return
        elif end - at <= LEAST:
            few = f"{end - at} pods and containers are {size} bytes"
            raise NRIError(f"{few}, expected at most {limit} for {LEAST} of them")
        else:
            count = max(LEAST, int((end - at) * min(limit / size, 0.9)))
