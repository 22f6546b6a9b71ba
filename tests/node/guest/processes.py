"""The processes of ours that run in the machine."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.node.guest.shell import wait_until


def command_lines() -> dict[int, str]:
    """Return the command line of each process that runs, by its pid; a zombie and a kernel thread have none."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        if line:
            found[int(name)] = line.replace(b"\0", b" ").decode().strip()
    return found


def bridges() -> list[int]:
    """Return the processes of a bridge, registered or a unit, without the watchdog that each has as a child."""
    found = [pid for pid, line in command_lines().items() if _executable(pid) == "v1bridge" or _is_unit(pid, line)]
    return [pid for pid in found if _parent(pid) not in found]


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


def _parent(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[1])


def _executable(pid: int) -> str:
    """Return the name of a process's program below /opt/nri; "" for any other."""
    try:
        path = os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""
    return os.path.basename(path) if path.startswith("/opt/nri/") else ""
