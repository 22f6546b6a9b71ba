"""A host reports each process that it starts and reaps to its watchdog. No plugin waits for the watchdog."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from nri.client import ChainError
from nri.process import children, watchdog
from tests.support.host import plugin, request
from tests.support.processes import children_reported
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.host import Host


@pytest.fixture
def reports() -> Iterator[int]:
    """The reading end of the pipe that the reports go to."""
    with children_reported() as reads:
        yield reads


def read(fd: int) -> list[str]:
    return os.read(fd, 65536).decode().splitlines()


@pytest.mark.parametrize("does", [["echo"], ["error", "no"], ["exit", 3], ["crash", "SIGSEGV"]], ids=str)
def test_a_start_and_a_reaping_are_reported(host: Host, reports: int, does: list[object]) -> None:
    host.install("a", "b")
    client = host.client(plugin("a", ["echo"]), plugin("b", does, failure_policy="ignore"))
    client.invoke(request(), "create")
    said = read(reports)
    assert all(line.startswith("?pipe:[") and line.count("pipe:[") == 3 for line in said[::3])
    pids = [line[1:] for line in said[1::3]]
    assert len(set(pids)) == 2
    assert [line for line in said if line[0] != "?"] == [f"{sign}{pid}" for pid in pids for sign in "+-"]


def test_a_start_that_fails_is_taken_back(host: Host, reports: int) -> None:
    host.script("a", "#!/nonexistent\n")
    with pytest.raises(ChainError):
        host.client(plugin("a")).invoke(request(), "create")
    announced, taken_back = read(reports)
    assert (announced[0], taken_back) == ("?", "!")


def test_a_plugin_that_is_killed_at_its_deadline_is_reported_as_reaped(host: Host, reports: int) -> None:
    host.install("a")
    host.client(plugin("a", ["hang"], timeout=0.2, failure_policy="ignore")).invoke(request(), "create")
    _, started, reaped = read(reports)
    assert (started[0], reaped[0], started[1:]) == ("+", "-", reaped[1:])


def test_a_watchdog_that_does_not_read_delays_no_plugin(host: Host, reports: int) -> None:
    writes = os.open(f"/proc/self/fd/{reports}", os.O_WRONLY | os.O_NONBLOCK)
    for size in (65536, 1):
        try:
            while True:
                os.write(writes, b"x" * size)
        except BlockingIOError:
            pass
    os.close(writes)
    host.install("a")
    assert len(host.client(plugin("a", ["echo"])).invoke(request(), "create")) == 1


def test_a_watchdog_that_is_gone_harms_no_plugin(host: Host) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    children.report_to(writes)
    try:
        host.install("a")
        assert len(host.client(plugin("a", ["echo"])).invoke(request(), "create")) == 1
    finally:
        children.report_to(-1)
        os.close(writes)


KILLED_IN_BETWEEN = """
import os, signal, sys
from nri.process import children, watchdog
from nri.process.spawn import pipe, spawn
watchdog.start(make_session=False)
report = children.report
def die(sign, what=""):
    if sign == "+":
        os.kill(os.getpid(), signal.SIGKILL)
    report(sign, what)
children.report = die
pipes = [pipe() for _ in range(3)]
spawn(sys.argv[1], ["hanging", "invoke"], (pipes[0][0], pipes[1][1], pipes[2][1]))
"""


def test_a_host_that_is_killed_before_it_can_report_what_it_has_started_leaves_nothing(host: Host) -> None:
    begun = host.root / "begun"
    host.script("hanging", f"#!/bin/sh\necho $$ > {begun}\nsleep 1234\n:\n")  # its name stays
    command = [sys.executable, "-c", KILLED_IN_BETWEEN, str(host.bin / "hanging")]
    for _ in range(20):
        done = subprocess.run(command, check=False, process_group=0)
        assert done.returncode == -signal.SIGKILL
        # It has not begun, or has been killed since.
        assert wait_until(lambda: host.processes() == [])


def test_sessions_that_are_not_reaped_and_the_last_announced_start_count() -> None:
    """Another process may have the number of a reaped one when the watchdog kills."""
    waits, told = os.pipe()
    os.write(told, b"?pipe:[1]\n+5\n-5\n?pipe:[2]\n!\n+7\n?pipe:[3] socket:[4] /dev/null\n")
    os.close(told)
    try:
        assert watchdog._read_reports(waits) == ({7}, {"pipe:[3]", "socket:[4]"})
    finally:
        os.close(waits)
