"""``python -m fuzz.session SECONDS FOLDER [TARGET...]``: run all targets with atheris, two at a time; print one
table.

For a finding the broken invariant and the command that runs the input again are printed, and the exit status is 1. A
target that did not run, or had no inputs, counts as a finding too.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from fuzz import targets

AT_ONCE = 2

GRACE = 120
"""Seconds beyond a target's time, for its imports and for a slow input."""

_STATUS = re.compile(
    r"^#(?P<runs>\d+)\s.*?\bcov: (?P<coverage>\d+) .*?\bcorp: (?P<corpus>\d+)", re.MULTILINE
)
_FOUND = re.compile(r"Test unit written to (\S+)")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of one target."""

    target: str
    runs: int
    coverage: int
    """The number of edges that inputs have reached, as libFuzzer counts them."""
    corpus: int
    """The number of inputs that are kept because each reaches an edge that the others do not."""
    broken: tuple[str, ...]
    """The files with inputs that broke the invariant."""
    trouble: str
    """The end of the output after a finding or a failure; else ""."""


def main(seconds: int, folder: str, names: list[str]) -> int:
    """Run the targets and print the table; return the exit status."""
    unknown = sorted(set(names) - set(targets.names()))
    if unknown:
        print(
            f"fuzz: found {', '.join(unknown)}, expected some of {', '.join(targets.names())}",
            file=sys.stderr,
        )
        return 2
    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = list(pool.map(lambda name: run(name, seconds, folder), names or targets.names()))
    print(table(outcomes))
    bad = [outcome for outcome in outcomes if outcome.trouble]
    for outcome in bad:
        print(f"\n{outcome.target}:\n{outcome.trouble}")
        for path in outcome.broken:
            print(f"again: .venv/bin/python -m fuzz {outcome.target} {path}")
    return 1 if bad else 0


def run(name: str, seconds: int, folder: str) -> Outcome:
    """Run one target for this time."""
    place = os.path.join(folder, name)
    command = [sys.executable, "-m", "fuzz.guided", name, str(seconds), place]
    try:
        ran = subprocess.run(command, capture_output=True, timeout=seconds + GRACE, check=False)
        output, status = (ran.stdout + ran.stderr).decode("utf-8", "replace"), ran.returncode
    except subprocess.TimeoutExpired as error:
        output, status = (
            ((error.stdout or b"") + (error.stderr or b"")).decode("utf-8", "replace"),
            -1,
        )
        output += f"\nit did not end within {seconds + GRACE} s"
    return outcome_of(name, output, status)


def outcome_of(name: str, output: str, status: int) -> Outcome:
    """Return the outcome in a target's output and exit status."""
    lines = list(_STATUS.finditer(output))
    runs, coverage, corpus = [int(number) for number in lines[-1].groups()] if lines else (0, 0, 0)
    broken = tuple(_FOUND.findall(output))
    trouble = output[-4000:].strip() if status or broken else ""
    if not trouble and runs == 0:
        trouble = output[-4000:].strip() or "it ran on nothing"
    return Outcome(
        target=name, runs=runs, coverage=coverage, corpus=corpus, broken=broken, trouble=trouble
    )


def table(outcomes: list[Outcome]) -> str:
    """Return a table with a line for each target."""
    rows = [("TARGET", "RUNS", "COVERAGE", "CORPUS", "FOUND")]
    for outcome in outcomes:
        numbers = (str(outcome.runs), str(outcome.coverage), str(outcome.corpus))
        shown = str(len(outcome.broken)) if outcome.broken or not outcome.trouble else "failed"
        rows.append((outcome.target, *numbers, shown))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        [
            row[0].ljust(widths[0])
            + "".join(
                "  " + cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)
            )
            for row in rows
        ]
    )


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
