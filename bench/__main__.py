"""`make bench`: measure everything, print one table, write it as JSON."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench import (
    against,
    bursts,
    calls,
    cpu_sets,
    events,
    executables,
    first,
    plugin_start,
    report,
    runtime,
    scale,
    ten,
    waiting,
)
from harness.node import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.report import Row


def main() -> None:
    """Measure the parts, print the tables and write the file."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--only",
        default="",
        help="measure only the parts whose titles begin like this: calls,events",
    )
    parser.add_argument(
        "--fast", action="store_true", help="a tenth of the runs, to try the benchmark itself"
    )
    parser.add_argument(
        "--against", type=Path, metavar="DIR", help="measure another build in turns with this one"
    )
    parser.add_argument(
        "--json", default=str(ROOT / "build/bench.json"), help="the file for the figures"
    )
    arguments = parser.parse_args()
    divisor = 10 if arguments.fast else 1
    with tempfile.TemporaryDirectory(prefix="nri-bench-") as folder:
        scratch = Path(folder)
        if arguments.against is not None:
            rows = against.measure(scratch, arguments.against.resolve(), events=400 // divisor)
            print(
                report.machine(), "", *report.lines("This build beside another one", rows), sep="\n"
            )
            return
        binaries = executables.binaries(scratch)
        parts: dict[str, Callable[[], list[Row]]] = {
            "Calls: mux, ttrpc, stub": lambda: calls.measure(calls=5000 // divisor),
            "Cold: one run of a compiled plugin, whole process": lambda: plugin_start.measure(
                scratch, binaries, runs=100 // divisor
            ),
            "Events: with the bridge, as the runtime sees them": lambda: events.measure(
                scratch, binaries, events=400 // divisor, sustained=2000 // divisor
            ),
            "Waiting: foreign plugins": lambda: waiting.measure(
                scratch, binaries, events=400 // divisor
            ),
            "Pods at once": lambda: bursts.measure(scratch, binaries, rounds=50 // divisor),
            "First event of a bridge": lambda: first.measure(
                scratch, binaries, bridges=max(2, 7 // divisor), events=50 // divisor
            ),
            "Ten plugins": lambda: ten.measure(scratch, binaries, events=200 // divisor),
            "Scale and footprint of the bridge": lambda: scale.measure(
                scratch, binaries, events=200 // divisor, growth=20_000 // divisor
            ),
            "Runtime: a container with nri-runc beside runc alone": lambda: runtime.measure(
                binaries, runs=60 // divisor
            ),
            "Exclusive CPUs: how near to each other": lambda: cpu_sets.measure(scratch),
        }
        wanted = tuple(arguments.only.lower().split(","))
        print(report.machine())
        measured: dict[str, list[Row]] = {}
        for title, measure in parts.items():
            if title.lower().startswith(wanted):
                measured[title] = measure()
                print("", *report.lines(title, measured[title]), sep="\n", flush=True)
    report.save(Path(arguments.json), measured)
    missed = [row.name for rows in measured.values() for row in rows if row.verdict == "MISSED"]
    print(f"\nmissed: {'; '.join(missed)}" if missed else "\nevery goal is reached")


if __name__ == "__main__":
    main()
