"""The watchdog, as its host sees it, where no other can be started."""

import errno
import os
import signal

import pytest

from nri.process import watchdog
from tests.support.processes import open_fds


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_an_ended_watchdog_that_cannot_be_replaced_is_reported_until_it_can_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fork() -> int:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    watcher = watchdog.start()
    ended = watcher.pid
    os.kill(ended, signal.SIGKILL)
    os.waitid(os.P_PID, ended, os.WEXITED | os.WNOWAIT)
    with monkeypatch.context() as no_process:
        no_process.setattr(os, "fork", fork)
        assert watcher.look() == (
            "its watchdog has ended, and no other can be started: Resource temporarily unavailable"
        )
    assert watcher.look() == ""
    assert watcher.pid != ended
    watcher.end(sweeps=False)


@pytest.mark.parametrize("call", ["memfd_create", "pipe2", "fork"])
def test_watchdog_that_cannot_be_started_leaves_no_descriptor(
    monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    before = open_fds()
    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(OSError, match="Too many open files"):
        watchdog.start()
    monkeypatch.undo()
    assert open_fds() == before
