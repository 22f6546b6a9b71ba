"""Replay the events of pods' lives on a runtime, as far as the plugins allow."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from nri import api
from nri.adaptation import merge
from nri.adaptation.errors import EventError
from nri.api import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nri.adaptation.lifecycle import LifecycleEvent
    from nri.adaptation.runtime import Outcome, Runtime

_NEVER = frozenset(Event.values())
SKIPPED: dict[int, frozenset[int]] = {
    Event.RUN_POD_SANDBOX: _NEVER,
    Event.CREATE_CONTAINER: _NEVER,
    Event.START_CONTAINER: _NEVER - {Event.REMOVE_CONTAINER},
    Event.UPDATE_CONTAINER: frozenset([Event.POST_UPDATE_CONTAINER]),
    Event.UPDATE_POD_SANDBOX: frozenset([Event.POST_UPDATE_POD_SANDBOX]),
}
"""The events of a pod or container that are skipped after one of its events has failed."""


class Replayer:
    """Replays events on a runtime.

    The plugins' adjustments of a container are shown in its later events.

    :param on_event: called after each event, with its outcome or the error that made it fail.
    :ivar failed: the number of events that failed, or had an error that was logged.
    """

    def __init__(
        self,
        runtime: Runtime,
        on_event: Callable[[LifecycleEvent, Outcome | None, EventError | None], None] | None = None,
    ) -> None:
        self.failed = 0
        self._runtime = runtime
        self._on_event = on_event or (lambda item, outcome, error: None)
        self._skipped: dict[str, frozenset[int]] = {}
        self._changes: dict[str, api.ContainerAdjustment] = {}

    def replay(self, lifecycle: Iterable[LifecycleEvent]) -> None:
        """Send the events, without those that an earlier failure has made impossible."""
        for item in lifecycle:
            subjects = [item.pod.id] + ([item.container.id] if item.container is not None else [])
            if not any(item.event in self._skipped.get(id_, ()) for id_ in subjects):
                self._send(item)

    def _send(self, item: LifecycleEvent) -> None:
        container = item.container
        if container is not None and container.id in self._changes:
            container = deepcopy(container)
            merge.adjust(container, self._changes[container.id])
        try:
            outcome = self._runtime.send(
                item.event, item.pod, container, resources=item.resources, overhead=item.overhead
            )
        except EventError as error:
            self._skipped[(container or item.pod).id] = SKIPPED.get(item.event, frozenset())
            self.failed += 1
            self._on_event(item, None, error)
            return
        if container is not None and item.event == Event.CREATE_CONTAINER:
            self._changes[container.id] = outcome.adjustment
        updates = list(outcome.updates)
        if container is not None and item.resources is not None:
            requested = api.LinuxContainerUpdate(resources=item.resources)
            updates.insert(0, api.ContainerUpdate(container_id=container.id, linux=requested))
        for update in updates:
            merge.add(update, self._changes.setdefault(update.container_id, api.ContainerAdjustment()))
        self.failed += outcome.error is not None
        self._on_event(item, outcome, None)
