"""Processes as ``/proc`` shows them: descendants, command lines, memory, descriptors.

Processes end at any time: a function returns an empty value for a process that has ended, or its docstring
names the exception.
"""

from __future__ import annotations

import os
from pathlib import Path


def descendants(pid: int, *, zombies: bool = False) -> list[int]:
    """Return the descendants of a process, its children first, then theirs. Zombies are left out unless asked for."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        fields = _stat(int(name))
        if fields and (zombies or fields[0] not in ("Z", "X")):
            children.setdefault(int(fields[1]), []).append(int(name))
    pids = list(children.get(pid, []))
    for child in pids:
        pids += children.get(child, [])
    return pids


def command_line(pid: int) -> bytes:
    """Return the command line of a process, with its NUL bytes."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def name(pid: int) -> str:
    """Return the name that a process has set for itself, else its executable's."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def parent_of(pid: int) -> int:
    """Return the parent of a process, 0 if it has ended."""
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def cpu_ticks(pid: int) -> int:
    """Return the CPU time of a process in clock ticks, user and system."""
    fields = _stat(pid)
    return int(fields[11]) + int(fields[12]) if fields else 0


def resident(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    return _mebibytes(pid, "status", "VmRSS")


def proportional(pid: int) -> float:
    """Return the memory of a process in MiB, with its share of pages that several processes map (PSS)."""
    return _mebibytes(pid, "smaps_rollup", "Pss")


def anonymous(pid: int) -> float:
    """Return the memory of a process in MiB that no file has: what others that run the same files do not change."""
    return _mebibytes(pid, "status", "RssAnon")


def descriptors(pid: int) -> int:
    """Return the number of open descriptors.

    :raises OSError: the process has ended.
    """
    return len(os.listdir(f"/proc/{pid}/fd"))


def threads(pid: int) -> int:
    """Return the number of threads.

    :raises OSError: the process has ended.
    """
    return len(os.listdir(f"/proc/{pid}/task"))


def _stat(pid: int) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` that follow the name: state, parent and so on."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].decode("ascii").split()
    except OSError:
        return []


def _mebibytes(pid: int, file: str, key: str) -> float:
    try:
        lines = (
            Path(f"/proc/{pid}/{file}").read_text(encoding="utf-8", errors="replace").splitlines()
        )
    except OSError:
        return 0.0
    return next((int(line.split()[1]) for line in lines if line.startswith(key + ":")), 0) / 1024
