"""Threads for calls: as many as are needed, few that idle, none after the end."""

import random
import threading

from nri.ttrpc import workers
from nri.ttrpc.workers import Workers
from tests.connected import PATIENCE, until


def threads(name):
    return [thread for thread in threading.enumerate() if thread.name.startswith(f"{name}-")]


def test_tasks_run_at_once_and_few_idle_threads_are_kept():
    pool, started, release = Workers("many"), [], threading.Event()

    def task():
        started.append(1)
        assert release.wait(PATIENCE)

    for _ in range(40):
        pool.run(task)
    until(lambda: len(started) == 40)
    assert len(threads("many")) == 40
    release.set()
    until(lambda: len(threads("many")) == workers._IDLE_KEPT)
    pool.stop()
    until(lambda: not threads("many"))


def test_idle_threads_are_bounded_whatever_the_load_was():
    pool, done, count = Workers("bounded"), [], 3000
    chance = random.Random(1)
    for number in range(count):
        pool.run(lambda: done.append(1))
        if chance.random() < 0.2:
            until(lambda number=number: len(done) > number - 3)
    until(lambda: len(done) == count)
    until(lambda: len(threads("bounded")) <= workers._IDLE_KEPT)
    pool.stop()
    until(lambda: not threads("bounded"))


def test_an_idle_thread_is_used_before_a_new_one_is_made():
    pool, done = Workers("reused"), []
    for number in range(50):
        pool.run(lambda: done.append(threading.current_thread().name))
        until(lambda number=number: len(done) == number + 1 and len(pool._idle) == 1)
    assert set(done) == {"reused-1"}
    pool.stop()


def test_what_is_more_than_the_most_waits_and_is_run(monkeypatch):
    monkeypatch.setattr(workers, "MAX_WORKERS", 3)
    pool, done, release = Workers("most"), [], threading.Event()

    def task():
        assert release.wait(PATIENCE)
        done.append(1)

    for _ in range(20):
        pool.run(task)
    assert len(threads("most")) == 3
    release.set()
    until(lambda: len(done) == 20)
    pool.stop()
    until(lambda: not threads("most"))


def test_after_the_end_nothing_is_begun_and_what_runs_may_finish(monkeypatch):
    monkeypatch.setattr(workers, "MAX_WORKERS", 1)
    pool, began, done, release = Workers("ended"), threading.Event(), [], threading.Event()

    def first():
        began.set()
        assert release.wait(PATIENCE)
        done.append("first")

    pool.run(first)
    pool.run(lambda: done.append("queued"))
    assert began.wait(PATIENCE)
    pool.stop()
    pool.run(lambda: done.append("late"))
    release.set()
    until(lambda: not threads("ended"))
    assert done == ["first"]
