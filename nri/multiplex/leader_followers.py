"""Threads that take turns at reading: who has read a task does it, and another reads on.

A task may take as long as its deadline allows, and nothing must wait for it: so before a thread begins with one,
there is another that waits for more. Nobody has to be woken for that; passing each task to another thread would wake
one for each, which takes longer than most tasks. Of those that wait in an epoll, the kernel wakes one, the one that
was at work last (``ep_poll`` in fs/eventpoll.c of Linux).
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence

Task = Callable[[], None]

MAX_THREADS = 64
"""Tasks that are under way at once, less one; what comes beyond that waits."""

_WAITING_KEPT = 4

log = logging.getLogger("nri.multiplex")


class LeaderFollowers:
    """Threads named ``NAME-1``, ``NAME-2`` and so on, started as they are needed.

    :param turn: waits until something has come, and returns the tasks that it amounts to. It is called by several
        threads at once. When it is over, it must return at once, in all of them.
    """

    def __init__(self, name: str, turn: Callable[[], Sequence[Task]]) -> None:
        self._name = name
        self._turn = turn
        self._lock = threading.Lock()  # taken as such, since a condition's own way takes four calls of Python
        self._changed = threading.Condition(self._lock)
        self._backlog: deque[Task] = deque()
        self._count = 0
        self._waiting = 0  # for their turn, or about to
        self._started = 0
        self._is_over = False

    def run(self) -> None:
        """Have turns taken until it is over, or until the last thread has ended because of an error.

        :raises RuntimeError: when there can't be a thread.
        """
        with self._lock:
            if not self._is_over:
                self._start()
            self._changed.wait_for(lambda: self._is_over or self._count == 0)

    def hand_out(self, tasks: Sequence[Task], *, own: int = 0) -> None:
        """Have tasks done soon, in threads of ours; not at all when it is over. They must not raise.

        :param own: how many of them the thread that calls will come to itself.
        """
        with self._lock:
            if not self._is_over:
                self._backlog += tasks
                for _ in tasks[own:]:
                    self._start_another()

    def end(self) -> None:
        """It is over: the threads end, each after what it is at; what nobody has begun is dropped."""
        with self._lock:
            self._is_over = True
            self._backlog.clear()
            self._changed.notify_all()

    def join(self) -> None:
        """Wait until no thread waits for its turn. Those that are at a task are not waited for."""
        with self._lock:
            self._changed.wait_for(lambda: self._waiting == 0)

    def _start(self) -> None:
        # A daemon: a task that hangs must not keep the process from ending.
        threading.Thread(target=self._work, name=f"{self._name}-{self._started + 1}", daemon=True).start()
        self._started += 1
        self._count += 1
        self._waiting += 1

    def _start_another(self) -> bool:
        """Start a thread, if there may be and can be one more."""
        if self._count >= MAX_THREADS:
            return False
        try:
            self._start()
        except RuntimeError as error:  # the system has none left
            log.error("no thread for what comes next: %s", error)
            return False
        return True

    def _work(self) -> None:
        try:
            while (task := self._next()) is not None:
                _do(task)
                del task  # drop the reference before waiting
                with self._lock:
                    self._waiting += 1
        except BaseException:
            log.exception("a reading thread has ended")
            with self._lock:
                self._count_out()

    def _count_out(self) -> None:
        """Count the calling thread, one of those that wait, no longer. To be called with the lock held."""
        self._count -= 1
        self._waiting -= 1
        self._changed.notify_all()

    def _next(self) -> Task | None:
        """Return the next task, or None when the thread is to end; it is then counted out already.

        The decision to end and the count change under one lock: several threads that finish together must not all
        count on each other to stay. Only for a thread that is counted among those that wait.
        """
        while True:
            with self._lock:
                if self._backlog and self._may_leave():
                    self._waiting -= 1
                    return self._backlog.popleft()
                if self._is_over or self._waiting > _WAITING_KEPT:
                    self._count_out()
                    return None
            tasks = self._turn()
            if tasks:
                self.hand_out(tasks, own=1)

    def _may_leave(self) -> bool:
        """Whether one may leave those that wait: another stays, or none can be had.

        Not where all the others are at work: the first that has done will come to what is to be done.
        """
        return self._waiting > 1 or self._start_another() or self._count < MAX_THREADS


def _do(task: Task) -> None:
    """Do a task. One that raises is a bug, and must not cost the link its last reading thread."""
    try:
        task()
    except BaseException:
        log.exception("a task has failed")
