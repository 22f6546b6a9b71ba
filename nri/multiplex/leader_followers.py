"""A leader/followers pool: the thread that has read something does the work, and another thread reads on.

Before a thread starts a job, which nothing may wait for, another thread waits for input. Handing each job to another
thread would wake one for each: docs/decisions/0009. Of the threads that wait in an epoll, the kernel wakes the one
that worked last (``ep_poll`` in fs/eventpoll.c of Linux).
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence

from nri.multiplex.channel import Job

MAX_THREADS = 64
"""Threads of a pool. One of them reads; jobs beyond the others wait."""

_MAX_IDLE = 4

log = logging.getLogger("nri.multiplex")


class LeaderFollowers:
    """A pool of threads named ``NAME-1``, ``NAME-2`` and so on, started on demand.

    :param read: waits for input and returns the jobs that follow. Several threads call it at once. After :meth:`stop`
        it must return at once, in all of them.
    """

    def __init__(self, name: str, read: Callable[[], Sequence[Job]]) -> None:
        self._name, self._read = name, read
        self._lock = threading.Lock()  # taken directly: through the condition it would take four calls of Python
        self._changed = threading.Condition(self._lock)
        self._backlog: deque[Job] = deque()
        self._count = self._started = 0
        self._idle = 0  # threads that wait for input, or are about to
        self._is_stopped = False

    def run(self) -> None:
        """Read and work until :meth:`stop`, or until the last thread has ended because of an error.

        :raises RuntimeError: when the system has no thread left.
        """
        with self._lock:
            if not self._is_stopped:
                self._start()
            self._changed.wait_for(lambda: self._is_stopped or self._count == 0)

    def submit(self, jobs: Sequence[Job], *, own: int = 0) -> None:
        """Have the pool's threads do ``jobs`` soon; drop them after :meth:`stop`.

        :param own: the number of jobs that the calling thread will take itself.
        """
        with self._lock:
            if not self._is_stopped:
                self._backlog += jobs
                for _ in jobs[own:]:
                    self._start_another()

    def stop(self) -> None:
        """Drop the jobs that no thread has begun; each thread ends after its current job."""
        with self._lock:
            self._is_stopped = True
            self._backlog.clear()
            self._changed.notify_all()

    def join(self) -> None:
        """Wait until no thread waits for input. Threads that are doing a job are not waited for."""
        with self._lock:
            self._changed.wait_for(lambda: self._idle == 0)

    def _start(self) -> None:
        # A daemon: a job that hangs must not keep the process from ending.
        threading.Thread(target=self._work, name=f"{self._name}-{self._started + 1}", daemon=True).start()
        self._started += 1
        self._count += 1
        self._idle += 1

    def _start_another(self) -> bool:
        """Start a thread and return True, if the limit and the system allow one more."""
        if self._count >= MAX_THREADS:
            return False
        try:
            self._start()
        except RuntimeError as error:  # the system has no thread left
            log.error("can't start another reading thread: %s", error)
            return False
        return True

    def _work(self) -> None:
        try:
            while (job := self._next()) is not None:
                _do(job)
                del job  # drop the reference before blocking
                with self._lock:
                    self._idle += 1
        except BaseException:
            log.exception("a reading thread has failed")
            with self._lock:
                self._discount()

    def _discount(self) -> None:
        """Remove the calling thread, which is idle, from the counts. Call this with the lock held."""
        self._count -= 1
        self._idle -= 1
        self._changed.notify_all()

    def _next(self) -> Job | None:
        """Return the calling idle thread's next job, or None when the thread must end; it is discounted by then.

        One lock holds the decision to end and the change of the count: several threads that finish together must
        not all rely on each other to stay.
        """
        while True:
            with self._lock:
                if self._backlog and self._may_leave():
                    self._idle -= 1
                    return self._backlog.popleft()
                if self._is_stopped or self._idle > _MAX_IDLE:
                    self._discount()
                    return None
            jobs = self._read()
            if jobs:
                self.submit(jobs, own=1)

    def _may_leave(self) -> bool:
        """Return whether another reader remains or can be started, or none can be had below the limit.

        At the limit, with all other threads at work, the first that finishes takes the next job.
        """
        return self._idle > 1 or self._start_another() or self._count < MAX_THREADS


def _do(job: Job) -> None:
    """Do a job. One that raises is a bug, and must not cost the connection its last reading thread."""
    try:
        job()
    except BaseException:
        log.exception("a job has failed")
