"""Orphans that end late, that make others, and the search for them while a plugin starts."""

from __future__ import annotations

import logging
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from nri.process import children, launch, subreaper
from tests.support.processes import all_reaped, is_running
from tests.support.waiting import SOON, wait_until


class Powerless:
    """``os``, except that nothing is killed, as in an uninterruptible system call."""

    def kill(self, pid: int, number: int) -> None:
        pass

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)


def sleeping() -> subprocess.Popen[bytes]:
    """Start a process that sleeps; wait for its name, which the kernel sets a moment after Popen returns."""
    process = subprocess.Popen(["/bin/sleep", "1000"])
    assert wait_until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n", SOON)
    return process


@pytest.fixture
def orphans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the orphans that the kernel reports; the test's own process becomes no subreaper."""
    numbers: list[int] = []
    monkeypatch.setattr(subreaper, "_become_subreaper", lambda: True)
    monkeypatch.setattr(subreaper, "_children", lambda: list(numbers))
    return numbers


def test_orphan_that_the_kernel_keeps_is_waited_for_and_logged_once_and_reaped_when_it_ends(
    orphans: list[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "nri.client")
    process = sleeping()
    orphans.append(process.pid)
    waited: list[int] = []
    monkeypatch.setattr(subreaper, "ends", lambda pidfd, _within: waited.append(pidfd))
    left = subreaper.Subreaper()

    def is_reaped() -> bool:
        left.end_orphans()
        return not os.path.exists(f"/proc/{process.pid}")

    try:
        with monkeypatch.context() as patch:
            patch.setattr(subreaper, "os", Powerless())
            for _ in range(20):
                left.end_orphans()
        assert len(waited) == 1
        assert is_running(process.pid)
        assert caplog.text.count(f"killed a process that a plugin has left behind: {process.pid} (sleep)") == 1
        process.kill()
        assert wait_until(is_reaped, SOON)
    finally:
        process.kill()
        process.wait()
    assert all_reaped()


def test_orphan_that_ends_is_reaped_when_the_search_returns(
    orphans: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subreaper, "ENDS_WITHIN", SOON)
    process = sleeping()
    monkeypatch.setattr(
        subreaper, "_children", lambda: [process.pid] if os.path.exists(f"/proc/{process.pid}") else []
    )
    subreaper.Subreaper().end_orphans()
    assert not os.path.exists(f"/proc/{process.pid}")
    process.wait()


class Recording:
    """``os`` with processes that are only numbers; none of them ends."""

    WNOHANG = os.WNOHANG

    def __init__(self) -> None:
        self.killed: list[int] = []

    def kill(self, pid: int, number: int) -> None:
        self.killed.append(pid)

    def waitpid(self, pid: int, options: int) -> tuple[int, int]:
        return 0, 0

    def pidfd_open(self, pid: int) -> int:
        raise ProcessLookupError


def test_new_process_with_the_number_of_a_killed_one_is_killed(
    orphans: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Recording()
    monkeypatch.setattr(subreaper, "os", recording)
    left = subreaper.Subreaper()
    number = 1 << 30  # above what Linux gives to a process
    for found in ([number], [number], [], [number]):
        orphans[:] = found
        left.end_orphans()
    assert recording.killed == [number, number]


@pytest.mark.usefixtures("orphans")
def test_orphans_that_make_others_for_ever_are_left_for_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subreaper, "ENDS_WITHIN", 0)
    recording = Recording()
    monkeypatch.setattr(subreaper, "os", recording)

    def endless() -> list[int]:
        assert len(recording.killed) < 100, "it goes on for ever"
        return [(1 << 30) + len(recording.killed)]

    monkeypatch.setattr(subreaper, "_children", endless)
    subreaper.Subreaper().end_orphans()
    assert len(recording.killed) == 1


class Lock:
    """A lock that records the threads that have asked for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.wanted_by: set[int] = set()

    def __enter__(self) -> None:
        self.wanted_by.add(threading.get_ident())
        self._lock.acquire()

    def __exit__(self, *_error: object) -> None:
        self._lock.release()


def test_plugin_that_is_being_started_is_no_orphan(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search begins when the plugin is a child already, and its number is not registered yet."""
    monkeypatch.setattr(subreaper, "_become_subreaper", lambda: True)
    before, real_children = set(subreaper._children()), subreaper._children
    monkeypatch.setattr(subreaper, "_children", lambda: [pid for pid in real_children() if pid not in before])
    lock = Lock()
    monkeypatch.setattr(children, "lock", lock)
    left = subreaper.Subreaper()
    assert not left.may_have_orphans()
    search = threading.Thread(target=left.end_orphans)

    def posix_spawn(*arguments: Any, **options: Any) -> int:
        pid = real(*arguments, **options)
        assert left.may_have_orphans()
        search.start()
        assert wait_until(lambda: search.ident in lock.wanted_by or not search.is_alive())
        return pid

    real = os.posix_spawn
    monkeypatch.setattr(os, "posix_spawn", posix_spawn)
    output = launch.launch("/bin/cat", ["cat"], b"alive", time.monotonic() + SOON, log=lambda _line: None)
    search.join(SOON)
    assert not search.is_alive()
    assert (output.status, output.stdout) == (0, b"alive")
