"""What plugins leave behind: processes that have left their group, and whose parent has ended.

The group of a plugin is killed when the plugin has ended (:mod:`nri.client.launch`), but a process that has called
``setsid`` or ``setpgid`` is in another, and one that was forked twice is nobody's child. A host that stays can ask
the kernel for these: as a child subreaper (prctl(2)) it becomes their parent, so whatever is our child and was not
started by us has been left by a plugin.
"""

from __future__ import annotations

import logging
import os
import select
from typing import TYPE_CHECKING

from nri.client import spawn
from nri.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 100
"""Times that children are looked for again: each that is killed may leave children of its own."""

ENDS_WITHIN = 0.1
"""Seconds that one which was killed gets to go; whoever takes longer is looked at again the next time."""

_PR_SET_CHILD_SUBREAPER = 36
_SIGKILL = 9

log = logging.getLogger("nri.client")


class Orphans:
    """Finds and ends them, where the kernel lets us; for a program that starts nothing but plugins."""

    def __init__(self) -> None:
        self.are_ours = _become_subreaper()
        """Whether orphans come to us."""

    def end(self) -> None:
        """Kill all that were left. Not while a plugin is at work: its children may still be of use to it."""
        if not self.are_ours:
            return
        for _ in range(ROUNDS):
            with spawn.starting:  # one that is being started is a child that nobody knows yet
                left = [pid for pid in _children() if pid not in spawn.started]
            if not left:
                return
            for pid in left:
                _end(pid)
        log.warning("plugins go on leaving processes behind faster than these can be killed")


def _end(pid: int) -> None:
    """Kill a child, and reap it; nothing else can have its number until then."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return  # gone: somebody else has reaped it
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        if not poll.poll(0):
            log.warning("killed a process that a plugin has left behind: %d (%s)", pid, _name(pid))
            os.kill(pid, _SIGKILL)
            poll.poll(ENDS_WITHIN * 1000)
        os.waitpid(pid, os.WNOHANG)
    except OSError:
        pass  # it changed its user, or was reaped
    finally:
        os.close(pidfd)


def _children() -> Iterator[int]:
    """Our children, those that were left among them: by the thread that has them."""
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/children", "rb") as file:
                yield from map(int, file.read().split())
        except OSError:
            pass  # the thread has ended


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return printable(file.read().rstrip("\n"))
    except OSError:
        return "?"


def _become_subreaper() -> bool:
    try:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
        return prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0 and os.path.exists("/proc/thread-self/children")
    except (ImportError, OSError, AttributeError):
        return False
