"""Events while every CPU is busy with other programs, beside a bridge without short time slices."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from bench import cpus
from bench.bursts import PLUGINS
from bench.durations import ROUNDS, compared
from bench.node import TimedNode, back_to_back
from nri.process import time_slice

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.report import Row


def measure(scratch: Path, binaries: Path, *, events: int) -> list[Row]:
    """Return the rows of the table.

    :param events: number of events of each kind, back to back.
    """
    rows = []
    for number, (name, entries) in enumerate(PLUGINS.items()):
        with ExitStack() as stack:
            nodes = []
            for kind in ("short", "default"):
                node = TimedNode(scratch / f"busy-{number}-{kind}", binaries, entries)
                stack.callback(node.close)
                node.warm_up()
                nodes.append(node)
            _give_default_slices(nodes[1].pid)
            with _busy():
                short, default = back_to_back(nodes, events, ROUNDS)
        rows.append(compared(f"every CPU is busy: an event, {name}", short, default, "with default slices"))
    return rows


def _give_default_slices(bridge: int) -> None:
    for thread in os.listdir(f"/proc/{bridge}/task"):
        time_slice.ask(int(thread), 0)


@contextmanager
def _busy() -> Iterator[None]:
    """Have one process for each CPU, which never waits."""
    busy = [subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"]) for _ in cpus.available()]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
        for process in busy:
            process.wait()
