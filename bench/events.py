"""What the bridge costs a pod: events on the embedded runtime, timed as the runtime sees them.

The reference is a C plugin that does nothing and that the same bridge starts for each event, in the same run, turn by
turn. What is measured is a plugin that was built with nri.skel and compiled, and that has nothing to do either.
"""

from __future__ import annotations

import statistics
import threading
import time
from pathlib import Path

from bench.node import Node
from bench.report import Row

PAUSE = 0.005
"""Seconds between paced events: a node does not start pods back to back."""

ROUNDS = 5
"""Turns that what is done back to back is done in, each after the other: a noisy moment is noisy for both."""


def measure(scratch: Path, binaries: Path, *, events: int, sustained: int) -> list[Row]:
    """The rows. ``events`` are paced, of each kind; ``sustained`` are back to back."""
    nodes = {
        "nothing": Node(scratch / "nothing", binaries, []),
        "c": Node(scratch / "c", binaries, ["noop"]),
        "cold": Node(scratch / "cold", binaries, ["clearcfs"], ahead=False),
        "one": Node(scratch / "one", binaries, ["clearcfs"]),
        "three": Node(scratch / "three", binaries, ["clearcfs", "clearcfs2", "clearcfs3"]),
    }
    try:
        return _paced(nodes, events) + _back_to_back(nodes["one"], nodes["c"], sustained)
    finally:
        for node in nodes.values():
            node.runtime.close()


def _paced(nodes: dict[str, Node], events: int) -> list[Row]:
    for node in nodes.values():
        node.settle()
    for number in range(events):
        for node in nodes.values():
            node.times.append(node.event(number))
            time.sleep(PAUSE)
    median = {name: statistics.median(node.times) for name, node in nodes.items()}
    p99 = {name: sorted(node.times)[int(events * 0.99)] for name, node in nodes.items()}
    c = "C plugin, started for each"
    return [
        Row(name="C plugin, started for each event", figure=median["c"], unit="ms"),
        Row(name="no plugin", figure=median["nothing"], unit="ms", reference=median["c"], of=c),
        Row(name="one plugin, ahead", figure=median["one"], unit="ms", reference=median["c"], of=c, goal=0.6),
        Row(
            name="one plugin, ahead, 99th percentile",
            figure=p99["one"],
            unit="ms",
            reference=median["one"],
            of="our median",
            goal=3.0,
        ),
        Row(
            name="three plugins, ahead",
            figure=median["three"],
            unit="ms",
            reference=median["one"],
            of="one",
            goal=2.6,
        ),
        Row(name='one plugin, `"ahead": false`', figure=median["cold"], unit="ms", reference=median["c"], of=c),
    ]


def _back_to_back(one: Node, c: Node, events: int) -> list[Row]:
    sustained: dict[Node, list[float]] = {one: [], c: []}
    bursts: dict[Node, list[float]] = {one: [], c: []}
    for _ in range(ROUNDS):
        for node in (one, c):
            started = time.perf_counter()
            for number in range(events // ROUNDS):
                node.event(number)
            sustained[node].append((time.perf_counter() - started) * 1000 / (events // ROUNDS))
    for _ in range(ROUNDS):
        for node in (one, c):
            node.settle()  # a burst comes after a pause
            bursts[node].append(_burst(node, 100))
    return [
        Row(
            name=f"{events} back to back, ahead",
            figure=statistics.median(sustained[one]),
            unit="ms each",
            reference=statistics.median(sustained[c]),
            of="C plugin",
            goal=1.0,
        ),
        Row(
            name="100 pods at once, ahead",
            figure=statistics.median(bursts[one]),
            unit="ms in all",
            reference=statistics.median(bursts[c]),
            of="C plugin",
            goal=1.0,
        ),
    ]


def _burst(node: Node, pods: int) -> float:
    threads = [threading.Thread(target=node.event, args=(number,)) for number in range(pods)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (time.perf_counter() - started) * 1000
