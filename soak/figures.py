"""Memory, descriptors, threads and processes of the bridge, and the growth that is allowed."""

from __future__ import annotations

import time
from typing import NamedTuple

from harness import processes

CALM = 20.0
"""Seconds for killed processes to end, and for a resident to be started again."""

PAUSE = 1.0
"""Seconds between two measurements; longer than the start of a resident takes."""

PROCESSES, DESCRIPTORS, THREADS = (
    "processes below the bridge",
    "descriptors of the bridge",
    "threads of the bridge",
)
BRIDGE, PLUGINS = "the bridge, MB RSS", "plugins, MB anonymous"

GROWTH = {PROCESSES: 1.0, DESCRIPTORS: 2.0, THREADS: 4.0, BRIDGE: 8.0, PLUGINS: 3.0}
"""The growth that is allowed for each figure.

A resident that is replaced at that moment is one process and two descriptors more. One lost with each fault would
exceed that many times over.
The bridge keeps as many threads as there were events at a time. Its memory rises and falls with every result that is
cut off at 1 MiB, so the median counts; 400 bytes lost with each of 20,000 events would exceed the limit.
"""


class Row(NamedTuple):
    """A figure after the warm-up and at the end, and its limit."""

    name: str
    start: float
    end: float
    most: float

    @property
    def holds(self) -> bool:
        """True if the figure is within its limit."""
        return self.end <= self.most


def rows(start: dict[str, float], end: dict[str, float]) -> list[Row]:
    """Return a row for each figure."""
    return [Row(name, start[name], end[name], start[name] + more) for name, more in GROWTH.items()]


def settled(pid: int, start: dict[str, float] | None = None) -> dict[str, float]:
    """Return the bridge's figures when they no longer change, and are within the limits.

    :param start: the figures after the warm-up; without them there are no limits.
    """
    before: dict[str, float] = {}
    give_up = time.monotonic() + CALM
    while time.monotonic() < give_up:
        now = measured(pid)
        counts = [now[name] == before.get(name) for name in (PROCESSES, DESCRIPTORS, THREADS)]
        if all(counts) and (start is None or all(row.holds for row in rows(start, now))):
            break
        before = now
        time.sleep(PAUSE)
    return now


def measured(pid: int) -> dict[str, float]:
    """Return the figures now. Zombies count as processes."""
    family = processes.descendants(pid, zombies=True)
    return {
        PROCESSES: len(family),
        DESCRIPTORS: processes.descriptors(pid),
        THREADS: processes.threads(pid),
        BRIDGE: resident(pid),
        PLUGINS: round(sum(processes.anonymous(pid) for pid in family), 1),
    }


def resident(pid: int) -> float:
    """Return the resident memory of a process in MiB, rounded."""
    return round(processes.resident(pid), 1)
