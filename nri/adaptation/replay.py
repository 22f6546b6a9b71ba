"""Takes pods and containers through their lives: step after step, as far as the plugins let them come."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from nri import api
from nri.adaptation import merge
from nri.adaptation.errors import EventError
from nri.api import Event

if TYPE_CHECKING:
    from nri.adaptation.lifecycle import Step
    from nri.adaptation.runtime import Outcome, Runtime

_NEVER = frozenset(Event.values())
SKIPPED: dict[int, frozenset[int]] = {
    Event.RUN_POD_SANDBOX: _NEVER,
    Event.CREATE_CONTAINER: _NEVER,
    Event.START_CONTAINER: _NEVER - {Event.REMOVE_CONTAINER},
    Event.UPDATE_CONTAINER: frozenset([Event.POST_UPDATE_CONTAINER]),
    Event.UPDATE_POD_SANDBOX: frozenset([Event.POST_UPDATE_POD_SANDBOX]),
}
"""What of a pod or container does not come any more after an event of it has failed."""


class Replayer:
    """Plays steps on a runtime.

    What plugins have adjusted stays with a container: the later steps show it so.

    :param on_step: told of each step, after it: with its outcome, or the error that made it fail.
    :ivar failed: how many steps have failed, or had an error that was logged.
    """

    def __init__(
        self, runtime: Runtime, on_step: Callable[[Step, Outcome | None, EventError | None], None] | None = None
    ) -> None:
        self.failed = 0
        self._runtime = runtime
        self._on_step = on_step
        self._skipped: dict[str, frozenset[int]] = {}
        self._changes: dict[str, api.ContainerAdjustment] = {}

    def play(self, steps: Iterable[Step]) -> None:
        """Send what the steps say, without those that an earlier failure has made impossible."""
        for step in steps:
            subjects = [step.pod.id] + ([step.container.id] if step.container is not None else [])
            if not any(step.event in self._skipped.get(id_, ()) for id_ in subjects):
                self._step(step)

    def _step(self, step: Step) -> None:
        container = self._shown(step.container)
        outcome: Outcome | None = None
        error: EventError | None = None
        try:
            outcome = self._runtime.send(
                step.event, step.pod, container, resources=step.resources, overhead=step.overhead
            )
        except EventError as failure:
            error = failure
            subject = container.id if container is not None else step.pod.id
            self._skipped[subject] = SKIPPED.get(step.event, frozenset())
        else:
            if container is not None and step.event == Event.CREATE_CONTAINER:
                self._changes[container.id] = outcome.adjustment
            updates = list(outcome.updates)
            if container is not None and step.resources is not None:
                asked = api.LinuxContainerUpdate(resources=step.resources)
                updates.insert(0, api.ContainerUpdate(container_id=container.id, linux=asked))
            for update in updates:
                change = self._changes.setdefault(update.container_id, api.ContainerAdjustment())
                merge.add(update, change)
        if error is not None or (outcome is not None and outcome.error is not None):
            self.failed += 1
        if self._on_step is not None:
            self._on_step(step, outcome, error)

    def _shown(self, container: api.Container | None) -> api.Container | None:
        """The container as it is with what plugins have changed."""
        if container is None or container.id not in self._changes:
            return container
        shown = api.Container()
        shown.CopyFrom(container)
        merge.adjust(shown, self._changes[container.id])
        return shown
