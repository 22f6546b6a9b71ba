"""The harness that tests, benchmark, demonstration and soak share, and who may import whom."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
from pathlib import Path

import pytest

from harness import processes
from tests.support.waiting import wait_until

ROOT = Path(__file__).parent.parent.parent
BESIDE = ("bench", "demo", "fuzz", "harness", "nri", "soak")
"""The packages beside tests."""


def imported(path: Path) -> set[str]:
    """The top-level packages that a module imports, at any place in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize("package", BESIDE)
def test_no_package_imports_tests_and_only_harness_is_shared(package: str) -> None:
    allowed = {"nri": {"nri"}, "harness": {"nri", "harness"}}.get(package, {"nri", "harness", package})
    for path in (ROOT / package).rglob("*.py"):
        assert imported(path) & {"tests", *BESIDE} <= allowed, path


def test_descendants_are_found_and_zombies_only_if_asked_for() -> None:
    with subprocess.Popen(["/bin/sh", "-c", "sleep 1000 & wait"]) as shell:
        try:
            assert wait_until(lambda: len(processes.descendants(shell.pid)) == 1)
            (sleep,) = processes.descendants(shell.pid)
            assert wait_until(lambda: processes.command_line(sleep) == b"sleep\0" + b"1000\0")
            assert processes.name(sleep) == "sleep"
            assert {shell.pid, sleep} <= set(processes.descendants(os.getpid()))
            os.kill(shell.pid, signal.SIGSTOP)
            os.kill(sleep, signal.SIGKILL)
            assert wait_until(lambda: processes.descendants(shell.pid) == [])
            assert processes.descendants(shell.pid, zombies=True) == [sleep]
        finally:
            shell.kill()


def test_a_process_that_has_ended_has_nothing() -> None:
    done = subprocess.Popen(["/bin/true"])
    done.wait()
    assert (processes.command_line(done.pid), processes.name(done.pid)) == (b"", "")
    assert (processes.resident(done.pid), processes.proportional(done.pid), processes.cpu_ticks(done.pid)) == (
        0,
        0,
        0,
    )
