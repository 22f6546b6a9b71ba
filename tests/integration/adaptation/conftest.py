"""No test of a runtime leaves a process, descriptor or thread when the runtime is closed."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.support.processes import all_reaped, open_fds
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before, threads = open_fds(), set(threading.enumerate())
    yield
    wait_until(lambda: set(threading.enumerate()) <= threads)
    assert set(threading.enumerate()) <= threads, "threads are left"
    assert open_fds() == before, "descriptors are left open"
    assert all_reaped()
