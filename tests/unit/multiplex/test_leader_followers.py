"""A pool of threads: one always waits for input, few wait when there is nothing to do, none after the end."""

import sys
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from queue import SimpleQueue

import pytest

from nri.multiplex import Job, leader_followers
from nri.multiplex.leader_followers import LeaderFollowers
from tests.support.waiting import TIMEOUT, until, until_there_are


class Source:
    """The input of a pool that runs until the end of the test."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.queue: SimpleQueue[list[Job]] = SimpleQueue()
        self.pool = LeaderFollowers(name, self.queue.get)
        self.main = threading.Thread(target=self.pool.run)
        self.main.start()

    def give(self, *jobs: Job) -> None:
        self.queue.put(list(jobs))

    def threads(self) -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name.startswith(f"{self.name}-")]

    def end(self) -> None:
        self.pool.stop()
        for _ in self.threads():
            self.queue.put([])
        self.main.join(TIMEOUT)
        assert not self.main.is_alive()


@pytest.fixture
def switching_often() -> Iterator[None]:
    """Threads that take turns at nearly every instruction, so that each race is run many times."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.fixture
def source(request: pytest.FixtureRequest) -> Iterator[Source]:
    made = Source(request.node.name)
    yield made
    made.end()
    until(lambda: not made.threads())


def test_jobs_that_hang_do_not_stop_reading_and_few_threads_are_kept(source: Source) -> None:
    started, release = [], threading.Event()

    def job() -> None:
        started.append(1)
        assert release.wait(TIMEOUT)

    for number in range(12):
        source.give(job)
        until_there_are(number + 1, started)
    assert len(source.threads()) == 13  # one waits
    release.set()
    until(lambda: len(source.threads()) <= leader_followers._MAX_IDLE)


def test_what_is_handed_out_from_elsewhere_is_done_in_a_thread_of_the_readers(source: Source) -> None:
    done = []
    source.pool.submit([lambda: done.append(threading.current_thread().name)])
    until(lambda: done)
    assert done[0].startswith(f"{source.name}-")


def test_one_job_after_the_other_needs_two_threads(source: Source) -> None:
    done = []
    for number in range(50):
        source.give(lambda: done.append(threading.current_thread().name))
        until_there_are(number + 1, done)
        until(lambda: source.pool._idle == 2)
    assert len(source.threads()) == 2


def test_threads_that_finish_together_do_not_all_end(source: Source, switching_often: None) -> None:
    for _ in range(50):
        together, next_one = threading.Barrier(13), threading.Event()
        for _ in range(12):
            source.give(partial(together.wait, TIMEOUT))
        together.wait(TIMEOUT)
        source.give(next_one.set)
        assert next_one.wait(TIMEOUT), "no reading thread is left"
    until(lambda: len(source.threads()) <= leader_followers._MAX_IDLE)


def test_it_is_over_when_the_last_thread_has_ended_because_of_an_error(caplog: pytest.LogCaptureFixture) -> None:
    def read() -> Sequence[Job]:
        raise MemoryError("no memory to wait with")

    broken = LeaderFollowers("broken", read)
    main = threading.Thread(target=broken.run)
    main.start()
    main.join(TIMEOUT)
    assert not main.is_alive()
    assert "MemoryError: no memory to wait with" in caplog.text


def test_what_is_more_than_the_most_waits_and_is_done(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_followers, "MAX_THREADS", 4)
    started, release = [], threading.Event()

    def job() -> None:
        started.append(1)
        assert release.wait(TIMEOUT)

    source.give(*[job] * 20)
    until(lambda: len(started) == 3)
    assert len(source.threads()) == 4
    source.give(job)
    until(source.queue.empty)  # a thread still reads
    release.set()
    until(lambda: len(started) == 21)


def test_without_another_thread_jobs_are_done_one_after_the_other(
    source: Source, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    until(lambda: source.pool._idle == 1)
    done = []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", lambda self: (_ for _ in ()).throw(RuntimeError("can't start")))
        source.give(lambda: done.append(1), lambda: done.append(2))
        until(lambda: done == [1, 2])
        source.give(lambda: done.append(3))
        until(lambda: done == [1, 2, 3])
    assert "can't start another reading thread: can't start" in caplog.text
    assert len(source.threads()) == 1


def test_a_job_that_raises_is_logged_and_its_thread_reads_on(
    source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    done = []

    def broken() -> None:
        raise ValueError("a bug")

    for number in range(8):
        source.give(broken)
        source.give(lambda: done.append(1))
        until_there_are(number + 1, done)
    until(lambda: caplog.text.count("ValueError: a bug") == 8)
    assert all(int(thread.name.rpartition("-")[2]) < 10 for thread in source.threads())


def test_after_the_end_nothing_is_begun_and_what_runs_may_finish() -> None:
    source = Source("ended")
    began, done, release = threading.Event(), [], threading.Event()

    def first() -> None:
        began.set()
        assert release.wait(TIMEOUT)
        done.append("first")

    source.give(first)
    assert began.wait(TIMEOUT)
    source.end()  # does not wait for it
    source.pool.submit([lambda: done.append("late")])
    source.pool.join()
    assert done == []
    release.set()
    until(lambda: not source.threads())
    assert done == ["first"]
