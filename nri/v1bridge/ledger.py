"""What the bridge has done, for those who ask over the status socket.

An event leaves a note, which is one append to a list. Its thread enters the notes after the runtime has its answer,
unless another thread is at it. So no event waits for a reader, and a reader waits for microseconds.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from nri.errors import bounded, escape
from nri.types.v1 import State
from nri.v1bridge.counts import MAX_ERROR, MAX_PLUGINS, EventCounts, PluginCounts
from nri.v1bridge.exchanges import MOST, PodExchange, split_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from nri.client import Step
    from nri.types.v1 import Request
    from nri.v2.ttrpc import Call

MAX_NAME = 1024
"""Bytes of the name of a pod and container that are kept."""

MAX_WITHOUT = 1000
"""Pods and containers that run without their plugins, as the status lists them; the oldest are dropped."""


class _Answered(NamedTuple):
    """The note of an event of the runtime."""

    event: str
    seconds: float
    waiting: float
    allowed: float | None
    has_failed: bool
    is_late: bool


class _Run(NamedTuple):
    """The note of a chain."""

    name: str
    request: Request
    event: str
    steps: Sequence[Step]
    time: float
    seconds: float
    error: str


class Ledger:
    """Counts events and runs, and keeps the last exchanges. All methods may be called from any thread.

    :param events: the names of the events to come, which are counted from 0.
    """

    def __init__(self, events: Iterable[str] = ()) -> None:
        self._notes: deque[_Answered | _Run] = deque()
        self._entering = threading.Lock()
        self._events = {event: EventCounts() for event in events}
        self._plugins: dict[tuple[str, str], PluginCounts] = {}  # by type and file, the latest last
        self._exchanges: deque[PodExchange] = deque(maxlen=MOST)
        self._forgotten = 0  # exchanges
        self._without: dict[str, dict[str, Any]] = {}  # by id

    def answered(self, call: Call) -> None:
        """Note that an event has been answered."""
        allowed = None if call.deadline is None else call.deadline - call.received
        seconds, waiting = call.answered - call.received, call.begun - call.received
        self._notes.append(_Answered(call.event, seconds, waiting, allowed, call.has_failed, call.is_late))

    def ran(self, name: str, request: Request, event: str, steps: Sequence[Step], seconds: float, error: str) -> None:
        """Note the outcome of a chain that had plugins.

        :param name: ``NAMESPACE/POD[/CONTAINER]``.
        :param event: the runtime's event; "" for a late create.
        :param error: what the runtime is answered, "" without an error.
        """
        if steps:
            self._notes.append(_Run(name, request, event, steps, time.time(), seconds, error))
            if request.state == State.CREATE:
                self._note_create(name, request, steps, error)

    def runs_without(self, name: str, request: Request, why: str, plugin: str | None = None) -> None:
        """Note that a pod or container runs without its plugins, or one of them; the first reason counts."""
        pod, container = split_name(name)
        self._without.setdefault(
            request.id,
            {
                "id": request.id,
                "pod": pod,
                "container": container or None,
                "plugin": plugin,
                "since": round(time.time(), 3),
                "why": bounded(escape(why), MAX_ERROR),
            },
        )
        while len(self._without) > MAX_WITHOUT:
            self._without.pop(next(iter(self._without)), None)

    def forget(self, id_: str) -> None:
        """Note that a pod or container has ended."""
        self._without.pop(id_, None)

    def keep(self, existing: Collection[str]) -> None:
        """Forget all but the *existing* ids."""
        self._without = {id_: each for id_, each in list(self._without.items()) if id_ in existing}

    def without(self) -> list[dict[str, Any]]:
        """Return the pods and containers that run without their plugins, as the status has them."""
        return list(self._without.values())

    def _note_create(self, name: str, request: Request, steps: Sequence[Step], error: str) -> None:
        """Note a ``create`` after which a container runs; one that has failed for an event is refused."""
        failed = [(step.plugin.type, step.error.reason) for step in steps if step.error is not None]
        if not failed:
            self.forget(request.id)
        elif not error or request.late:
            kind = "the late create has failed" if error else "its failure is ignored"
            plugin, why = failed[-1]
            self.runs_without(name, request, f"{kind}: {why}", plugin)

    def enter(self) -> None:
        """Enter the notes, unless another thread is at it."""
        if self._notes and self._entering.acquire(blocking=False):
            try:
                self._enter()
            finally:
                self._entering.release()

    def events(self) -> list[dict[str, Any]]:
        """Return the events as the status has them, by name."""
        with self._entering:
            self._enter()
            return [{"event": event, **counts.to_value()} for event, counts in sorted(self._events.items())]

    def runs(self, plugin: str, source: str) -> dict[str, Any]:
        """Return what is counted for a plugin, as the status has it."""
        with self._entering:
            self._enter()
            return self._plugins.get((plugin, source), _NONE).to_value()

    def exchanges(self, pod: str) -> tuple[list[PodExchange], int]:
        """Return the exchanges with a pod, and how many of all pods are forgotten.

        :param pod: ``NAMESPACE/POD``.
        """
        with self._entering:
            self._enter()
            return [each for each in self._exchanges if each.pod == pod], self._forgotten

    def _enter(self) -> None:
        while self._notes:
            note = self._notes.popleft()
            if isinstance(note, _Answered):
                counts = self._events.setdefault(note.event, EventCounts())
                counts.add(note.seconds, note.waiting, note.allowed, has_failed=note.has_failed, is_late=note.is_late)
            else:
                self._enter_run(note)

    def _enter_run(self, note: _Run) -> None:
        name = note.name if len(note.name) < MAX_NAME // 4 else bounded(note.name, MAX_NAME)
        exchange = PodExchange.of(name, note.request, note.event, note.steps, note.time, note.seconds, note.error)
        self._forgotten += len(self._exchanges) == MOST
        self._exchanges.append(exchange)
        for part in exchange.parts:
            key = part.plugin, part.source
            counts = self._plugins.pop(key, None) or PluginCounts()
            self._plugins[key] = counts
            counts.add(exchange, part.outcome, part.seconds, part.error)
        while len(self._plugins) > MAX_PLUGINS:
            del self._plugins[next(iter(self._plugins))]


_NONE = PluginCounts()
