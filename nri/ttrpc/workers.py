"""Threads that run calls: one for each that is under way, kept for the next.

A call may take as long as its deadline allows, and others must not wait for it. Starting a thread costs more than
most calls, so idle ones are kept, a few.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_WORKERS = 64
"""Calls that are under way at once; what comes beyond that waits."""

_IDLE_KEPT = 4


class Workers:
    """Runs tasks in threads named ``NAME-1``, ``NAME-2`` and so on."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._count = 0
        self._idle = 0  # threads that wait, or are about to, and for which no task is queued
        self._backlog = 0  # tasks that are queued, and for which no thread waits
        self._started = 0
        self._stopped = False

    def run(self, task: Callable[[], None]) -> None:
        """Run ``task`` soon, in a thread of ours; not at all once stopped. It must not raise."""
        with self._lock:
            if self._stopped:
                return
            new = self._idle == 0 and self._count < MAX_WORKERS
            if new:
                self._count += 1
                self._started += 1
            elif self._idle:
                self._idle -= 1
            else:
                self._backlog += 1
            self._tasks.put(task)
        if new:
            # A daemon: a call that hangs must not keep the process from ending.
            threading.Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()

    def stop(self) -> None:
        """Let the threads end, each after what it is at; what is queued is dropped."""
        with self._lock:
            self._stopped = True
            for _ in range(self._count):
                self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None and not self._stopped:
            task()
            del task  # an idle thread keeps nothing alive
            with self._lock:
                if self._backlog:
                    self._backlog -= 1
                elif self._idle < _IDLE_KEPT:
                    self._idle += 1
                else:
                    self._count -= 1
                    break
