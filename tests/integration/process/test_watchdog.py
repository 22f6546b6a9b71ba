"""A host reports each process that it starts and reaps to its watchdog; no plugin waits for the watchdog."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from nri.process import children, watchdog
from tests.support.host import plugin, request
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.support.host import Host


@pytest.mark.parametrize("is_gone", [False, True], ids=["does not read", "is gone"])
def test_watchdog_that_accepts_no_report_delays_no_plugin(host: Host, is_gone: bool) -> None:
    reads, writes = os.pipe()
    if is_gone:
        os.close(reads)
    else:
        os.set_blocking(writes, False)
        with pytest.raises(BlockingIOError):
            while True:
                os.write(writes, bytes(4096))
        os.set_blocking(writes, True)
    children.report_to(writes)
    try:
        host.install("a")
        assert len(host.client(plugin("a", ["echo"])).invoke(request(), "create")) == 1
    finally:
        children.report_to(-1)
        os.close(writes)
        if not is_gone:
            os.close(reads)


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


def test_host_that_is_killed_before_it_can_report_a_start_leaves_nothing(host: Host) -> None:
    begun = host.root / "begun"
    host.script("hanging", f"#!/bin/sh\necho $$ > {begun}\nsleep 1234\n:\n")  # its name stays
    command = [sys.executable, "-c", KILLED_IN_BETWEEN, str(host.bin / "hanging")]
    for _ in range(3):
        done = subprocess.run(command, check=False, process_group=0)
        assert done.returncode == -signal.SIGKILL
        # It has not begun, or has been killed since.
        assert wait_until(lambda: host.processes() == [])


def test_watchdog_kills_sessions_that_are_not_reaped_and_the_last_announced_start() -> None:
    """Another process may have the number of a reaped one when the watchdog kills."""
    waits, told = os.pipe()
    os.write(told, b"?pipe:[1]\n+5\n-5\n?pipe:[2]\n!\n+7\n?pipe:[3] socket:[4] /dev/null\n")
    os.close(told)
    try:
        assert watchdog._read_reports(waits) == ({7}, {"pipe:[3]", "socket:[4]"})
    finally:
        os.close(waits)
