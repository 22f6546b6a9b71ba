"""The pods and containers that exist, and the messages that synchronize a plugin with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy

from nri.adaptation.merging import apply
from nri.v2 import api
from nri.v2.ttrpc import MAX_DATA

MAX_PART = MAX_DATA - 1024
"""Bytes of the longest part of a Synchronize: a message frame without its envelope."""

_AROUND = 6  # bytes of an element's tag and length in a part
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
        if event == api.Event.REMOVE_CONTAINER and container is not None:
            self.containers.pop(container.id, None)
        elif container is not None:
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
                apply(container, update.linux.resources)
        return failed


def parts(
    pods: Iterable[api.PodSandbox], containers: Iterable[api.Container], limit: int = MAX_PART
) -> Iterator[api.SynchronizeRequest]:
    """Yield the requests in order, pods first; ``more`` is set on all but the last. At least one, maybe empty.

    A pod or container that is longer than the limit is a part of its own, and the sender refuses to send it.
    """
    part, size = api.SynchronizeRequest(), 0
    for name, items in (("pods", pods), ("containers", containers)):
        for item in items:
            length = item.ByteSize() + _AROUND
            if size and size + length > limit:
                part.more = True
                yield part
                part, size = api.SynchronizeRequest(), 0
            getattr(part, name).append(item)
            size += length
    yield part
