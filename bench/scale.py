"""The resources that the bridge takes, and their growth with known containers and with handled events."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from bench.node import TimedNode, turns
from bench.report import Row
from harness import processes
from nri.status import status
from nri.v2 import api

FEW, MANY = 10, 10_000

PODS, PLUGINS = 110, ["clearcfs", "logger"]
"""Pods of a full node, each with a container, and the plugins that the bridge runs for them when it connects."""

PROBES = 20
"""Probes that are timed."""


def measure(scratch: Path, binaries: Path, *, events: int, growth: int) -> list[Row]:
    """Return the rows of the table.

    :param growth: number of events back to back, after which memory must not have grown.
    """
    with closing(TimedNode(scratch / "few", binaries, ["clearcfs"], pods=FEW)) as few:
        footprint = _footprint(few)  # first: another bridge would share pages with this one
        with closing(TimedNode(scratch / "many", binaries, ["clearcfs"], pods=MANY)) as many:
            figures = [*_known(few, many, events), *footprint]
        figures.append(_caught_up(scratch / "late", binaries))
        return [
            *figures,
            _probe(few, str(binaries / "nri"), scratch / "few/v1bridge.sock"),
            *_growth(few, growth),
        ]


def _at_rest(pid: int) -> float:
    """Return the memory of a bridge at rest: when it is constant for a second."""
    samples = [processes.resident(pid)]
    while len(samples) < 5 or samples[-5] != samples[-1]:
        time.sleep(0.25)
        samples.append(processes.resident(pid))
        if len(samples) > 100:
            break
    return samples[-1]


def _known(few: TimedNode, many: TimedNode, events: int) -> list[Row]:
    with_many, with_few = turns(many, few, events)
    return [
        Row(
            name=f"an event with {MANY} known containers",
            figure=statistics.median(with_many),
            unit="ms",
            reference=statistics.median(with_few),
            of=f"with {FEW}",
            goal=1.2,
        ),
        Row(
            name=f"Synchronize with {MANY} containers",
            figure=many.synchronized_in,
            unit="s",
            reference=2.0,
            of="limit",
            goal=1.0,
        ),
    ]


def _caught_up(scratch: Path, binaries: Path) -> Row:
    """Return the time from the bridge's start until all pods of a node have had their plugins."""
    started = time.perf_counter()
    running = api.ContainerState.CONTAINER_RUNNING
    with closing(TimedNode(scratch, binaries, PLUGINS, pods=PODS, state=running)) as node:
        while (late := status(str(scratch / "v1bridge.sock"))["lateCreates"])[
            "succeeded"
        ] < 2 * PODS:
            if late["failed"]:
                raise SystemExit(f"late creates failed; the log: {node.log()}")
            time.sleep(0.05)
        return Row(
            name=f"{PODS} pods have had {len(PLUGINS)} plugins late",
            figure=time.perf_counter() - started,
            unit="s",
            reference=10.0,
            of="limit",
            goal=1.0,
        )


def _footprint(node: TimedNode) -> list[Row]:
    idle = _at_rest(node.pid)
    node.warm_up()
    watchdogs = [pid for pid in node.family() if processes.name(pid) == "nri-watchdog"]
    rows = {
        "launch to registered": (node.registered_in, "s", 0.5),
        "bridge, idle": (idle, "MB RSS", 45.0),
        "its watchdog": (sum(processes.proportional(pid) for pid in watchdogs), "MB PSS", None),
        "a resident plugin": (processes.proportional(node.resident()), "MB PSS", 8.0),
        "libraries that a plugin loads": (_libraries(node.resident()), "MB", 12.0),
        "CPU time of bridge and resident in 2 s without events": (_cpu(node, 2.0), "ms", None),
    }
    return [
        Row(
            name=name,
            figure=figure,
            unit=unit,
            reference=limit,
            of="limit" if limit else "",
            goal=1.0 if limit else None,
        )
        for name, (figure, unit, limit) in rows.items()
    ]


def _libraries(pid: int) -> float:
    """Return the size in MB of the shared libraries that a process has mapped, and of the zipped modules."""
    lines = [line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    files = {line[5] for line in lines if len(line) > 5 and "/_internal/" in line[5]}
    internal = Path(next(iter(files)).partition("/_internal/")[0]) / "_internal"
    return (
        sum(Path(file).stat().st_size for file in {*files, str(internal / "base_library.zip")})
        / 1e6
    )


def _cpu(node: TimedNode, seconds: float) -> float:
    def used() -> int:
        return sum(processes.cpu_ticks(pid) for pid in pids)

    time.sleep(seconds)  # the work after the last event ends
    pids = [node.pid, *node.family()]
    before = used()
    time.sleep(seconds)
    return (used() - before) * 10.0  # a tick is 10 ms


def _probe(node: TimedNode, nri: str, path: Path) -> Row:
    """Return the time of `nri status --check` as a process, which a probe runs every few seconds."""
    bare = [os.path.realpath(sys.executable), "-I", "-S", "-c", "pass"]
    check = [nri, "status", "--check", "--socket", str(path)]
    times: dict[str, list[float]] = {"bare": [], "check": []}
    for _ in range(PROBES):
        for name, command in (("bare", bare), ("check", check)):
            started = time.perf_counter()
            ran = subprocess.run(command, capture_output=True, check=False)
            times[name].append((time.perf_counter() - started) * 1000)
            if ran.returncode != 0:
                raise SystemExit(
                    f"{command}: exit status {ran.returncode}, printed {ran.stdout!r}; {node.log()}"
                )
    medians = {name: statistics.median(durations) for name, durations in times.items()}
    return Row(
        name="nri status --check",
        figure=medians["check"],
        unit="ms",
        reference=medians["bare"],
        of="bare interpreter",
    )


def _growth(node: TimedNode, events: int) -> list[Row]:
    for number in range(events // 10):
        node.event(number % 100)
    node.warm_up()
    before = _taken(node)
    for number in range(events):
        node.event(number % 100)
    node.warm_up()
    after = _taken(node)
    return [
        Row(
            name=f"{name} after {events} events",
            figure=after[name],
            unit=unit,
            reference=before[name],
            of="before",
            goal=goal,
        )
        for name, unit, goal in (
            ("memory", "MB RSS", 1.05),
            ("memory of the resident", "MB RSS", 1.05),
            ("descriptors", "", 1.0),
            ("processes", "", 1.0),
        )
    ]


def _taken(node: TimedNode) -> dict[str, float]:
    return {
        "memory": processes.resident(node.pid),
        "memory of the resident": processes.resident(node.resident()),
        "descriptors": processes.descriptors(node.pid),
        "processes": len(node.family()),
    }
