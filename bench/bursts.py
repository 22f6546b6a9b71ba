"""The cost of pods that come at once: a burst of a hundred, and eight at a time for a while.

A burst is measured on all CPUs, and with runtime, bridge and plugins pinned to two of them.
"""

from __future__ import annotations

import statistics
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from bench import cpus
from bench.durations import ROUNDS, compared
from bench.node import TimedNode
from bench.report import Row

if TYPE_CHECKING:
    from pathlib import Path

PODS = 100
"""Pods of a burst."""

AT_A_TIME = 8
"""Pods that are started at a time, one round after the other."""

PLUGINS: dict[str, list[str]] = {
    "no plugin": [],
    "resident": ["clearcfs"],
    "C plugin": ["noop"],
}


def measure(scratch: Path, binaries: Path, *, rounds: int) -> list[Row]:
    """Return the rows of the table.

    :param rounds: number of rounds of eight pods.
    """
    every, two = cpus.available(), cpus.two()
    places = [("all", every)] if len(every) <= 2 else [("all", every), ("two", two)]
    with ExitStack() as stack:
        nodes: dict[tuple[str, str], TimedNode] = {}
        for place, allowed in places:
            with cpus.pinned(allowed):
                for number, (name, entries) in enumerate(PLUGINS.items()):
                    node = TimedNode(scratch / f"burst-{place}-{number}", binaries, entries)
                    nodes[name, place] = node
                    stack.callback(node.close)
                    node.warm_up()
        bursts: dict[tuple[str, str], list[float]] = {key: [] for key in nodes}
        for _ in range(ROUNDS):
            for (name, place), node in nodes.items():
                node.warm_up(10)  # a burst comes after a pause
                with cpus.pinned(dict(places)[place]):
                    bursts[name, place].append(_burst(node))
        rows = _bursts({name: bursts[name, "all"] for name in PLUGINS})
        rows += _scaling(bursts, len(every))
        return rows + _rounds(nodes["resident", "all"], nodes["C plugin", "all"], rounds)


def _bursts(times: dict[str, list[float]]) -> list[Row]:
    beside = times["C plugin"]
    return [
        compared(
            f"{PODS} pods at once, {name}",
            times[name],
            beside,
            "C plugin",
            goal=goal,
            unit="ms in all",
        )
        for name, goal in (("no plugin", None), ("resident", 0.7))
    ]


def _scaling(bursts: dict[tuple[str, str], list[float]], every: int) -> list[Row]:
    """Return the rows for all CPUs beside two; on a machine with no more, rows that say so."""
    if every <= 2:
        return [
            Row(
                name=f"{PODS} pods at once, {name}; this machine has no more than 2 CPUs",
                figure=statistics.median(bursts[name, "all"]),
                unit="ms in all",
            )
            for name in PLUGINS
        ]
    return [
        compared(
            f"{PODS} pods at once on all {every} CPUs, {name}",
            bursts[name, "all"],
            bursts[name, "two"],
            "on 2 CPUs",
            unit="ms in all",
        )
        for name in PLUGINS
    ]


def _rounds(one: TimedNode, c: TimedNode, rounds: int) -> list[Row]:
    times: dict[TimedNode, list[float]] = {one: [], c: []}
    for node in times:
        node.warm_up()
    for _ in range(rounds):
        for node, taken in times.items():
            taken.extend(at_once(node, AT_A_TIME))
    name = f"{AT_A_TIME} pods at a time, {rounds} rounds, resident, an event's"
    return [
        compared(f"{name} median", times[one], times[c], "C plugin"),
        compared(f"{name} maximum", times[one], times[c], "C plugin", by=max),
    ]


def _burst(node: TimedNode) -> float:
    started = time.perf_counter()
    at_once(node, PODS)
    return (time.perf_counter() - started) * 1000


def at_once(node: TimedNode, pods: int) -> list[float]:
    """Send events at once, each from a thread; return their durations in milliseconds."""
    times: list[float] = []
    threads = [
        threading.Thread(target=lambda number=number: times.append(node.event(number)))
        for number in range(pods)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times
