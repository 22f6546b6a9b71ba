"""The pods and containers that there are, so that a plugin that comes later can be told of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri import api
from nri.adaptation import merge

if TYPE_CHECKING:
    from collections.abc import Iterable

_STATES = {
    api.Event.CREATE_CONTAINER: api.ContainerState.CONTAINER_CREATED,
    api.Event.START_CONTAINER: api.ContainerState.CONTAINER_RUNNING,
    api.Event.STOP_CONTAINER: api.ContainerState.CONTAINER_STOPPED,
}
"""What state a container is in after an event."""


class Store:
    """Pods and containers by id, in the order in which they came."""

    def __init__(self) -> None:
        self.pods: dict[str, api.PodSandbox] = {}
        self.containers: dict[str, api.Container] = {}

    def note(self, event: int, pod: api.PodSandbox, container: api.Container | None) -> None:
        """Take note of an event that has succeeded; a pod or container that was not known is from now on."""
        if event == api.Event.REMOVE_POD_SANDBOX:
            self.pods.pop(pod.id, None)
        else:
            self.pods[pod.id] = _copy_pod(pod)
        if container is None:
            return
        if event == api.Event.REMOVE_CONTAINER:
            self.containers.pop(container.id, None)
            return
        copy = api.Container()
        copy.CopyFrom(container)
        earlier = self.containers.get(container.id)
        copy.state = _STATES.get(event, earlier.state if earlier is not None else copy.state)  # type: ignore[call-overload]
        self.containers[container.id] = copy

    def update(self, updates: Iterable[api.ContainerUpdate]) -> list[api.ContainerUpdate]:
        """Change containers' resources; returns the updates of those that are not there."""
        failed = []
        for update in updates:
            container = self.containers.get(update.container_id)
            if container is None:
                failed.append(update)
            else:
                merge.update(container, update.linux.resources)
        return failed


def _copy_pod(pod: api.PodSandbox) -> api.PodSandbox:
    copy = api.PodSandbox()
    copy.CopyFrom(pod)
    return copy
