"""The bridge's own share of an event with a plugin that is started for it.

A program in C, starts.c, does what the kernel requires for the same plugin and the same request: pipes, posix_spawn,
the exchange, the end of the plugin's process group. An event with no plugin is what remains without a plugin. What an
event takes beyond these two is the bridge's own share.
"""

from __future__ import annotations

import statistics
import subprocess
from typing import TYPE_CHECKING

from bench.durations import ROUNDS
from bench.executables import compiled
from bench.node import TimedNode, back_to_back
from bench.report import Row

if TYPE_CHECKING:
    from pathlib import Path

LIMIT = 0.35
"""Milliseconds: the goal for the bridge's own share."""


class Starts:
    """The program in C, with a plugin and the request that a bridge sends to it.

    :param scratch: a directory that exists. It gets the program, the request, and the node whose bridge sends it.
    """

    def __init__(self, scratch: Path, binaries: Path) -> None:
        self._program = compiled("starts", scratch)
        self._plugin = binaries / "noop"
        self._request = scratch / "request.json"
        keeper = binaries / "keeper"
        keeper.write_text(f"#!/bin/sh\ncat > '{self._request}'\necho '{{}}'\n")
        keeper.chmod(0o755)
        node = TimedNode(scratch / "keeper-node", binaries, ["keeper"])
        try:
            node.event()
        finally:
            node.close()

    def times(self, runs: int, *, rest: float = 0.0) -> list[float]:
        """Return the milliseconds of each run, without the first, which fills caches.

        :param rest: seconds of rest before each.
        """
        files = [str(each) for each in (self._program, self._plugin, self._request)]
        command = [*files, str(runs + 1), f"{rest * 1e6:.0f}"]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return [float(line) / 1000 for line in output.split()][1:]


def measure(scratch: Path, binaries: Path, *, events: int) -> list[Row]:
    """Return the rows of the table.

    :param events: number of events of each kind.
    """
    folder = scratch / "share"
    folder.mkdir()
    starts = Starts(folder, binaries)
    nodes = [TimedNode(folder / "c", binaries, ["noop"]), TimedNode(folder / "none", binaries, [])]
    plugin: list[float] = []
    nothing: list[float] = []
    program: list[float] = []
    try:
        for node in nodes:
            node.warm_up()
        for _ in range(ROUNDS):
            with_plugin, without = back_to_back(nodes, events // ROUNDS, 1)
            plugin += with_plugin
            nothing += without
            program += starts.times(events // ROUNDS)
    finally:
        for node in nodes:
            node.close()
    return _rows(*(statistics.median(each) for each in (plugin, nothing, program)))


def _rows(plugin: float, nothing: float, program: float) -> list[Row]:
    return [
        Row(name="started: an event with the C plugin", figure=plugin, unit="ms"),
        Row(name="started: an event with no plugin", figure=nothing, unit="ms"),
        Row(name="started: the plugin's run by a program in C", figure=program, unit="ms"),
        Row(
            name="own share: beyond an event with no plugin and the program in C",
            figure=plugin - nothing - program,
            unit="ms",
            reference=LIMIT,
            of="limit",
            goal=1.0,
        ),
        Row(
            name="the whole event beyond the program in C",
            figure=plugin - program,
            unit="ms",
            reference=LIMIT,
            of="limit",
        ),
    ]
