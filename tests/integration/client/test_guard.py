"""What a host reports to its guard: each process that it starts and reaps. No plugin waits for the guard."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from nri.client import spawn
from tests.host import plugin, request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.host import Host


@pytest.fixture
def reports() -> Iterator[int]:
    """The reading end of the pipe that the reports go to."""
    reads, writes = os.pipe()
    os.set_blocking(reads, False)
    spawn.report_to(writes)
    yield reads
    spawn.report_to(-1)
    os.close(writes)
    os.close(reads)


def read(fd: int) -> list[str]:
    return os.read(fd, 65536).decode().splitlines()


@pytest.mark.parametrize("does", [["echo"], ["error", "no"], ["exit", 3], ["crash", "SIGSEGV"]], ids=str)
def test_what_is_started_is_reported_and_so_is_that_it_was_reaped(
    host: Host, reports: int, does: list[object]
) -> None:
    host.install("a", "b")
    client = host.client(plugin("a", ["echo"]), plugin("b", does, failure_policy="ignore"))
    client.invoke(request(), "create")
    said = read(reports)
    pids = [line[1:] for line in said[::2]]
    assert len(set(pids)) == 2
    assert said == [f"{sign}{pid}" for pid in pids for sign in "+-"]


def test_one_that_is_killed_at_its_deadline_is_reported_as_reaped(host: Host, reports: int) -> None:
    host.install("a")
    host.client(plugin("a", ["hang"], timeout=0.2, failure_policy="ignore")).invoke(request(), "create")
    started, reaped = read(reports)
    assert (started[0], reaped[0], started[1:]) == ("+", "-", reaped[1:])


def test_a_guard_that_does_not_read_keeps_no_plugin_waiting(host: Host, reports: int) -> None:
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


def test_a_guard_that_is_gone_harms_no_plugin(host: Host) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    spawn.report_to(writes)
    try:
        host.install("a")
        assert len(host.client(plugin("a", ["echo"])).invoke(request(), "create")) == 1
    finally:
        spawn.report_to(-1)
        os.close(writes)
