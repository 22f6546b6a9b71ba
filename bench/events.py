"""The cost of the bridge for a pod: events on the embedded runtime, timed as the runtime sees them.

The reference is an empty C plugin that the same bridge starts for each event. The measured plugin was built with
nri.skel and compiled, and has nothing to do either. Two are compared in turns, with nothing else in between. The row
"each event after an interpreter's start" is the exception: there the processor's caches are cold for both.
In the row "every CPU is busy" each CPU has a process that never waits.
"""

from __future__ import annotations

import statistics
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bench import cpus
from bench.durations import ROUNDS, compared, each_of_rounds, percentile_99
from bench.node import TimedNode, back_to_back, turns
from bench.report import Row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def measure(scratch: Path, binaries: Path, *, events: int, sustained: int) -> list[Row]:
    """Return the rows of the table.

    :param events: number of paced events of each kind.
    :param sustained: number of events back to back.
    """
    nodes = {
        "nothing": TimedNode(scratch / "nothing", binaries, []),
        "c": TimedNode(scratch / "c", binaries, ["noop"]),
        "cold": TimedNode(scratch / "cold", binaries, ["clearcfs"], resident=False),
        "one": TimedNode(scratch / "one", binaries, ["clearcfs"]),
        "three": TimedNode(scratch / "three", binaries, ["clearcfs", "clearcfs2", "clearcfs3"]),
    }
    try:
        return _paced(nodes, events) + _back_to_back(nodes["one"], nodes["c"], sustained)
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
        compared("one plugin, resident, each event after an interpreter's start", after, beside_after, c),
        compared("three plugins, resident", three, beside_three, "one", goal=2.6),
        compared('one plugin, `"resident": false`', cold, beside_cold, c),
    ]


def _back_to_back(one: TimedNode, c: TimedNode, events: int) -> list[Row]:
    sustained, beside = back_to_back([one, c], events, ROUNDS)
    with _every_cpu_busy():
        busy, beside_busy = back_to_back([one, c], events, ROUNDS)
    name = f"{events} back to back, resident"
    return [
        compared(name, sustained, beside, "C plugin", goal=0.6, by=each_of_rounds, unit="ms each"),
        compared("every CPU is busy: one plugin, resident, back to back", busy, beside_busy, "C plugin"),
    ]


@contextmanager
def _every_cpu_busy() -> Iterator[None]:
    busy = [subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"]) for _ in cpus.available()]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()
