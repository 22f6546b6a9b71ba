"""Processes that were left behind, and that the kernel does not let go."""

from __future__ import annotations

import logging
import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from nri.client import orphans
from tests.host import SOON, has_zombie, is_running, wait_until

if TYPE_CHECKING:
    import pytest


class Powerless:
    """As ``os``, but that nobody is killed: what an uninterruptible system call makes of it."""

    def kill(self, pid: int, number: int) -> None:
        pass

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)


def sleeping() -> subprocess.Popen[bytes]:
    """A process that sleeps, and is called so: the kernel renames it a moment after Popen has seen it begin."""
    process = subprocess.Popen(["/bin/sleep", "1000"])
    assert wait_until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n", SOON)
    return process


def test_one_that_the_kernel_keeps_holds_nobody_up_is_said_once_and_reaped_when_it_goes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "nri.client")
    monkeypatch.setattr(orphans, "_become_subreaper", lambda: True)
    process = sleeping()
    monkeypatch.setattr(orphans, "_children", lambda: [process.pid])
    left = orphans.Orphans()
    said = f"killed a process that a plugin has left behind: {process.pid} (sleep)"
    try:
        with monkeypatch.context() as patch:
            patch.setattr(orphans, "os", Powerless())
            started = time.monotonic()
            for _ in range(20):
                left.end()
            assert time.monotonic() - started < 20 * orphans.ENDS_WITHIN  # waited for once, not each time
        assert is_running(process.pid)
        assert caplog.text.count(said) == 1
        process.kill()
        assert wait_until(lambda: left.end() is None and not os.path.exists(f"/proc/{process.pid}"), SOON)
    finally:
        process.kill()
        process.wait()
    assert not has_zombie()


def test_one_that_goes_is_gone_when_the_search_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "_become_subreaper", lambda: True)
    monkeypatch.setattr(orphans, "ENDS_WITHIN", SOON)
    process = sleeping()
    alive = [process.pid]
    monkeypatch.setattr(orphans, "_children", lambda: [pid for pid in alive if os.path.exists(f"/proc/{pid}")])
    orphans.Orphans().end()
    assert not os.path.exists(f"/proc/{process.pid}")
    process.wait()
