"""The pods and containers that exist, with which a plugin that connects later is synchronized."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri import api
from nri.adaptation import merge
from nri.api.messages import copy_of

if TYPE_CHECKING:
    from collections.abc import Iterable

_STATES = {
    api.Event.CREATE_CONTAINER: api.ContainerState.CONTAINER_CREATED,
    api.Event.START_CONTAINER: api.ContainerState.CONTAINER_RUNNING,
    api.Event.STOP_CONTAINER: api.ContainerState.CONTAINER_STOPPED,
}
"""The state of a container after an event."""


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
            self.pods[pod.id] = copy_of(pod)
        if container is None:
            return
        if event == api.Event.REMOVE_CONTAINER:
            self.containers.pop(container.id, None)
            return
        copy = copy_of(container)
        earlier = self.containers.get(container.id)
        copy.state = _STATES.get(event, earlier.state if earlier is not None else copy.state)  # type: ignore[call-overload]
        self.containers[container.id] = copy

    def update(self, updates: Iterable[api.ContainerUpdate]) -> list[api.ContainerUpdate]:
        """Change containers' resources; returns the updates of containers that don't exist."""
        failed = []
        for update in updates:
            container = self.containers.get(update.container_id)
            if container is None:
                failed.append(update)
            else:
                merge.update(container, update.linux.resources)
        return failed
