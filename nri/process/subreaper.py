"""What plugins leave behind: processes that have left their group, and whose parent has ended.

The group of a plugin is killed when the plugin has ended (:mod:`nri.process.launch`), but a process that has called
``setsid`` or ``setpgid`` is in another, and one that was forked twice is nobody's child. A host that stays can ask
the kernel for these: as a child subreaper (prctl(2)) it becomes their parent, so whatever is our child and was not
started by us has been left by a plugin.
"""

from __future__ import annotations

import logging
import os
import time

from nri.errors import escape
from nri.process import launch, spawn

ENDS_WITHIN = 0.1
"""Seconds for all of them together: the next event may be waiting. Who takes longer is looked at again after that."""

_PR_SET_CHILD_SUBREAPER = 36
_SIGKILL = 9

log = logging.getLogger("nri.client")


class Subreaper:
    """Finds and ends them, where the kernel lets us; for a program that starts nothing but plugins."""

    def __init__(self) -> None:
        self.are_ours = _become_subreaper()
        """Whether orphans come to us."""
        self._killed: set[int] = set()  # and not gone yet: the kernel may keep one for long

    def there_are(self) -> bool:
        """Whether there may be any: a quick look, at any time."""
        return self.are_ours and not spawn.started.issuperset(_children())

    def end(self) -> None:
        """Kill all that were left. Not while a plugin is at work: its children may still be of use to it."""
        if not self.are_ours:
            return
        until = time.monotonic() + ENDS_WITHIN
        while new := self._kill_new():  # each may leave children of its own
            for pid in new:
                _await(pid, until)
            if time.monotonic() >= until:
                log.warning(
                    "processes that plugins have left behind are killed, and not all gone: looking again later"
                )
                return

    def _kill_new(self) -> list[int]:
        """Reap those that have ended, kill those that have not been killed; returns the latter."""
        with spawn.starting:  # one that is being started is a child that nobody knows yet
            left = [pid for pid in _children() if pid not in spawn.started]
        left = [pid for pid in left if not _is_reaped(pid)]  # nothing else can have its number until then
        self._killed.intersection_update(left)
        new = [pid for pid in left if pid not in self._killed]
        for pid in new:
            log.warning("killed a process that a plugin has left behind: %d (%s)", pid, _name(pid))
            os.kill(pid, _SIGKILL)
        self._killed.update(new)
        return new


def _is_reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True  # by somebody else


def _await(pid: int, until: float) -> None:
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return  # it is looked at again
    try:
        launch.ends(pidfd, until - time.monotonic())
    finally:
        os.close(pidfd)


def _children() -> list[int]:
    """The children of our main thread. Who has lost its parent comes to that one, as long as it lives.

    Source: ``find_new_reaper`` in kernel/exit.c of Linux.
    """
    pieces = []
    try:
        file = os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY)
    except OSError:
        return []  # no descriptor is left; they are looked for again
    try:
        while piece := os.read(file, 4096):
            pieces.append(piece)
    finally:
        os.close(file)
    return [int(pid) for pid in b"".join(pieces).split()]


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
