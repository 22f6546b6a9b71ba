"""Work that no answer waits for: when it is done, how often, and in which thread."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from nri.v1bridge import deferred
from nri.v1bridge.deferred import Deferred
from tests.support.waiting import SOON, wait_until


class Work:
    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.deferred = Deferred(self.do)

    def do(self) -> None:
        self.threads.append(threading.current_thread())


def test_it_is_done_in_a_thread_of_its_own_after_each_quiet_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred, "AT_MOST", 10 * SOON)
    work = Work()
    for number in range(1, 4):
        work.deferred.put()
        assert wait_until(lambda: len(work.threads) >= number)  # noqa: B023
    assert len(set(work.threads)) == 1
    assert work.threads[0] is not threading.current_thread()


def test_what_is_put_together_is_done_together(monkeypatch: pytest.MonkeyPatch) -> None:
    work, quiet = Work(), threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", lambda seconds: quiet.wait(SOON))
        for _ in range(100):
            work.deferred.put()
        assert work.threads == []
        quiet.set()
        assert wait_until(lambda: work.threads)
    assert len(work.threads) == 1


def test_events_without_a_pause_do_not_postpone_it_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    work, sleep = Work(), time.sleep

    def sleep_until_an_event(seconds: float) -> None:
        sleep(seconds)
        if not work.threads:
            work.deferred.put()

    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", sleep_until_an_event)
        work.deferred.put()
        assert wait_until(lambda: work.threads)


def test_what_is_put_while_it_is_done_is_done_again() -> None:
    done: list[int] = []
    begun, go_on = threading.Event(), threading.Event()

    def do() -> None:
        done.append(1)
        begun.set()
        assert go_on.wait(SOON)

    work = Deferred(do)
    work.put()
    assert begun.wait(SOON)
    work.put()
    go_on.set()
    assert wait_until(lambda: len(done) == 2)


def test_an_error_is_logged_and_the_next_time_comes(caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []

    def do() -> None:
        done.append(1)
        raise ValueError("no space left")

    caplog.set_level(logging.ERROR)
    work = Deferred(do)
    for number in range(1, 3):
        work.put()
        assert wait_until(lambda: len(done) == number)  # noqa: B023
    assert wait_until(lambda: caplog.text.count("deferred work has failed") == 2)
    assert "no space left" in caplog.text


def test_without_work_the_thread_ends_and_another_begins_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred, "_IDLE", 0.01)
    work = Work()
    for number in range(1, 3):
        work.deferred.put()
        assert wait_until(lambda: len(work.threads) == number)  # noqa: B023
        assert wait_until(lambda: not any(thread.is_alive() for thread in work.threads))
    assert len(set(work.threads)) == 2


def test_if_the_system_has_no_thread_it_is_done_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    work = Work()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        work.deferred.put()
    assert work.threads == [threading.current_thread()]
    work.deferred.put()
    assert wait_until(lambda: len(work.threads) == 2)
    assert work.threads[1] is not threading.current_thread()
