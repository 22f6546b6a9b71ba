"""Late creates: each once, never beside its delete, and none that nobody needs any more."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from nri.types.v1 import Request
from nri.v1bridge import late as module
from nri.v1bridge.late import Found, LateCreates, Missed, find_missed
from nri.v1bridge.record import Record
from nri.v2 import api
from nri.v2.ttrpc import Code, StatusError
from tests.support.pods import container, pod
from tests.support.waiting import SOON, until, wait_until


def missed(id_: str, pod: str = "p") -> Missed:
    return Missed(Request(state="create", id=id_, sandbox_id=pod, late=True), f"default/web/{id_}")


class Runs:
    """Late creates whose chains a test holds and lets go."""

    def __init__(self) -> None:
        self.record = Record()
        self.late = LateCreates(self._run, self.record)
        self.steps: list[str] = []
        self.held: set[str] = set()
        self.failing: dict[str, Exception] = {}
        self.most = 0
        self._now = 0
        self._changed = threading.Condition()

    def let(self, *ids: str) -> None:
        with self._changed:
            self.held -= set(ids)
            self._changed.notify_all()

    def put(self, *ids: str) -> None:
        """Each in a pod of its own."""
        self.late.put([[missed(id_)] for id_ in ids])

    def start(self, *ids: str) -> None:
        self.put(*ids)
        self.late.start()

    def _run(self, each: Missed) -> None:
        id_ = each.request.id
        with self._changed:
            self._now += 1
            self.most = max(self.most, self._now)
            self.steps.append(f"begin {id_}")
            assert self._changed.wait_for(lambda: id_ not in self.held, SOON)
            self._now -= 1
            self.steps.append(f"end {id_}")
        if id_ in self.failing:
            raise self.failing[id_]


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name == "late"]


@pytest.fixture
def runs(caplog: pytest.LogCaptureFixture) -> Iterator[Runs]:
    caplog.set_level(logging.INFO, "nri.v1bridge")
    runs = Runs()
    yield runs
    runs.held.clear()
    runs.let()
    assert wait_until(lambda: not threads())


def ended(runs: Runs) -> None:
    until(lambda: not threads(), "the end of the threads")


def test_of_one_pod_one_after_the_other(runs: Runs) -> None:
    runs.late.put([[missed("sandbox"), missed("one"), missed("two")]])
    runs.late.start()
    ended(runs)
    assert runs.steps == [f"{what} {id_}" for id_ in ("sandbox", "one", "two") for what in ("begin", "end")]


def test_two_hundred_pods_are_served_a_few_at_a_time(runs: Runs) -> None:
    ids = [f"p{number}" for number in range(200)]
    runs.held = {"p0", "p1", "p2", "p3"}
    runs.start(*ids)
    until(lambda: len(runs.steps) == module.THREADS, "all threads to be at work")
    runs.late.start()
    assert len(threads()) == module.THREADS
    runs.let("p0", "p1", "p2", "p3")
    ended(runs)
    assert sorted(each for each in runs.steps if each.startswith("begin")) == sorted(f"begin {id_}" for id_ in ids)
    assert runs.most <= module.THREADS


def test_failed_late_create_is_tried_three_times(
    runs: Runs, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSES", (0.0, 0.01, 0.02))
    runs.failing = {"a": StatusError(Code.ABORTED, "plugin x: no"), "b": KeyError("gone")}
    runs.late.put([[missed("a"), missed("b"), missed("c")]])
    runs.late.start()
    ended(runs)
    assert [step for step in runs.steps if step.startswith("end")][:3] == ["end a", "end b", "end c"]
    assert [runs.steps.count(f"end {id_}") for id_ in "abc"] == [3, 3, 1]
    assert caplog.text.count("late create failed: trying again") == 4
    failed = [line for line in caplog.records if line.levelno == logging.ERROR and "it runs without" in line.message]
    fields = [dict(line.fields) for line in failed]  # type: ignore[attr-defined]
    assert [(each["container"], each["late"], each["error"]) for each in fields] == [
        ("default/web/a", "true", "plugin x: no"),
        ("default/web/b", "true", "KeyError: 'gone'"),
    ]
    assert "late: create succeeded for 1, failed for 2, in " in caplog.text
    assert [id_ in runs.record for id_ in "abc"] == [False, False, True]


def test_waiting_for_a_retry_delays_no_other(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSES", (0.0, 60.0))
    runs.failing = {"a": KeyError("gone")}
    runs.start("a")
    until(lambda: "end a" in runs.steps, "the first try")
    runs.start("b")
    until(lambda: "end b" in runs.steps, "the other")
    runs.late.drop()


def test_one_that_is_tried_again_may_be_withdrawn_or_dropped(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSES", (0.0, 1000.0))
    runs.failing = {"a": KeyError("gone"), "b": KeyError("gone")}
    runs.start("a", "b")
    until(lambda: {"end a", "end b"} <= {*runs.steps} and not runs.late._running, "the first tries")
    assert runs.late.withdraw("a", None, lambda: None)
    assert runs.late.counts()["waiting"] == 1
    runs.late.drop()
    ended(runs)
    assert sorted(runs.steps) == ["begin a", "begin b", "end a", "end b"]
    assert "a" not in runs.record


def test_withdrawn_or_dropped_late_create_is_not_retried(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSES", (0.0, 0.0, 0.0))
    runs.failing = {id_: KeyError("gone") for id_ in "abc"}
    runs.held = {*"abc"}
    runs.start("a", "b", "c")
    until(lambda: len(runs.steps) == 3, "all to begin")
    assert not runs.late.withdraw("a", time.monotonic(), lambda: runs.steps.append("delete a"))
    runs.late.begin("b")
    runs.late.drop()
    runs.late.end("b")
    runs.let("a", "b", "c")
    ended(runs)
    assert sorted(runs.steps) == ["begin a", "begin b", "begin c", "delete a", "end a", "end b", "end c"]
    assert runs.late.counts() == {"waiting": 0, "running": 0, "succeeded": 0, "failed": 3}


def test_one_that_is_found_again_while_it_runs_is_tried_then(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSES", (0.0, 0.0, 0.0))
    runs.failing = {"a": KeyError("gone")}
    runs.held = {"a"}
    runs.start("a")
    until(lambda: runs.steps, "it to begin")
    runs.late.drop()
    runs.start("a")
    runs.let("a")
    ended(runs)
    assert runs.steps.count("end a") == 1 + 3


def test_delete_that_cannot_wait_runs_after_it(runs: Runs) -> None:
    runs.held = {"a"}
    runs.start("a")
    until(lambda: runs.steps, "the begin")
    go = threading.Event()

    def delete() -> None:
        assert go.wait(SOON)
        runs.steps.append("delete")

    assert not runs.late.withdraw("a", time.monotonic(), delete)
    runs.let("a")
    until(lambda: "end a" in runs.steps, "the end")
    assert not runs.late.wait_until_idle(0)
    go.set()
    assert runs.late.wait_until_idle(SOON)
    assert runs.steps == ["begin a", "end a", "delete"]


def test_no_late_create_beside_or_after_an_events_create(runs: Runs) -> None:
    runs.late.begin("a")  # the runtime has disconnected the bridge, and synchronizes again
    runs.late.begin("b")
    runs.start("a", "b", "c")
    until(lambda: "end c" in runs.steps, "the end of the other")
    runs.record.add("a")
    runs.late.end("a")
    runs.late.end("b")  # it has failed
    ended(runs)
    assert sorted(runs.steps) == ["begin b", "begin c", "end b", "end c"]


def test_events_create_replaces_a_waiting_late_one(runs: Runs) -> None:
    runs.put("a")
    runs.late.begin("a")
    runs.late.end("a")
    runs.late.start()
    ended(runs)
    assert runs.steps == []


def test_what_is_noted_of_one_that_waits_comes_before_its_end(runs: Runs) -> None:
    """A ``delete`` withdraws it, and then forgets what was noted."""
    withdrawn = threading.Event()

    def note(each: Missed) -> None:
        ending.start()
        withdrawn.wait(0.1)  # which it cannot be yet
        runs.steps.append(f"noted {each.request.id}")

    def end() -> None:
        runs.late.withdraw("a", None, lambda: None)
        withdrawn.set()
        runs.steps.append("withdrawn")

    ending = threading.Thread(target=end)
    runs.put("a")
    runs.late.note(note)
    ending.join()
    assert runs.steps == ["noted a", "withdrawn"]


@contextmanager
def no_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No thread can be started meanwhile."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        yield


def test_without_a_thread_they_stay_queued_until_there_is_one(
    runs: Runs, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.put("a")
    with no_threads(monkeypatch):
        runs.late.start()
        runs.late.start()
        runs.late.start_due()
    assert caplog.text.count("late: a thread cannot be started: can't start new thread; trying again") == 1
    assert runs.late.counts()["waiting"] == 1
    runs.late.start_due()
    assert wait_until(lambda: "a" in runs.record and not threads())


def test_what_is_queued_after_a_drop_is_not_due(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next synchronization's begin when its files have settled, and not after the first event."""

    runs.put("a")
    with no_threads(monkeypatch):
        runs.late.start()
    runs.late.drop()
    runs.put("b")
    runs.late.start_due()
    ended(runs)
    assert runs.steps == []


