"""What the bridge takes: memory, descriptors, threads, processes; and whether it has grown."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

CALM = 20.0
"""Seconds for what has been killed to be gone, and for what is missing to be there again."""

PAUSE = 1.0
"""Seconds between two looks; longer than a helper takes to reap, and to have the next child wait."""

PROCESSES, DESCRIPTORS, THREADS = "processes below the bridge", "descriptors of the bridge", "threads of the bridge"
BRIDGE, HELPERS = "the bridge, MB RSS", "its helpers, MB PSS"

GROWTH = {PROCESSES: 0.0, DESCRIPTORS: 0.0, THREADS: 4.0, BRIDGE: 8.0, HELPERS: 3.0}
"""What each may be more at the end.

Threads are kept for as many events as there once were at a time. The bridge's memory goes up and down with every
result that is cut off at 1 MiB, so a median of it counts; 400 bytes lost with each of 20,000 events would be more.
"""


class Row(NamedTuple):
    """A figure, after the warm-up and at the end, and the most that it may be."""

    name: str
    start: float
    end: float
    most: float

    @property
    def holds(self) -> bool:
        """Whether it is no more than it may."""
        return self.end <= self.most


def rows(start: dict[str, float], end: dict[str, float]) -> list[Row]:
    """What has become of each figure."""
    return [Row(name, start[name], end[name], start[name] + more) for name, more in GROWTH.items()]


def calm(pid: int, most: dict[str, float] | None = None) -> dict[str, float]:
    """The figures of a bridge when they change no more, and where ``most`` is given are no more than that."""
    before: dict[str, float] = {}
    give_up = time.monotonic() + CALM
    while time.monotonic() < give_up:
        now = taken(pid)
        counts = [now[name] == before.get(name) for name in (PROCESSES, DESCRIPTORS, THREADS)]
        if all(counts) and (most is None or all(row.holds for row in rows(most, now))):
            break
        before = now
        time.sleep(PAUSE)
    return now


def taken(pid: int) -> dict[str, float]:
    """The figures now."""
    family = below(pid)
    return {
        PROCESSES: len(family),
        DESCRIPTORS: len(os.listdir(f"/proc/{pid}/fd")),
        THREADS: len(os.listdir(f"/proc/{pid}/task")),
        BRIDGE: resident(pid),
        HELPERS: round(sum(_kib(each, "smaps_rollup", "Pss") for each in family) / 1024, 1),
    }


def resident(pid: int) -> float:
    """The memory of a process, in MB."""
    return round(_kib(pid, "status", "VmRSS") / 1024, 1)


def below(pid: int) -> list[int]:
    """All processes that come from this one."""
    parents: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = Path(f"/proc/{name}/stat").read_bytes()
        except OSError:
            continue  # it has ended
        parents.setdefault(int(stat.rpartition(b")")[2].split()[1]), []).append(int(name))
    found = list(parents.get(pid, []))
    for each in found:
        found += parents.get(each, [])
    return found


def _kib(pid: int, file: str, key: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return 0  # it has ended
    return next((int(line.split()[1]) for line in lines if line.startswith(key + ":")), 0)
