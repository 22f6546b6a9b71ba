"""Threads that take turns: somebody always waits, few do when there is nothing to do, none after the end."""

import random
import sys
import threading
from queue import SimpleQueue

import pytest

from nri.multiplex import leader_followers
from nri.multiplex.leader_followers import LeaderFollowers
from tests.support.waiting import TIMEOUT, until


class Source:
    """What comes, for some readers that run until the end of the test."""

    def __init__(self, name):
        self.name = name
        self.queue = SimpleQueue()
        self.readers = LeaderFollowers(name, self.queue.get)
        self.main = threading.Thread(target=self.readers.run)
        self.main.start()

    def give(self, *tasks):
        self.queue.put(list(tasks))

    def threads(self):
        return [thread for thread in threading.enumerate() if thread.name.startswith(f"{self.name}-")]

    def end(self):
        self.readers.end()
        for _ in self.threads():
            self.queue.put([])
        self.main.join(TIMEOUT)
        assert not self.main.is_alive()


@pytest.fixture
def switching_often():
    """Threads that take turns at nearly every instruction, so that each race is run many times."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.fixture
def source(request):
    made = Source(request.node.name)
    yield made
    made.end()
    until(lambda: not made.threads())


def test_tasks_that_hang_keep_nobody_waiting_and_few_threads_are_kept(source):
    started, release = [], threading.Event()

    def task():
        started.append(1)
        assert release.wait(TIMEOUT)

    for number in range(40):
        source.give(task)
        until(lambda number=number: len(started) == number + 1)
    assert len(source.threads()) == 41  # one waits
    release.set()
    until(lambda: len(source.threads()) <= leader_followers._WAITING_KEPT)


def test_several_tasks_of_one_turn_run_at_once(source):
    meet = threading.Barrier(5)
    done = []

    def task():
        meet.wait(TIMEOUT)
        done.append(1)

    source.give(*[task] * 5)
    until(lambda: len(done) == 5)


def test_what_is_handed_out_from_elsewhere_is_done_in_a_thread_of_the_readers(source):
    done = []
    source.readers.hand_out([lambda: done.append(threading.current_thread().name)])
    until(lambda: done)
    assert done[0].startswith(f"{source.name}-")


def test_threads_are_bounded_and_used_again_whatever_the_load_is(source):
    done, names, count = [], set(), 3000
    chance = random.Random(1)

    def task():
        names.add(threading.current_thread().name)
        done.append(1)

    for number in range(count):
        source.give(task)
        if chance.random() < 0.2:
            until(lambda number=number: len(done) > number - 3)
    until(lambda: len(done) == count)
    until(lambda: len(source.threads()) <= leader_followers._WAITING_KEPT)
    assert len(names) < 100


def test_one_task_after_the_other_needs_two_threads(source):
    done = []
    for number in range(50):
        source.give(lambda: done.append(threading.current_thread().name))
        until(lambda number=number: len(done) == number + 1)
        until(lambda: source.readers._waiting == 2)
    assert len(source.threads()) == 2


def test_threads_that_finish_together_do_not_all_end(source, switching_often):
    for _ in range(100):
        together, next_one = threading.Barrier(13), threading.Event()
        for _ in range(12):
            source.give(lambda together=together: together.wait(TIMEOUT))
        together.wait(TIMEOUT)
        source.give(next_one.set)
        assert next_one.wait(TIMEOUT), "no thread reads any more"
    until(lambda: len(source.threads()) <= leader_followers._WAITING_KEPT)


def test_it_is_over_when_the_last_thread_has_ended_because_of_an_error(caplog):
    def turn():
        raise MemoryError("no memory to wait with")

    broken = LeaderFollowers("broken", turn)
    main = threading.Thread(target=broken.run)
    main.start()
    main.join(TIMEOUT)
    assert not main.is_alive()
    assert "MemoryError: no memory to wait with" in caplog.text


def test_what_is_more_than_the_most_waits_and_is_done(source, monkeypatch):
    monkeypatch.setattr(leader_followers, "MAX_THREADS", 4)
    started, release = [], threading.Event()

    def task():
        started.append(1)
        assert release.wait(TIMEOUT)

    source.give(*[task] * 20)
    until(lambda: len(started) == 3)
    assert len(source.threads()) == 4
    source.give(task)
    until(source.queue.empty)  # somebody still reads
    release.set()
    until(lambda: len(started) == 21)


def test_without_another_thread_tasks_are_done_one_after_the_other(source, monkeypatch, caplog):
    until(lambda: source.readers._waiting == 1)
    done = []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", lambda self: (_ for _ in ()).throw(RuntimeError("can't start")))
        source.give(lambda: done.append(1), lambda: done.append(2))
        until(lambda: done == [1, 2])
        source.give(lambda: done.append(3))
        until(lambda: done == [1, 2, 3])
    assert "no thread for what comes next: can't start" in caplog.text
    assert len(source.threads()) == 1


def test_a_task_that_raises_is_logged_and_its_thread_reads_on(source, caplog):
    done = []

    def broken():
        raise ValueError("a bug")

    for number in range(20):
        source.give(broken)
        source.give(lambda: done.append(1))
        until(lambda number=number: len(done) == number + 1)
    until(lambda: caplog.text.count("ValueError: a bug") == 20)
    assert all(int(thread.name.rpartition("-")[2]) < 20 for thread in source.threads())


def test_after_the_end_nothing_is_begun_and_what_runs_may_finish():
    source = Source("ended")
    began, done, release = threading.Event(), [], threading.Event()

    def first():
        began.set()
        assert release.wait(TIMEOUT)
        done.append("first")

    source.give(first)
    assert began.wait(TIMEOUT)
    source.end()  # does not wait for it
    source.readers.hand_out([lambda: done.append("late")])
    source.readers.join()
    assert done == []
    release.set()
    until(lambda: not source.threads())
    assert done == ["first"]
