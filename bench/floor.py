"""The kernel's part of an event: its steps, measured in C, and their sums, which no event can be faster than.

An event with a resident needs four wake-ups: bridge, plugin, bridge, runtime. Its floor is a byte
that goes that way through three programs in C, after the same rest. An event with a plugin that is started needs two
of them, of bridge and runtime, and the program in C of :mod:`bench.own_share` instead of the plugin.
"""

from __future__ import annotations

import statistics
import subprocess
from typing import TYPE_CHECKING

from bench import cpus
from bench.executables import compiled
from bench.node import PAUSE, TimedNode, turns
from bench.own_share import Starts
from bench.report import Row

if TYPE_CHECKING:
    from pathlib import Path

ANY = -1
"""A process that the scheduler may put on any CPU."""


def measure(scratch: Path, binaries: Path, *, runs: int) -> list[Row]:
    """Return the rows of the table.

    :param runs: number of events and of steps after a rest; ten times as many of those without one.
    """
    folder = scratch / "floor"
    folder.mkdir()
    program = str(compiled("floor", folder))
    starts = Starts(folder, binaries)
    one = TimedNode(folder / "one", binaries, ["clearcfs"])
    c = TimedNode(folder / "c", binaries, ["noop"])
    try:
        event, started = (statistics.median(each) for each in turns(one, c, runs))
    finally:
        for node in (one, c):
            node.close()
    ran = statistics.median(starts.times(runs, rest=PAUSE))
    two, three = (_relay(program, runs, PAUSE, [ANY] * count) for count in (2, 3))
    return [
        *_steps(program, runs),
        Row(name="a byte to a process on any CPU and back, after 5 ms: 2 wake-ups", figure=two, unit="µs"),
        Row(name="a byte by a second process to a third and back, after 5 ms: 4 wake-ups", figure=three, unit="µs"),
        Row(name="a plugin's run by a program in C, after 5 ms", figure=ran * 1000, unit="µs"),
        Row(
            name="an event with one resident, after 5 ms, beside its floor",
            figure=event,
            unit="ms",
            reference=three / 1000,
            of="4 wake-ups",
        ),
        Row(
            name="an event with the C plugin started for it, after 5 ms, beside its floor",
            figure=started,
            unit="ms",
            reference=ran + two / 1000,
            of="2 wake-ups and the program in C",
        ),
    ]


def _steps(program: str, runs: int) -> list[Row]:
    first, *others = cpus.two()
    places = {"the same core": [first, first]}
    if others:
        places = {"another core": [first, *others], **places}
    figures = {}
    for place, pinned in places.items():
        name = f"a byte to a process on {place} and back"
        figures[f"{name}, back to back"] = _relay(program, 10 * runs, 0.0, pinned)
        figures[f"{name}, after 5 ms"] = _relay(program, runs, PAUSE, pinned)
    return [Row(name=name, figure=figure, unit="µs") for name, figure in figures.items()]


def _relay(program: str, runs: int, rest: float, places: list[int]) -> float:
    """Return the median in microseconds."""
    command = [program, *map(str, (runs, round(rest * 1e6), *places))]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return statistics.median(map(float, output.split()))
