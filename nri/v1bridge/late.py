"""Late creates: ``create`` for what started while no bridge was connected, in the background.

The bridge guarantees, for each sandbox and container:

- it is noted on record when its late ``create`` has ended without an error; so one that a killed bridge has cut off
  is found again, and gets another (docs/spec.md allows that);
- one that fails is tried three times;
- ``create`` and ``delete`` never run at the same time, and ``delete`` is last: if it comes first, there is no late
  ``create``; if it comes meanwhile, it waits, and if that takes too long for the runtime, it runs afterwards;
- what has not begun when the connection ends is dropped without a note; the next synchronization finds it again.

A sandbox comes before its containers. :data:`THREADS` pods are served at a time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from nri.background import in_background
from nri.errors import escape
from nri.v1bridge.event_log import late_line
from nri.v2.ttrpc import StatusError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from nri.v1bridge.missed import Missed
    from nri.v1bridge.record import Record

THREADS = 4
"""Pods that are served at a time: events that come meanwhile need the plugins, too."""

PAUSES = (1.0, 5.0)
"""Seconds after which one that has failed is tried again."""

log = logging.getLogger("nri.v1bridge")


class LateCreates:
    """The late creates of a bridge. All methods may be called from any thread.

    :param run: runs the chain for one of them; it raises StatusError when a plugin fails.
    """

    def __init__(self, run: Callable[[Missed], object], record: Record) -> None:
        self._run, self._record = run, record
        self._lock = threading.Lock()  # taken directly: through the condition it would take four calls
        self._changed = threading.Condition(self._lock)
        self._queue: deque[Sequence[Missed]] = deque()
        self._again: list[tuple[float, Missed]] = []  # that have failed: when to try again, and what
        self._failures: dict[str, int] = {}  # by id of these
        self._pending: dict[str, Missed] = {}  # until they have ended for good, are withdrawn or dropped
        self._running: dict[str, list[Callable[[], object]]] = {}  # what is to run after each
        self._events: set[str] = set()  # whose create runs for an event
        self._threads = 0
        self._begun, self._succeeded, self._failed = 0.0, 0, 0
        self._before = (0, 0)  # those that succeeded and failed in earlier batches

    def put(self, pods: Iterable[Sequence[Missed]]) -> None:
        """Queue sandboxes and containers, by pod; :meth:`start` begins with them."""
        with self._lock:
            for pod in pods:
                self._queue.append(pod)
                self._pending.update([(each.request.id, each) for each in pod])

    def start(self) -> None:
        """Begin with what is queued, in threads of their own."""
        with self._lock:
            if not self._threads:
                self._before = self._before[0] + self._succeeded, self._before[1] + self._failed
                self._begun, self._succeeded, self._failed = time.monotonic(), 0, 0
            self._changed.notify_all()  # a thread that waits for what is tried again
            while self._threads < min(THREADS, len(self._queue)):
                if why := in_background(self._work, f"late-{self._threads}"):
                    log.error("late: %s", why)
                    break
                self._threads += 1
            if self._threads:
                return
        self.drop()

    def drop(self) -> None:
        """Drop what has not begun, and say so; what has begun is not tried again."""
        if dropped := len(self.take()):
            log.warning("late: dropped %d that have not begun; the next synchronization finds them again", dropped)

    def waiting(self) -> Sequence[Missed]:
        """Return what has not begun."""
        with self._lock:
            return self._waiting()

    def take(self) -> Sequence[Missed]:
        """Drop what has not begun, and return it; what has begun is not tried again."""
        with self._lock:
            taken = self._waiting()
            self._queue.clear()
            self._again.clear()
            self._failures.clear()
            self._pending.clear()
            self._changed.notify_all()
        return taken

    def begin(self, id_: str) -> None:
        """Note that ``create`` runs for an event: there is no late one of this id before :meth:`end`."""
        with self._lock:
            self._events.add(id_)
            self._withdraw(id_)

    def end(self, id_: str) -> None:
        """Note that the ``create`` of an event has ended."""
        with self._lock:
            self._events.discard(id_)
            if self._threads:
                self._changed.notify_all()

    def withdraw(self, id_: str, until: float | None, delete: Callable[[], object]) -> bool:
        """Cancel the late ``create`` of this id, or wait for its end; return whether ``delete`` can run now.

        :param until: a time of :func:`time.monotonic`; after that, *delete* is called when the ``create`` has ended.
        """
        with self._lock:
            self._withdraw(id_)
            while id_ in self._running:
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    self._running[id_].append(delete)
                    return False
                self._changed.wait(left)
        return True

    def counts(self) -> dict[str, int]:
        """Return what the status says of the late creates: docs/status.md."""
        succeeded, failed = self._before
        return {
            "waiting": len(self._pending.keys() - self._running),
            "running": len(self._running),
            "succeeded": succeeded + self._succeeded,
            "failed": failed + self._failed,
        }

    def wait_until_idle(self, timeout: float) -> bool:
        """Wait until none is running, nor its ``delete``, at most *timeout* seconds; return whether none is."""
        with self._lock:
            return self._changed.wait_for(lambda: not self._running, timeout)

    def _waiting(self) -> list[Missed]:
        return [missed for id_, missed in self._pending.items() if id_ not in self._running]

    def _withdraw(self, id_: str) -> None:
        self._pending.pop(id_, None)
        if self._failures.pop(id_, 0):
            self._again = [each for each in self._again if each[1].request.id != id_]
            self._changed.notify_all()

    def _work(self) -> None:
        while pod := self._next():
            for missed in pod:
                self._serve(missed)
        if pod is None and (self._succeeded or self._failed):
            level = logging.WARNING if self._failed else logging.INFO
            took = time.monotonic() - self._begun
            log.log(
                level,
                "late: create succeeded for %d, failed for %d, in %.1f s",
                self._succeeded,
                self._failed,
                took,
            )

    def _next(self) -> Sequence[Missed] | None:
        """Return what is to be served next; nothing for a thread that ends, None for the last one.

        The last thread waits for what is tried again.
        """
        with self._lock:
            while not self._queue:
                if not self._again or self._threads > 1:
                    self._threads -= 1
                    return () if self._threads else None
                due, missed = min(self._again, key=lambda each: each[0])
                if (left := due - time.monotonic()) <= 0:
                    self._again.remove((due, missed))
                    return (missed,)
                self._changed.wait(left)
            return self._queue.popleft()

    def _serve(self, missed: Missed) -> None:
        id_ = missed.request.id
        with self._lock:
            self._changed.wait_for(lambda: id_ not in self._events)
            if self._pending.get(id_) is not missed:
                return  # it was withdrawn or dropped
            if id_ in self._running:
                return  # for the previous connection; if that fails, this one is tried
            if id_ in self._record:
                self._withdraw(id_)
                return  # it was served for an event of the previous connection, or late
            self._running[id_] = []
        error = ""
        try:
            late_line(missed.name, missed.request, "")
            self._run(missed)
            self._record.add(id_)
        except StatusError as failure:
            error = failure.message
        except Exception as failure:  # the others must be served
            log.exception("unexpected error")
            error = escape(f"{type(failure).__name__}: {failure}")
        with self._lock:
            failures, again = self._failures.get(id_, 0), self._pending.get(id_)
            is_final = not error or not again or failures >= len(PAUSES)
            if again and not is_final:
                self._failures[id_] = failures + 1
                self._again.append((time.monotonic() + PAUSES[failures], again))
            else:
                self._withdraw(id_)
            self._failed += bool(error) and is_final
            self._succeeded += not error
        if error:
            late_line(missed.name, missed.request, error, is_final=is_final)
        self._finish(id_)

    def _finish(self, id_: str) -> None:
        """Run what is to run after the late ``create`` of an id."""
        while True:
            with self._lock:
                if not self._running[id_]:
                    del self._running[id_]
                    self._changed.notify_all()
                    return
                then = self._running[id_].pop(0)
            try:
                then()
            except Exception:
                log.exception("unexpected error")
