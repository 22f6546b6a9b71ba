"""The cost of the bridge for a pod: events on the embedded runtime, timed as the runtime sees them.

The reference is an empty C plugin that the same bridge starts for each event. The measured plugin was built with
nri.skel and compiled, and has nothing to do either. Two are compared in turns, with nothing else in between. The row
"each event after an interpreter's start" is the exception: there the processor's caches are cold for both.
"""

from __future__ import annotations

import statistics
import threading
import time
from pathlib import Path

from bench.node import TimedNode, turns
from bench.report import Row

ROUNDS = 9
"""Number of turns for events back to back, so that a noisy moment affects both plugins."""


def measure(scratch: Path, binaries: Path, *, events: int, sustained: int) -> list[Row]:
    """Return the rows of the table.

    :param events: number of paced events of each kind.
    :param sustained: number of events back to back.
    """
    nodes = {
        "nothing": TimedNode(scratch / "nothing", binaries, []),
        "c": TimedNode(scratch / "c", binaries, ["noop"]),
        "cold": TimedNode(scratch / "cold", binaries, ["clearcfs"], prefork=False),
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
        _row("no plugin", nothing, beside_nothing, c),
        _row("one plugin, preforked", one, beside_one, c, goal=0.6),
        Row(
            name="one plugin, preforked, 99th percentile",
            figure=sorted(one)[int(len(one) * 0.99)],
            unit="ms",
            reference=median,
            of="its median",
            goal=3.0,
        ),
        _row("one plugin, preforked, each event after an interpreter's start", after, beside_after, c),
        _row("three plugins, preforked", three, beside_three, "one", goal=2.6),
        _row('one plugin, `"prefork": false`', cold, beside_cold, c),
    ]


def _row(name: str, times: list[float], beside: list[float], of: str, goal: float | None = None) -> Row:
    figure, reference = statistics.median(times), statistics.median(beside)
    return Row(name=name, figure=figure, unit="ms", reference=reference, of=of, goal=goal)


def _back_to_back(one: TimedNode, c: TimedNode, events: int) -> list[Row]:
    sustained: dict[TimedNode, list[float]] = {one: [], c: []}
    bursts: dict[TimedNode, list[float]] = {one: [], c: []}
    for _ in range(ROUNDS):
        for node in (one, c):
            started = time.perf_counter()
            for number in range(events // ROUNDS):
                node.event(number)
            sustained[node].append((time.perf_counter() - started) * 1000 / (events // ROUNDS))
    for _ in range(ROUNDS):
        for node in (one, c):
            node.warm_up()  # a burst comes after a pause
            bursts[node].append(_burst(node, 100))
    return [
        Row(
            name=f"{events} back to back, preforked",
            figure=statistics.median(sustained[one]),
            unit="ms each",
            reference=statistics.median(sustained[c]),
            of="C plugin",
            goal=1.0,
        ),
        Row(
            name="100 pods at once, preforked",
            figure=statistics.median(bursts[one]),
            unit="ms in all",
            reference=statistics.median(bursts[c]),
            of="C plugin",
            goal=1.0,
        ),
    ]


def _burst(node: TimedNode, pods: int) -> float:
    threads = [threading.Thread(target=node.event, args=(number,)) for number in range(pods)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (time.perf_counter() - started) * 1000
