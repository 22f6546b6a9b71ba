"""A made-up host for each test. It is left as it was found: no process, no zombie, no descriptor more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.node import record
from tests.support.host import Host
from tests.support.processes import all_reaped, kill, open_fds
from tests.support.sent import readable_by_go
from tests.support.waiting import wait_until

__all__ = ["host", "readable_by_go"]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path)
    before = open_fds()
    yield host
    for close in host.closing:
        close()
    locks = record._locks  # noqa: SLF001 - of a host that was run in this process
    while locks:
        os.close(locks.pop())
    wait_until(lambda: not host.processes())  # one that was killed takes a moment
    left = host.processes()
    for pid in left:
        kill(pid)
    assert left == [], "processes of plugins are left"
    assert all_reaped()
    # Threads in the background, which load modules and plugins ahead, open files for a moment, before this test, too.
    wait_until(lambda: open_fds().items() <= before.items())
    assert open_fds().items() - before.items() == set(), "descriptors are left open"
