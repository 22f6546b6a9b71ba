"""The first event of a bridge: it comes as soon as the bridge is registered and synchronized.

That is so when a node boots, and when a bridge is replaced. Each figure is a median of several bridges. The reference
is an event of the same bridges later, with everything loaded.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from bench.durations import compared
from bench.node import PAUSE, TimedNode
from bench.report import Row

if TYPE_CHECKING:
    from pathlib import Path

REGISTERED_WITHIN = 0.5
"""Seconds: the goal for a bridge's launch and registration."""

PLUGINS: dict[str, list[str]] = {
    "no plugin": [],
    "one plugin, resident": ["clearcfs"],
}


class Firsts:
    """Bridges with the same plugins: their first events, their later events, and the seconds until registered."""

    def __init__(self, name: str, plugins: list[str]) -> None:
        self.name, self.plugins = name, plugins
        self.first: list[float] = []
        self.warm: list[float] = []
        self.registered_in: list[float] = []

    def add(self, scratch: Path, binaries: Path, events: int) -> None:
        """Start a bridge, and measure it."""
        node = TimedNode(scratch, binaries, self.plugins)
        try:
            self.first.append(node.event())
            self.registered_in.append(node.registered_in)
            node.warm_up()
            for number in range(events):
                time.sleep(PAUSE)
                self.warm.append(node.event(number))
        finally:
            node.close()


def measure(scratch: Path, binaries: Path, *, bridges: int, events: int) -> list[Row]:
    """Return the rows of the table.

    :param bridges: number of bridges of each kind.
    :param events: number of later events of each bridge.
    """
    kinds = [Firsts(name, plugins) for name, plugins in PLUGINS.items()]
    for number in range(bridges):
        for place, kind in enumerate(kinds):
            kind.add(scratch / f"first-{place}-{number}", binaries, events)
    rows = []
    for kind in kinds:
        later = "the same later, after 5 ms"
        goal = 3.0 if kind.plugins == ["clearcfs"] else None
        rows += [
            compared(
                f"first event after registration, {kind.name}",
                kind.first,
                kind.warm,
                later,
                goal=goal,
            ),
            Row(
                name=f"first event after registration, {kind.name}, the slowest of {bridges}",
                figure=max(kind.first),
                unit="ms",
            ),
            Row(
                name=f"launch to registered, {kind.name}",
                figure=statistics.median(kind.registered_in),
                unit="s",
                reference=REGISTERED_WITHIN,
                of="limit",
                goal=1.0,
            ),
        ]
    return rows
