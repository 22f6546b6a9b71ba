"""The pods and containers that exist, and the messages that synchronize a plugin with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any

from nri.adaptation.errors import AdaptationError
from nri.adaptation.merging import apply
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
    """Yield the requests in order; ``more`` is set on all but the last. At least one, maybe empty.

    All go into one; while it is longer than *limit* bytes fewer, at least ``LEAST``. Source:
    ``recalcObjsPerSyncMsg`` in pkg/adaptation/plugin.go of containerd/nri.

    :raises AdaptationError: so few are longer than the limit.
    """
    left: tuple[list[Any], list[Any]] = ([*pods], [*containers])
    counts = [len(items) for items in left]
    while True:
        part = api.SynchronizeRequest(pods=left[0][: counts[0]], containers=left[1][: counts[1]])
        part.more = any(len(items) > count for items, count in zip(left, counts, strict=True))
        if (size := part.ByteSize()) > limit:
            if sum(counts) <= LEAST:
                few = f"{sum(counts)} pods and containers are {size} bytes"
                raise AdaptationError(
                    f"could not be synchronized: {few}, expected at most {limit} for {LEAST} of them"
                )
            counts = [int(count * min(limit / size, 0.9)) for count in counts]
            if sum(counts) < LEAST:
                counts = [LEAST // 2, LEAST // 2]
        else:
            yield part
            if not part.more:
                return
            left = (left[0][counts[0] :], left[1][counts[1] :])
        counts = [min(count, len(items)) for count, items in zip(counts, left, strict=True)]
        if not any(counts):  # where NRI goes on with empty messages
            counts = [min(LEAST, len(items)) for items in left]
