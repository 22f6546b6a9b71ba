"""Run the scenarios of one machine: ``python -m tests.node.guest MACHINE [EXPRESSION]``.

Prints a line for each; ``/results`` gets the whole report, and the journal of each that failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.node import CORE

REBOOT = 42
"""The exit status that asks for a reboot, and the next file."""

PHASE = Path("/var/lib/node-phase")
RESULTS = Path("/results")
SCENARIOS = Path(__file__).resolve().parent.parent / "scenarios"


class Lines:
    """Prints a line for each scenario and what it recorded, and keeps the journal of those that failed."""

    def __init__(self) -> None:
        self._began = ""

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._began = time.strftime("%Y-%m-%d %H:%M:%S")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        name = report.nodeid.rpartition("scenarios/")[2]
        outcome = "ok" if report.passed else report.outcome
        print(f"{outcome:8}{report.duration:6.1f} s  {name}", flush=True)
        for _, value in report.user_properties:
            print(*[f"{'':8}{line}" for line in str(value).splitlines()], sep="\n", flush=True)
        if report.passed:
            return
        print(report.longreprtext, report.capstdout, sep="\n", flush=True)
        file = RESULTS / (name.replace("/", "-").replace("::", "-") + ".journal.txt")
        command = ["journalctl", "--no-pager", "-o", "short-precise", f"--since={self._began}"]
        journal = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        file.write_text(journal)
        print("the end of the journal:", *journal.splitlines()[-25:], sep="\n  ", flush=True)


def main(machine: str, only: str) -> int:
    """Run the scenarios; return pytest's exit status, or ``REBOOT``."""
    if machine == CORE:
        return _run(machine, [SCENARIOS], only or "not containerd-1.7", "-m", CORE)
    folder = SCENARIOS / machine
    phases = sorted(folder.glob("[0-9]_*.py"))
    phase = int(PHASE.read_text()) if PHASE.exists() else 0
    status = _run(machine, [phases[phase]] if phases else [folder], only)
    if status or phase + 1 >= len(phases):
        return status
    PHASE.write_text(str(phase + 1))
    os.sync()
    return REBOOT


def _run(name: str, places: list[Path], only: str, *options_of_machine: str) -> int:
    options = [
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "no:terminalreporter",
        "--timeout=900",
        "--tb=short",
    ]
    options += options_of_machine
    options += ["-o", "python_files=*.py", f"--junitxml={RESULTS}/{name}.xml"]
    options += ["-o", "junit_family=xunit1"]  # has what a scenario records
    if only:
        options += ["-k", only]
    return int(pytest.main([*options, *map(str, places)], plugins=[Lines()]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *sys.argv[2:]))
