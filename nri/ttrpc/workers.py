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
        self._idle = 0
        self._count = 0
        self._started = 0

    def run(self, task: Callable[[], None]) -> None:
        """Run ``task`` soon, in a thread of ours. It must not raise."""
        with self._lock:
            new = self._idle == 0 and self._count < MAX_WORKERS
            if new:
                self._count += 1
                self._started += 1
            elif self._idle:
                self._idle -= 1
        self._tasks.put(task)
        if new:
            # A daemon: a call that hangs must not keep the process from ending.
            threading.Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()

    def stop(self) -> None:
        """Let the threads end, each after what it is at."""
        with self._lock:
            count = self._count
        for _ in range(count):
            self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
            del task  # an idle thread keeps nothing alive
            with self._lock:
                if not self._tasks.empty():
                    continue
                if self._idle >= _IDLE_KEPT:
                    break
                self._idle += 1
        with self._lock:
            self._count -= 1
