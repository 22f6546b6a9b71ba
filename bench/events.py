"""The cost of the bridge for a pod: events on the embedded runtime, timed as the runtime sees them.

The reference is an empty C plugin that the same bridge starts for each event. The measured plugin was built with
nri.skel and compiled, and has nothing to do either. Two are compared in turns, with nothing else in between. The row
"each event after an interpreter's start" is the exception: there the processor's caches are cold for both.
Where every CPU is busy, each has a process that never waits, in a cgroup of the weight of all CPUs.
"""

from __future__ import annotations

import os
import statistics
from typing import TYPE_CHECKING

from bench import busy
from bench.bursts import AT_A_TIME, at_once
from bench.durations import ROUNDS, compared, each_of_rounds, percentile_99
from bench.node import TimedNode, back_to_back, turns
from bench.report import Row

if TYPE_CHECKING:
    from pathlib import Path


def measure(scratch: Path, binaries: Path, *, events: int, sustained: int) -> list[Row]:
    """Return the rows of the table.

    :param events: number of paced events of each kind.
    :param sustained: number of events back to back.
    """
    nodes = {
        "nothing": TimedNode(scratch / "nothing", binaries, []),
        "c": TimedNode(scratch / "c", binaries, ["noop"]),
        "one, as others": TimedNode(scratch / "one-as-others", binaries, ["clearcfs"], nice=0),
        "c, as others": TimedNode(scratch / "c-as-others", binaries, ["noop"], nice=0),
        "cold": TimedNode(scratch / "cold", binaries, ["clearcfs"], resident=False),
        "one": TimedNode(scratch / "one", binaries, ["clearcfs"]),
        "three": TimedNode(scratch / "three", binaries, ["clearcfs", "clearcfs2", "clearcfs3"]),
    }
    try:
        return _paced(nodes, events) + _back_to_back(nodes, sustained)
    finally:
        for node in nodes.values():
            node.close()


def _paced(nodes: dict[str, TimedNode], events: int) -> list[Row]:
    c = "C plugin, started for each"
    one, beside_one = turns(nodes["one"], nodes["c"], 2 * events)
    nothing, beside_nothing = turns(nodes["nothing"], nodes["c"], events)
    cold, beside_cold = turns(nodes["cold"], nodes["c"], events)
    after, beside_after = turns(nodes["one"], nodes["c"], events, between=nodes["cold"])
    three, beside_three = turns(nodes["three"], nodes["one"], events)
    median = statistics.median(one)
    return [
        compared("no plugin", nothing, beside_nothing, c),
        compared("one plugin, resident", one, beside_one, c, goal=0.45),
        Row(
            name="one plugin, resident, 99th percentile",
            figure=percentile_99(one),
            unit="ms",
            reference=median,
            of="its median",
            goal=3.0,
        ),
        compared(
            "one plugin, resident, each event after an interpreter's start", after, beside_after, c
        ),
        compared("three plugins, resident", three, beside_three, "one", goal=2.6),
        compared('one plugin, `"resident": false`', cold, beside_cold, c),
    ]


def _back_to_back(nodes: dict[str, TimedNode], events: int) -> list[Row]:
    one, c = nodes["one"], nodes["c"]
    sustained, beside = back_to_back([one, c], events, ROUNDS)
    rows = [
        compared(
            f"{events} back to back, resident",
            sustained,
            beside,
            "C plugin",
            goal=0.6,
            by=each_of_rounds,
            unit="ms each",
        )
    ]
    with busy.every_cpu():
        figures = back_to_back([one, c], events, ROUNDS)
        eights: tuple[list[float], list[float]] = ([], [])
        for _ in range(events // AT_A_TIME // 4):
            for node, times in zip((one, c), eights, strict=True):
                times.extend(at_once(node, AT_A_TIME))
    together = [one, nodes["one, as others"], c, nodes["c, as others"]]
    with busy.every_cpu(
        [os.getpid(), *[pid for node in together for pid in (node.pid, *node.family())]]
    ):
        beside_loops = back_to_back(together, events, ROUNDS)
    name, eight = "every CPU is busy:", f"one plugin, resident, {AT_A_TIME} pods at a time"
    return [
        *rows,
        compared(
            f"{name} one plugin, resident, back to back, mean",
            figures[0],
            sustained,
            "quiet",
            by=statistics.mean,
        ),
        compared(
            f"{name} C plugin, back to back, mean", figures[1], beside, "quiet", by=statistics.mean
        ),
        compared(f"{name} {eight}", *eights, "C plugin"),
        compared(f"{name} {eight}, 99th percentile", *eights, "C plugin", by=percentile_99),
        *[
            compared(
                f"busy in the bridge's cgroup: {what}, back to back, mean",
                *(raised, as_others, '`"nice": 0`'),
                by=statistics.mean,
            )
            for what, raised, as_others in (
                ("one plugin, resident", beside_loops[0], beside_loops[1]),
                ("C plugin", beside_loops[2], beside_loops[3]),
            )
        ],
    ]
