"""Threads that run calls: one for each that is under way, kept for the next.

A call may take as long as its deadline allows, and others must not wait for it. Starting a thread costs more than
most calls, so idle ones are kept, a few.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_WORKERS = 64
"""Calls that are under way at once; what comes beyond that waits."""

_IDLE_KEPT = 4

log = logging.getLogger("nri.ttrpc")


class _Idle:
    """A thread that waits for its next task, and nobody else with it: a queue would wake one more for each."""

    __slots__ = ("task", "wakes")

    def __init__(self) -> None:
        self.wakes = threading.Lock()
        self.wakes.acquire()
        self.task: Callable[[], None] | None = None


class Workers:
    """Runs tasks in threads named ``NAME-1``, ``NAME-2`` and so on."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._idle: list[_Idle] = []  # the one that was at work last is the first to be so again
        self._backlog: deque[Callable[[], None]] = deque()
        self._count = 0
        self._started = 0
        self._stopped = False

    def run(self, task: Callable[[], None]) -> None:
        """Run ``task`` soon, in a thread of ours; not at all once stopped. It must not raise."""
        with self._lock:
            if self._stopped:
                return
            if self._idle:
                idle = self._idle.pop()
                idle.task = task
                idle.wakes.release()
                return
            self._backlog.append(task)
            if self._count == MAX_WORKERS:
                return
            self._count += 1
            self._started += 1
            # A daemon: a call that hangs must not keep the process from ending.
            thread = threading.Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system has none left; one of those that there are will come to it
            log.error("no thread for a call: %s", error)
            with self._lock:
                self._count -= 1

    def stop(self) -> None:
        """Let the threads end, each after what it is at; what is queued is dropped."""
        with self._lock:
            self._stopped = True
            self._backlog.clear()
            for idle in self._idle:
                idle.wakes.release()
            self._idle.clear()

    def _work(self) -> None:
        idle = _Idle()
        while (task := self._next(idle)) is not None:
            task()
            del task  # an idle thread keeps nothing alive

    def _next(self, idle: _Idle) -> Callable[[], None] | None:
        """The next task, when there is one; None to end."""
        with self._lock:
            if self._backlog:
                return self._backlog.popleft()
            if self._stopped or len(self._idle) >= _IDLE_KEPT:
                self._count -= 1
                return None
            self._idle.append(idle)
        idle.wakes.acquire()
        task, idle.task = idle.task, None
        return task
