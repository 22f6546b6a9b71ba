"""Foreign plugins whose entry says ``waiting``, beside the same plugin that is started for each request.

One plugin is in C and one in Python; neither does anything but answer. A Go plugin is measured, too, where there is a
Go compiler.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from bench import busy
from bench.bursts import AT_A_TIME, at_once
from bench.durations import ROUNDS, compared, percentile_99
from bench.executables import compiled
from bench.node import TimedNode, back_to_back, turns
from bench.report import Row
from harness.processes import command_line, proportional

if TYPE_CHECKING:
    from pathlib import Path

OF = "started for each"

PYTHON = """#!{python} -IS
import json, sys
request = json.load(sys.stdin)
print(json.dumps({{"plugin": "python", "version": request["version"]}}))
"""

GO = """package main

import ("encoding/json"; "os")

func main() {
    var request map[string]interface{}
    json.NewDecoder(os.Stdin).Decode(&request)
    json.NewEncoder(os.Stdout).Encode(map[string]string{"plugin": "go", "version": "0.1"})
}
"""


def measure(scratch: Path, binaries: Path, *, events: int) -> list[Row]:
    """Return the rows of the table.

    :param events: number of paced events of each plugin.
    """
    rows = []
    for name in _plugins(scratch, binaries):
        with ExitStack() as stack:
            nodes = []
            for is_waiting in (True, False):
                folder = scratch / f"waiting-{name}-{is_waiting}"
                node = TimedNode(folder, binaries, [{"type": name, "waiting": is_waiting}])
                stack.callback(node.close)
                nodes.append(node)
            rows += _rows(f"{name} plugin", nodes, events)
    return rows


def _rows(name: str, nodes: list[TimedNode], events: int) -> list[Row]:
    waiting, started = turns(nodes[0], nodes[1], events)
    figures = {
        "after 5 ms": (waiting, started),
        "back to back": back_to_back(nodes, events, ROUNDS),
        f"{AT_A_TIME} pods at a time": _eights(nodes, events),
    }
    with busy.every_cpu():
        figures["busy: after 5 ms"] = turns(nodes[0], nodes[1], events // 2)
        figures[f"busy: {AT_A_TIME} pods at a time"] = _eights(nodes, events // 2)
    rows = [compared(f"{name}, {how}", times[0], times[1], OF) for how, times in figures.items()]
    rows.append(compared(f"{name}, 99th percentile", waiting, started, OF, by=percentile_99))
    nodes[0].warm_up(1)
    (pid,) = [pid for pid in nodes[0].family() if command_line(pid).endswith(b"\0invoke\0")]
    rows.append(
        Row(name=f"{name}, memory of a waiting process", figure=proportional(pid), unit="MB")
    )
    return rows


def _eights(nodes: list[TimedNode], events: int) -> list[list[float]]:
    eights: list[list[float]] = [[], []]
    for _ in range(events // AT_A_TIME):
        for node, times in zip(nodes, eights, strict=True):
            times.extend(at_once(node, AT_A_TIME))
    return eights


def _plugins(scratch: Path, binaries: Path) -> list[str]:
    """Put the plugins into the directory; return their names."""
    compiled("noop", binaries)
    script = binaries / "python"
    script.write_text(PYTHON.format(python=sys.executable))
    script.chmod(0o755)
    go = shutil.which("go")
    if go is None:
        return ["noop", "python"]
    source = scratch / "go-plugin.go"
    source.write_text(GO)
    subprocess.run([go, "build", "-o", binaries / "go", source], check=True)
    return ["noop", "go", "python"]
