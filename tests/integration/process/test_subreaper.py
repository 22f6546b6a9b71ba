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

from nri.process import children, subreaper
from nri.process.conversation import launch
from tests.support.processes import all_reaped, is_running
from tests.support.waiting import SOON, wait_until


def sleeping() -> subprocess.Popen[bytes]:
    """Start a process that sleeps; wait for its name, which the kernel sets a moment after Popen returns."""
    process = subprocess.Popen(["/bin/sleep", "1000"])
    assert wait_until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n")
    return process


@pytest.fixture
def orphans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the orphans that the kernel reports; the test's own process becomes no subreaper."""
    numbers: list[int] = []
    monkeypatch.setattr(subreaper, "become_subreaper", lambda: True)
    monkeypatch.setattr(subreaper, "own_children", lambda: list(numbers))
    return numbers


def end(search: subreaper.Subreaper, *, is_busy: bool = False) -> None:
    search.end_orphans(threading.Lock(), lambda: is_busy)


def test_orphan_is_kept(
    orphans: list[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "nri.client")
    process = sleeping()
    orphans.append(process.pid)
    search = subreaper.Subreaper()
    try:
        with monkeypatch.context() as patch:
            # As in an uninterruptible system call.
            patch.setattr(os, "kill", lambda pid, number: None)
            for _ in range(20):
                end(search)
        assert children.late == [process.pid]
        assert is_running(process.pid)
        assert (
            caplog.text.count(
                f"killed a process that a plugin has left behind: {process.pid} (sleep)"
            )
            == 1
        )
        process.kill()
        assert wait_until(lambda: children.has_exited(process.pid))
        children.reap_late()
        assert children.late == []
    finally:
        process.kill()
        process.wait()


@pytest.mark.usefixtures("orphans")
def test_orphan_that_ends_is_reaped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subreaper, "ENDS_WITHIN", SOON)
    process = sleeping()
    monkeypatch.setattr(
        subreaper,
        "own_children",
        lambda: [process.pid] if os.path.exists(f"/proc/{process.pid}") else [],
    )
    search = subreaper.Subreaper()
    end(search, is_busy=True)
    assert is_running(process.pid)
    end(search)
    assert not os.path.exists(f"/proc/{process.pid}")
    process.wait()


@pytest.mark.usefixtures("orphans")
def test_orphans_that_make_others_for_ever_are_left_for_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subreaper, "ENDS_WITHIN", 0)
    made: list[subprocess.Popen[bytes]] = []

    def endless() -> list[int]:
        if not made or made[-1].pid in children.late or not os.path.exists(f"/proc/{made[-1].pid}"):
            made.append(sleeping())
        return [made[-1].pid]

    monkeypatch.setattr(subreaper, "own_children", endless)
    end(subreaper.Subreaper())
    assert len(made) <= 2
    for process in made:
        process.kill()
        process.wait()
    assert all_reaped()


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
    monkeypatch.setattr(subreaper, "become_subreaper", lambda: True)
    before, real_children = set(subreaper.own_children()), subreaper.own_children
    monkeypatch.setattr(
        subreaper, "own_children", lambda: [pid for pid in real_children() if pid not in before]
    )
    lock = Lock()
    monkeypatch.setattr(children, "lock", lock)
    search = threading.Thread(target=end, args=(subreaper.Subreaper(),))

    def posix_spawn(*arguments: Any, **options: Any) -> int:
        pid = real(*arguments, **options)
        search.start()
        assert wait_until(lambda: search.ident in lock.wanted_by or not search.is_alive())
        return pid

    real = os.posix_spawn
    monkeypatch.setattr(os, "posix_spawn", posix_spawn)
    output = launch("/bin/cat", ["cat"], b"alive", time.monotonic() + SOON, log=lambda _line: None)
    search.join(SOON)
    assert not search.is_alive()
    assert (output.status, output.stdout) == (0, b"alive")
