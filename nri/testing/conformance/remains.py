"""Processes that a plugin has left: found by a variable of their environment, by process group and by session."""

from __future__ import annotations

import os
import signal
import time

from nri.errors import escape
from nri.process.children import stat_fields

MARK = "NRI_CONFORMANCE"
"""The variable that every run of a plugin has, and that its descendants inherit."""

GRACE = 0.5
"""Seconds that a process may take to end after the plugin's: it does not continue to work."""


def remaining(mark: str, leader: int = 0) -> list[int]:
    """Return the processes whose environment has the mark, and those of the leader's group and session, but itself.

    :param leader: pid of a process that is not reaped, so that its number is no other's.
    """
    found = []
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
        if pid == leader:
            continue
        try:
            fields = stat_fields(pid)
            is_ours = leader and leader in (int(fields[2]), int(fields[3]))
            if fields[0] not in b"ZX" and (is_ours or _has(mark, pid)):
                found.append(pid)
        except OSError:
            continue  # it has ended
    return found


def left_behind(mark: str, leader: int) -> list[str]:
    """Return the names of the processes that still run :data:`GRACE` seconds after the leader's end."""
    until = time.monotonic() + GRACE
    while (found := remaining(mark, leader)) and time.monotonic() < until:
        time.sleep(0.005)
    return [_name(pid) for pid in found]


def end_all(mark: str) -> None:
    """Kill every process whose environment has the mark."""
    for _ in range(100):  # one may fork while its siblings are killed
        found = remaining(mark)
        if not found:
            return
        for pid in found:
            _kill(mark, pid)


def _kill(mark: str, pid: int) -> None:
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return  # it has ended
    try:
        if _has(mark, pid):  # the number is not another process's by now
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except OSError:
        pass
    finally:
        os.close(pidfd)


def _has(mark: str, pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"{MARK}={mark}".encode() in file.read().split(b"\0")
    except OSError:
        return False  # another user's, or it has ended


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return escape(file.read().rstrip("\n"))
    except OSError:
        return "?"
