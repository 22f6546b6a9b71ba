"""The cost of a foreign plugin that is started before its request comes, ``"prefork": "always"``.

The reference is the same plugin, which another bridge starts for each event, in turns with it. A foreign plugin was
not built with nri.skel: here a program in C, and a shell script, which takes longer to start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.durations import ROUNDS, compared, percentile_99
from bench.node import TimedNode, back_to_back, turns

if TYPE_CHECKING:
    from pathlib import Path

    from bench.report import Row

STARTED = "started for each"

PLUGINS = {"C": "noop", "shell": "script"}
"""The plugins' languages and types."""


def measure(scratch: Path, binaries: Path, *, events: int, sustained: int) -> list[Row]:
    """Return the rows of the table.

    :param events: number of paced events of each kind.
    :param sustained: number of events back to back.
    """
    rows = []
    for language, plugin in PLUGINS.items():
        nodes = (
            TimedNode(scratch / f"{plugin}-always", binaries, [{"type": plugin, "prefork": "always"}]),
            TimedNode(scratch / f"{plugin}-started", binaries, [plugin]),
        )
        try:
            paced = turns(*nodes, events)
            waiting, started = back_to_back(nodes, sustained, ROUNDS)
            for when, times in {"after 5 ms": paced, "back to back": (waiting, started)}.items():
                rows += _rows(f"{language} plugin, `always`, {when}", *times, has_goals=plugin == "noop")
        finally:
            for node in nodes:
                node.close()
    return rows


def _rows(name: str, times: list[float], beside: list[float], *, has_goals: bool) -> list[Row]:
    return [
        compared(name, times, beside, STARTED, goal=0.6 if has_goals else None),
        compared(
            f"{name}, 99th percentile",
            times,
            beside,
            f"{STARTED}, likewise",
            goal=1.0 if has_goals else None,
            by=percentile_99,
        ),
    ]
