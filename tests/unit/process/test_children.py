"""The registry of children, and the reports on them."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from nri.process import children
from nri.process.children import has_exited
from nri.process.spawn import spawn
from tests.support.processes import children_reported
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def reports() -> Iterator[int]:
    """The reading end of the pipe that the reports go to."""
    with children_reported() as reads:
        yield reads


def true() -> int:
    return spawn("/bin/true", ["true"], (0, 1, 2))


def test_child_is_registered_until_it_is_reaped() -> None:
    pid = spawn("/bin/sleep", ["sleep", "1000"], (0, 1, 2))
    assert children.reap(pid) is None
    assert pid in children.started
    os.kill(pid, signal.SIGTERM)
    assert wait_until(lambda: has_exited(pid))
    assert children.reap(pid) == -signal.SIGTERM
    assert pid not in children.started


def test_child_that_the_kernel_has_reaped_counts_as_ended() -> None:
    pid = true()
    os.waitpid(pid, 0)
    assert has_exited(pid)
    assert children.reap(pid) == 0
    assert pid not in children.started


def test_without_a_watchdog_nothing_is_reported() -> None:
    assert not children.are_reported()
    children.report("+", 1)


def test_start_and_reaping_of_a_child_are_reported(reports: int) -> None:
    assert children.are_reported()
    pid = true()
    assert os.getsid(pid) == pid
    assert wait_until(lambda: has_exited(pid))
    assert children.reap(pid) == 0
    files = " ".join(os.readlink(f"/proc/self/fd/{fd}") for fd in (0, 1, 2))
    assert os.read(reports, 4096).decode().splitlines() == [f"?{files}", f"+{pid}", f"-{pid}"]
    pid = true()
    os.waitpid(pid, 0)
    assert children.reap(pid) == 0
    assert os.read(reports, 4096).decode().splitlines()[1:] == [f"+{pid}", f"-{pid}"]


def test_failed_start_is_reported(reports: int) -> None:
    with pytest.raises(FileNotFoundError):
        spawn("/nonexistent", ["a"], (0, 1, 2))
    assert [line[:1] for line in os.read(reports, 4096).decode().splitlines()] == ["?", "!"]
