"""The processes of ours that run in the machine."""

from __future__ import annotations

import os
import signal

from harness.processes import parent_of
from tests.node.guest.shell import wait_until
from tests.support import processes


def command_lines() -> dict[int, str]:
    """Return the command line of each process that runs, by its pid; a zombie and a kernel thread have none."""
    return {
        pid: line.replace(b"\0", b" ").decode().strip()
        for pid, line in processes.command_lines()
        if line
    }


def bridges() -> list[int]:
    """Return the processes of a bridge, registered or a unit, without the watchdog that each has as a child."""
    found = [
        pid
        for pid, line in command_lines().items()
        if _executable(pid) == "v1bridge" or _is_unit(pid, line)
    ]
    return [pid for pid in found if parent_of(pid) not in found]


def residents() -> list[int]:
    """Return the processes of residents; and for a moment those of plugins that are asked for their version."""
    return [pid for pid in command_lines() if _executable(pid) in ("clearcfs", "konfine")]


def kill(pids: list[int]) -> None:
    """Kill processes, and wait until they are gone."""
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    wait_until("the killed processes are gone", lambda: not set(pids) & set(command_lines()))


def _is_unit(pid: int, line: str) -> bool:
    return _executable(pid) == "nri" and " bridge" in line


def _executable(pid: int) -> str:
    """Return the name of a process's program below /opt/nri; "" for any other."""
    try:
        path = os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""
    return os.path.basename(path) if path.startswith("/opt/nri/") else ""
