"""Deferred work: what no answer waits for, done when no event has been answered for a moment.

Events may follow each other at once, and only one thread of a process runs Python at a time. So this work has a
thread of its own, which begins when the bridge is quiet, or when the work has waited for long enough.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

QUIET = 0.002
"""Seconds without an answer after which the work is done."""

AT_MOST = 0.05
"""Seconds that it waits at most."""

_IDLE = 5.0  # seconds without work after which the thread ends

log = logging.getLogger("nri.v1bridge")


def in_background(function: Callable[[], object], name: str) -> bool:
    """Call a function in a daemon thread of this name; return whether a thread could be started."""
    try:
        threading.Thread(target=function, name=name, daemon=True).start()
    except RuntimeError:
        return False
    return True


class Deferred:
    """Does ``work`` later, in a thread that is started when it is needed; without one, in :meth:`put`."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._changed = threading.Condition(threading.Lock())
        self._is_due = self._has_thread = False
        self._latest = 0.0

    def put(self) -> None:
        """Have the work done soon. Any thread may call this."""
        self._latest = time.monotonic()
        if self._is_due:
            return
        with self._changed:
            self._is_due = True
            if self._has_thread:
                self._changed.notify()
            else:
                self._has_thread = in_background(self._run, "deferred")
            is_left = not self._has_thread
        if is_left:  # the system has no thread left
            self._is_due = False
            self._do()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._is_due, _IDLE):
                    self._has_thread = False
                    return
            since = time.monotonic()
            while True:
                time.sleep(QUIET)
                now = time.monotonic()
                if now - self._latest >= QUIET or now - since >= AT_MOST:
                    break
            self._is_due = False  # first: what is put from now on may come too late for this time
            self._do()

    def _do(self) -> None:
        try:
            self._work()
        except Exception:
            log.exception("deferred work has failed")
