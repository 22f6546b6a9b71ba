"""The subreaper: ends orphans, which are processes that left a plugin's process group and lost their parent.

The kernel makes a child subreaper (prctl(2)) the parent of such orphans. So a child that a long-running host did not
start is an orphan of a plugin.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from nri.errors import escape
from nri.process import children
from nri.process.children import SIGKILL, ends, pidfd_or_none

ENDS_WITHIN = 0.1  # seconds to wait for all orphans; the rest is checked after the next event
_PAUSE = 0.0005  # seconds between looks whether a child has been started
_PR_SET_CHILD_SUBREAPER = 36

log = logging.getLogger("nri.client")


class Subreaper:
    """Finds and ends orphans, where the kernel supports it; for a program that starts nothing but plugins."""

    def __init__(self) -> None:
        self.is_subreaper = _become_subreaper()
        """True if the kernel makes this process the parent of orphans."""
        self._killed: set[int] = set()  # orphans that have not ended yet

    def may_have_orphans(self) -> bool:
        """Return whether there may be orphans, when no child is being started any more: allowed at any time."""
        until = time.monotonic() + ENDS_WITHIN
        while children.coming and time.monotonic() < until:
            time.sleep(_PAUSE)
        return self.is_subreaper and not children.started.issuperset(_children())

    def end_orphans(
        self, lock: AbstractContextManager[object] | None = None, is_busy: Callable[[], bool] = lambda: False
    ) -> None:
        """Kill and reap all orphans.

        :param lock: held for each look, and not while an orphan is waited for.
        :param is_busy: called with the lock: whether a plugin is running, which may still use its children.
        """
        until = time.monotonic() + ENDS_WITHIN
        while self.is_subreaper:
            with lock or nullcontext():
                new = [] if is_busy() else self._kill_new()
            if not new:
                return
            for pid in new:  # the orphans' children become orphans
                _await(pid, until)
            if time.monotonic() >= until:
                log.warning(
                    "some processes that plugins have left behind are killed but not gone; checking again later"
                )
                return

    def _kill_new(self) -> list[int]:
        """Reap the orphans that have ended, kill those that were not killed yet; return the latter."""
        with children.lock:
            if children.coming:
                return []  # such a child is not in `started` yet; they are looked for again
            left = [pid for pid in _children() if pid not in children.started]
        left = [pid for pid in left if not _is_reaped(pid)]  # until it is reaped, no other process gets its number
        self._killed.intersection_update(left)
        new = [pid for pid in left if pid not in self._killed]
        for pid in new:
            log.warning("killed a process that a plugin has left behind: %d (%s)", pid, _name(pid))
            os.kill(pid, SIGKILL)
        self._killed.update(new)
        return new


def _is_reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True  # another thread, or the kernel, has reaped it


def _await(pid: int, until: float) -> None:
    if (pidfd := pidfd_or_none(pid)) is None:
        return  # it is checked again
    try:
        ends(pidfd, until - time.monotonic())
    finally:
        os.close(pidfd)


def _children() -> list[int]:
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


def _become_subreaper() -> bool:
    try:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
        return prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0 and os.path.exists("/proc/thread-self/children")
    except (ImportError, OSError, AttributeError):
        return False
