"""This build beside another one, in turns: ``python -m bench --against DIR``, the folder of the other build.

Both bridges serve the same embedded runtime, which is this tree's. Ratios below 1 are in favour of this build.
"""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from bench.bursts import AT_A_TIME, at_once
from bench.durations import ROUNDS, compared, percentile_99
from bench.executables import compiled
from bench.node import TimedNode, back_to_back, turns
from harness.node import BINARIES

if TYPE_CHECKING:
    from pathlib import Path

    from bench.report import Row

PLUGINS: dict[str, list[str]] = {
    "no plugin": [],
    "our plugin": ["clearcfs"],
    "a foreign plugin": ["noop"],
}
OF = "the other build"
STATE = {"ociVersion": "1.0.2", "id": "web", "status": "created", "pid": 0}


def measure(scratch: Path, other: Path, *, events: int) -> list[Row]:
    """Return the rows of the table.

    :param other: the folder of the other build, with ``nri``, ``v1bridge`` and ``clearcfs``.
    :param events: number of events of each kind.
    """
    folders = [_folder(scratch / "this", BINARIES), _folder(scratch / "other", other)]
    rows = []
    for number, (name, plugins) in enumerate(PLUGINS.items()):
        with ExitStack() as stack:
            nodes = [TimedNode(folder / f"node-{number}", folder, plugins) for folder in folders]
            for node in nodes:
                stack.callback(node.close)
            rested = turns(nodes[0], nodes[1], events)
            series = back_to_back(nodes, events * 5, ROUNDS)
            eights: list[list[float]] = [[], []]
            for _ in range(events // AT_A_TIME):
                for node, times in zip(nodes, eights, strict=True):
                    times.extend(at_once(node, AT_A_TIME))
        figures = {
            "after 5 ms": rested,
            "back to back": series,
            f"{AT_A_TIME} pods at a time": eights,
        }
        rows += [
            compared(f"{name}, {how}", times[0], times[1], OF) for how, times in figures.items()
        ]
        last = f"{name}, {AT_A_TIME} pods at a time, 99th percentile"
        rows.append(compared(last, eights[0], eights[1], OF, by=percentile_99))
    starts = [[str(folder / "clearcfs"), "schema"] for folder in folders]
    rows.append(_runs("a plugin's start", starts, b"", events // 4))
    hooks = [_hook(folder) for folder in folders]
    state = json.dumps(STATE | {"bundle": str(folders[0])}).encode()
    rows.append(_runs("nri hook create, two plugins", hooks, state, events // 4))
    return rows


def _folder(folder: Path, build: Path) -> Path:
    """Make a folder of plugins: links to a build, and the plugin in C."""
    folder.mkdir()
    for name in ("nri", "v1bridge", "clearcfs"):
        (folder / name).symlink_to(build / name)
    compiled("noop", folder)
    return folder


def _hook(folder: Path) -> list[str]:
    """Return the command of a hook with two plugins that change nothing."""
    (folder / "config.json").write_text(
        json.dumps({"ociVersion": "1.0.2", "linux": {"cgroupsPath": "/web"}})
    )
    configuration = {"version": "0.1", "plugins": [{"type": "clearcfs"}] * 2}
    (folder / "hook.d").mkdir()
    (folder / "hook.d/10.conf").write_text(json.dumps(configuration))
    return [
        str(folder / "nri"),
        "hook",
        "create",
        "--conf-dir",
        str(folder / "hook.d"),
        "--bin-dir",
        str(folder),
    ]


def _runs(name: str, commands: list[list[str]], stdin: bytes, runs: int) -> Row:
    """Return the row of two commands that are run in turns."""
    times: list[list[float]] = [[] for _ in commands]
    for _ in range(runs):
        for command, taken in zip(commands, times, strict=True):
            started = time.perf_counter()
            subprocess.run(command, input=stdin, stdout=subprocess.DEVNULL, check=True)
            taken.append((time.perf_counter() - started) * 1000)
    return compared(name, times[0], times[1], OF)
