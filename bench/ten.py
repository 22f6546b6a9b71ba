"""Ten residents in one configuration: what an event costs, and the processes and memory that they take."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from bench.durations import compared
from bench.executables import LINKS
from bench.node import TimedNode, turns
from bench.report import Row
from harness import processes
from nri.status import client

if TYPE_CHECKING:
    from pathlib import Path

    from bench.node import Entry

MEMORY = 110.0
"""MB PSS: the goal for the bridge, its watchdog and ten residents."""


def measure(scratch: Path, binaries: Path, *, events: int) -> list[Row]:
    """Return the rows of the table.

    :param events: number of paced events of each kind.
    """
    plugins = _plugins(scratch)
    with closing(TimedNode(scratch / "ten", binaries, plugins)) as node:
        node.warm_up()
        _check(client.status(str(scratch / "ten/v1bridge.sock"))["plugins"])
        family = [node.pid, *node.family()]
        # Another bridge would share pages with this one.
        memory = sum(processes.proportional(pid) for pid in family)
        with closing(TimedNode(scratch / "ten-one", binaries, plugins[:1])) as beside:
            ten, one = turns(node, beside, events)
    name = "ten plugins, resident"
    return [
        compared(f"{name}: an event after 5 ms", ten, one, "one"),
        Row(
            name=f"{name}: all processes of the bridge",
            figure=memory,
            unit="MB PSS",
            reference=MEMORY,
            of="limit",
            goal=1.0,
        ),
        Row(name=f"{name}: processes", figure=len(family), unit=""),
    ]


def _plugins(scratch: Path) -> list[Entry]:
    """Return ten plugins that change nothing here: not konfine, which would write to the machine's cgroups."""
    log: Entry = {"type": "logger", "conf": {"file": str(scratch / "logger.log")}}
    others: list[Entry] = [log, "device-injector", "hook-injector", "ulimit-adjuster"]
    return ["clearcfs", *(f"clearcfs{number}" for number in range(2, LINKS + 1)), *others]


def _check(plugins: list[dict[str, Any]]) -> None:
    """End the benchmark if a plugin is no resident, or has failed."""
    for plugin in plugins:
        state, error = plugin["resident"], plugin["lastError"]
        if state["state"] != "ready" or error is not None:
            raise SystemExit(
                f"{plugin['type']}: found {state}, last error {error}; expected a resident"
            )
