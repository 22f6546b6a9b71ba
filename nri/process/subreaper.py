"""The subreaper: ends orphans, which are processes that left a plugin's process group and lost their parent.

The kernel makes a child subreaper (prctl(2)) the parent of such orphans. So a child that a long-running host did not
start is an orphan of a plugin.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from nri.errors import escape
from nri.process import children
from nri.process.children import SIGKILL, close_all, pidfds_of

# Seconds to wait for all orphans; later they are reaped as other children that did not end.
ENDS_WITHIN = 0.1
_PR_SET_CHILD_SUBREAPER = 36

log = logging.getLogger("nri.client")


class Subreaper:
    """Finds and ends orphans, where the kernel supports it; for a program that starts nothing but plugins."""

    def __init__(self) -> None:
        self.is_subreaper = become_subreaper()
        """True if the kernel makes this process the parent of orphans."""

    def end_orphans(
        self, lock: AbstractContextManager[object], is_busy: Callable[[], bool]
    ) -> None:
        """Kill and reap all orphans.

        :param lock: held for each look, and not while an orphan is waited for.
        :param is_busy: called with the lock: whether a plugin is running, which may still use its children.
        """
        until = time.monotonic() + ENDS_WITHIN
        while self.is_subreaper:
            orphans = self._kill(lock, is_busy)
            if not orphans:
                return
            for pid in orphans:  # their children become orphans
                pidfds = pidfds_of(pid)
                children.await_end(pid, pidfds, until)
                close_all(pidfds)
            if time.monotonic() >= until:
                log.warning("some processes that plugins have left behind are killed but not gone")
                return

    def _kill(self, lock: AbstractContextManager[object], is_busy: Callable[[], bool]) -> list[int]:
        """Kill the orphans, and return them."""
        if children.started.issuperset(own_children()):
            return []
        with lock, children.lock:
            # A child that is being started is not in `started` yet.
            if is_busy() or children.coming:
                return []
            orphans = [*{*own_children()}.difference(children.started, children.late)]
        for pid in orphans:
            if not children.has_exited(pid):
                log.warning(
                    "killed a process that a plugin has left behind: %d (%s)", pid, _name(pid)
                )
                os.kill(pid, SIGKILL)
        return orphans


def own_children() -> list[int]:
    """Return the children of the main thread, which the kernel makes the parent of orphans while it lives.

    Source: ``find_new_reaper`` in kernel/exit.c of Linux.
    """
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb", buffering=0) as file:
            return [int(pid) for pid in file.readall().split()]
    except OSError:
        return []  # no free descriptor: they are looked for again


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return escape(file.read().rstrip("\n"))
    except OSError:
        return "?"


def become_subreaper() -> bool:
    """Have the kernel make orphans of our children ours; return whether it does."""
    try:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
        return prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0 and os.path.exists(
            "/proc/thread-self/children"
        )
    except (ImportError, OSError, AttributeError):
        return False
