"""Ten plugins in one configuration: what an event costs, and the processes and memory that they take."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

from bench.durations import compared
from bench.node import TimedNode, turns
from bench.report import Row
from harness import processes
from nri.status import client

if TYPE_CHECKING:
    from pathlib import Path

    from bench.node import Entry

TEN = 10

MEMORY = 60.0
"""MB PSS: the goal for the bridge, its watchdog, ten servers and their workers."""


def measure(scratch: Path, binaries: Path, *, events: int) -> list[Row]:
    """Return the rows of the table.

    :param events: number of paced events of each kind.
    """
    foreign: list[Entry] = [{"type": name, "prefork": "always"} for name in _names("noop", TEN)]
    ours = _rows(scratch / "ten", binaries, "preforked", _ours(scratch), events, limit=MEMORY)
    return ours + _rows(scratch / "ten-c", binaries, "in C, `always`", foreign, events)


def _names(plugin: str, count: int) -> list[str]:
    return [plugin, *(f"{plugin}{number}" for number in range(2, count + 1))]


def _ours(scratch: Path) -> list[Entry]:
    """Return ten plugins that change nothing here: not konfine, which would write to the machine's cgroups."""
    log: Entry = {"type": "logger", "conf": {"file": str(scratch / "logger.log")}}
    others: list[Entry] = [log, "device-injector", "hook-injector", "ulimit-adjuster"]
    return [*_names("clearcfs", TEN - len(others)), *others]


def _rows(
    scratch: Path, binaries: Path, kind: str, plugins: list[Entry], events: int, *, limit: float | None = None
) -> list[Row]:
    with closing(TimedNode(scratch, binaries, plugins)) as node:
        node.warm_up()
        count, memory = _footprint(node)  # first: another bridge would share pages with this one
        _check(client.status(str(scratch / "v1bridge.sock"))["plugins"])
        with closing(TimedNode(scratch.with_name(f"{scratch.name}-one"), binaries, plugins[:1])) as beside:
            ten, one = turns(node, beside, events)
    return [
        compared(f"ten plugins {kind}: an event after 5 ms", ten, one, "one"),
        Row(
            name=f"ten plugins {kind}: all processes of the bridge",
            figure=memory,
            unit="MB PSS",
            reference=limit,
            of="limit" if limit else "",
            goal=1.0 if limit else None,
        ),
        Row(name=f"ten plugins {kind}: processes", figure=count, unit=""),
    ]


def _footprint(node: TimedNode) -> tuple[int, float]:
    """Return the number of processes of a bridge at rest, itself included, and their memory in MB."""
    time.sleep(0.5)  # workers that have answered are reaped by then, and others wait
    family = [node.pid, *node.family()]
    return len(family), sum(processes.proportional(pid) for pid in family)


def _check(plugins: list[dict[str, Any]]) -> None:
    """End the benchmark if a plugin is not loaded ahead, or has failed."""
    for plugin in plugins:
        state, error = plugin["prefork"], plugin["lastError"]
        if state["state"] not in ("ready", "foreign") or error is not None:
            raise SystemExit(
                f"{plugin['type']}: found {state}, last error {error}; expected one that is loaded ahead"
            )