# What is missed: what lives and was not served, of what runtimes synchronize with

STATES = api.ContainerState


def running(id_: str, pod_id: str, **changes: Any) -> api.Container:
    return container(**{"id": id_, "pod_sandbox_id": pod_id, "state": STATES.CONTAINER_RUNNING, **changes})


def ids(found: Found) -> list[list[str]]:
    return [[each.request.id for each in group] for group in found.missed]


def test_by_pod_what_lives_and_is_not_on_record_is_missed() -> None:
    pods = [pod(id="p1"), pod(id="p2", pid=2), pod(id="p3")]
    containers = [running(id_, id_.replace("c", "p")) for id_ in ("c2", "c1", "c3")]
    found = find_missed(pods, containers, {"p3", "c2"})
    assert ids(found) == [["p1", "c1"], ["p2"], ["c3"]]
    assert found.unproven == {}


def test_running_and_paused_containers_live() -> None:
    of_states = [running(str(state), "p", state=state) for state in STATES.values()]
    assert len(of_states) == 5
    assert find_missed([pod(id="")], [running("", "")], set()) == Found([], {})
    living = [str(STATES.CONTAINER_PAUSED), str(STATES.CONTAINER_RUNNING)]
    assert sorted(ids(find_missed([pod(id="p")], of_states, {"p"}))[0]) == sorted(living)


def test_sandbox_without_a_process_lives_if_a_container_does() -> None:
    pods = [pod(id="spoofed", pid=0), pod(id="stopped", pid=0), pod(id="done", pid=0)]
    found = find_missed(pods, [running("c", "spoofed")], {"done"})
    assert ids(found) == [["spoofed", "c"]]
    assert [*found.unproven] == ["stopped"]


def test_container_of_an_unlisted_pod_is_served() -> None:
    (group,) = find_missed([], [running("c", "gone", name="app")], set()).missed
    assert [(each.request.id, each.request.sandbox_id, each.name) for each in group] == [("c", "gone", "//app")]
