"""The rows of the bridge: the table of their states, and two threads that meet at a row."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest

from nri.node.compare import Wanted, compare
from nri.node.record import FAILED, OFF, Outcome
from nri.v1bridge import memory as module
from nri.v1bridge.late import living
from nri.v1bridge.memory import COLUMNS, MOVES, Comparison, Memory, Row
from nri.v1bridge.requests import Subject
from nri.v2 import api
from tests.support.pods import CONTAINER, container, pod
from tests.support.waiting import SOON, until
from tests.unit.node.builders import had, shown, wanted


def test_the_page_has_the_table() -> None:
    rows = [
        line
        for line in (module.__doc__ or "").splitlines()
        if line.startswith("| ") and "---" not in line
    ]
    header, *states = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert header == ["state", *COLUMNS]
    assert {
        state: tuple(None if cell == "-" else cell for cell in cells) for state, *cells in states
    } == MOVES


# Rows, and what is on record of them


def subject(id_: str = "1f92", pid: int = 4711, **changes: Any) -> Subject:
    return Subject(pod(), container(id=id_, pid=pid, **changes))


@pytest.fixture
def record(tmp_path: Path) -> str:
    return str(tmp_path / "run/record")


@pytest.fixture
def memory(record: str) -> Memory:
    return again(record)


def again(record: str) -> Memory:
    """The memory of the next bridge."""
    memory = Memory()
    memory.load(record)
    return memory


def create(memory: Memory, about: Subject, *entries: Any, column: str = "succeeds") -> Row:
    """A container whose create has ended, with what it has had since."""
    row = memory.begin(about, SOON)
    assert row is not None
    if column == "succeeds":
        row.facts.see(about.resources, None)
    note(memory, row, *entries, is_created=column == "succeeds")
    memory.ended(row, column)
    return row


def note(memory: Memory, row: Row, *entries: Any, is_created: bool = True) -> None:
    with memory.changed:
        row.facts.entries |= {entry.key: entry for entry in entries}
        row.facts.is_created = is_created
        memory.save(row)


def judge(memory: Memory, row: Row, *now: Wanted, stamp: int = 7, creates: bool = True) -> None:
    due = compare(now, row.facts.entries, again=row.state != module.DONE)
    comparison = Comparison(row.version, due, {one.entry.type for one in now})
    memory.judge(row, comparison, stamp, reapplies=False, creates=creates)


def listed(memory: Memory) -> list[tuple[str | None, str, str]]:
    return [(lack["plugin"], lack["state"], lack["cause"]) for lack in memory.lacking()[0]]


def test_the_next_bridge_knows_what_each_has_had(memory: Memory, record: str) -> None:
    memory.told(subject(pid=0), "setup")
    create(memory, subject(), had("a", 1), had("c", 1, failed=FAILED))
    row = again(record).rows["1f92"]
    assert shown(row.facts) == [("a", {"create": "done"}), ("c", {"create": "failed"})]
    assert (row.state, row.facts.is_created, row.facts.life) == ("failed", True, subject().life)
    memory.remove("1f92")
    assert again(record).rows == {}


def test_refused_start_leaves_what_it_had(memory: Memory, record: str) -> None:
    create(memory, subject(), had("a", 1, "setup"), column="is refused")
    for each in (memory, again(record)):
        row = each.rows["1f92"]
        assert (row.state, row.facts.is_created, shown(row.facts)) == (
            "new",
            False,
            [("a", {"setup": "done"})],
        )
        assert each.lacking()[0] == []


def test_what_a_pod_has_had_is_that_of_its_sandbox_and_its_containers(memory: Memory) -> None:
    create(memory, Subject(pod()), had("a", 1))
    create(memory, subject(), had("a", 1), had("b", 1, "setup"))
    shown_of = [
        (each["id"], each["container"], [one["states"] for one in each["plugins"]])
        for each in memory.of_pod("default/web")
    ]
    assert shown_of == [("6efd", None, [["create"]]), ("1f92", "app", [["create"], ["setup"]])]
    assert memory.of_pod("default/we") == []


def test_another_life_of_an_id_is_another_container(memory: Memory) -> None:
    create(memory, subject(pid=1), had("a", 1))
    memory.synchronize([(subject(pid=1), "found")], {"1f92"})
    assert memory.rows["1f92"].state == "done"
    memory.synchronize([(subject(pid=2), "found")], {"1f92"})
    assert (memory.rows["1f92"].state, memory.rows["1f92"].facts.entries) == ("due", {})
    create(memory, subject(created_at=5), had("a", 1))
    memory.synchronize([(subject(pid=3, created_at=5), "found")], {"1f92"})
    assert memory.rows["1f92"].state == "done"
    memory.synchronize([(subject(pid=3, created_at=6), "found")], {"1f92"})
    assert memory.rows["1f92"].state == "due"
    create(memory, subject(pid=3), had("a", 1))
    told = memory.told(subject(pid=0), "setup")  # a setup is a new container's
    assert told.facts.entries == {}


def test_the_oldest_beyond_the_limit_is_forgotten(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, record: str
) -> None:
    monkeypatch.setattr(module, "MAX_ROWS", 2)
    for id_ in "xyz":
        create(memory, subject(id_), had("a", 1))
    assert [*memory.rows] == [*again(record).rows] == ["y", "z"]


def test_all_plugins_are_lacking_only_where_none_is_named(memory: Memory) -> None:
    row = create(memory, subject(), had("a", 1, failed="ignored"))
    memory.lack(row, "three", FAILED)
    assert listed(memory) == [("a", "create", "ignored")]
    other = create(memory, subject("other"), had("a", 1))
    memory.lack(other, "\x1b four", OFF)
    memory.lack(other, "five", FAILED)
    assert [lack["why"] for lack in memory.lacking()[0]][-1] == "\\x1b four"


def test_what_is_off_is_listed_and_not_due(memory: Memory) -> None:
    (row,) = due(memory, "1f92")
    judge(memory, row, wanted("a", 1), creates=False)
    assert (row.state, listed(memory)) == ("done", [(None, "create", "off")])
    row.facts.is_rewritten = True  # an update is due beside it
    judge(memory, row, wanted("a", 1), creates=False)
    assert (row.state, listed(memory)) == ("due", [(None, "create", "off")])
    judge(memory, row, creates=False)  # the entry is no more
    assert (row.state, listed(memory)) == ("due", [])


# Resources


RESIZED: dict[str, Any] = {"linux": {"resources": {"cpu": {"shares": {"value": 1024}}}}}


def test_missed_resize_is_due_until_its_update_has_succeeded(memory: Memory, record: str) -> None:
    create(memory, subject(), had("a", 1))
    for each in (memory, memory, again(record)):
        each.synchronize([(subject(**RESIZED), "found")], {"1f92"})
        row = each.rows["1f92"]
        assert row.facts.is_rewritten
        judge(each, row, wanted("a", 1))
        assert row.state == "due"


def test_an_older_answer_is_no_resize_and_requests_have_the_later_resources(
    memory: Memory, record: str
) -> None:
    create(memory, subject(), had("a", 1))
    with memory.changed:
        facts = memory.rows["1f92"].facts
        facts.see(subject(**RESIZED).resources, subject(**RESIZED).oci_resources)
        memory.save(memory.rows["1f92"])
    after = again(record)
    after.synchronize([(subject(), "found")], {"1f92"})
    row = after.rows["1f92"]
    assert not row.facts.is_rewritten
    for state in ("create", "update", "delete"):
        spec = row.request(state).spec
        assert spec is not None
        assert spec.resources["cpu"] == {"shares": 1024}
    told = after.told(subject(), "delete")
    assert told.subject.oci_resources["cpu"] == {"shares": 1024}


def test_the_same_resources_are_no_resize(memory: Memory, record: str) -> None:
    create(memory, subject(**RESIZED), had("a", 1))
    after = again(record)
    after.synchronize([(subject(**RESIZED), "found")], {"1f92"})
    assert not after.rows["1f92"].facts.is_rewritten


def test_another_life_is_another_row_also_while_the_first_one_runs(memory: Memory) -> None:
    (row,) = due(memory, "1f92")
    assert take(memory, row)
    memory.synchronize([(subject(pid=5000), "found")], {"1f92"})
    note(memory, row, had("a", 1))
    memory.ended(row, "succeeds")
    assert (memory.rows["1f92"].state, memory.rows["1f92"].facts.entries) == ("due", {})


# The worker, and events meanwhile


def due(memory: Memory, *ids: str) -> list[Row]:
    memory.synchronize([(subject(id_), "found") for id_ in ids], {*ids})
    return [memory.rows[id_] for id_ in ids]


def take(memory: Memory, row: Row) -> bool:
    with memory.changed:
        return memory.take(row)


@pytest.mark.parametrize("what", ["create", "delete"])
def test_event_waits_for_the_worker(memory: Memory, what: str) -> None:
    (row,) = due(memory, "1f92")
    assert take(memory, row)
    assert memory.begin(subject(), 0.0) is None
    assert not memory.withdraw("1f92", 0.0, lambda: None)
    steps: list[str] = []

    def event() -> None:
        if what == "create":
            assert memory.begin(subject(), SOON) is row
        else:
            assert memory.withdraw("1f92", SOON, lambda: None)
        steps.append(what)

    thread = threading.Thread(target=event)
    thread.start()
    steps.append("late")
    memory.ended(row, "succeeds")
    thread.join(SOON)
    assert steps == ["late", what]


def test_withdrawn_disconnected_and_begun_rows_are_not_taken(memory: Memory) -> None:
    one, two, three, four = due(memory, "one", "two", "three", "four")
    assert memory.withdraw("one", SOON, lambda: None)
    memory.remove("two")
    assert memory.begin(subject("three"), SOON) is three
    assert memory.disconnect() == 1
    assert [take(memory, row) for row in (one, two, three, four)] == [False] * 4
    assert (three.state, four.state) == ("running", "new")


def test_sandbox_is_held_until_it_is_proven(memory: Memory) -> None:
    memory.synchronize([(Subject(pod(pid=0)), "unproven")], {"6efd"})
    row = memory.rows["6efd"]
    assert (
        row.state,
        memory.prove("6efd"),
        row.state,
        memory.prove("6efd"),
        memory.prove("x"),
    ) == (
        *("held", True, "due"),
        *(False, False),
    )


def test_comparison_with_what_has_changed_meanwhile_does_not_count(memory: Memory) -> None:
    (row,) = due(memory, "1f92")
    comparison = Comparison(row.version)
    assert take(memory, row)
    note(memory, row, had("a", 1, failed=FAILED), is_created=False)
    memory.ended(row, "fails")
    memory.judge(row, comparison, 7, reapplies=False, creates=True)
    assert (row.state, row.attempts.stamp) == ("due", -1)


def test_failure_of_what_does_not_apply_any_more_is_forgotten(memory: Memory, record: str) -> None:
    """It would not be listed, nor be due when it applies again."""
    row = create(memory, subject(), had("a", 1, failed=FAILED))
    assert again(record).rows
    judge(memory, row, wanted("b", 1, acts=False))
    assert (row.facts.entries, listed(memory), again(record).rows) == ({}, [], {})


def test_a_container_that_is_not_there_any_more_is_forgotten(memory: Memory, record: str) -> None:
    create(memory, subject(), had("a", 1, failed="ignored"))
    memory.synchronize([], set())
    assert (memory.rows, again(record).rows) == ({}, {})


def test_many_threads_lose_nothing(memory: Memory, record: str) -> None:
    ids = [f"{name}{number}" for name in "abcd" for number in range(50)]

    def work(name: str) -> None:
        for id_ in ids:
            if id_[0] == name:
                create(memory, subject(id_), had("a", 1))

    threads = [threading.Thread(target=work, args=name) for name in "abcd"]
    for thread in threads:
        thread.start()
    until(lambda: not any(thread.is_alive() for thread in threads), "the threads")
    assert sorted(again(record).rows) == sorted(ids)


def test_what_another_bridge_has_done_is_taken_over(memory: Memory, record: str) -> None:
    (row,) = due(memory, "1f92")
    create(again(record), subject(), had("a", 1))
    memory.reload(row)
    assert (row.facts.is_created, shown(row.facts)) == (True, [("a", {"create": "done"})])
    row.facts.without = Outcome(OFF, "kept")
    memory.reload(row)
    assert row.facts.without is not None


# What lives, of what runtimes synchronize with

STATES = api.ContainerState


def running(id_: str, pod_id: str, **changes: Any) -> api.Container:
    return container(
        **{"id": id_, "pod_sandbox_id": pod_id, "state": STATES.CONTAINER_RUNNING, **changes}
    )


def found(pods: list[api.PodSandbox], containers: list[api.Container]) -> list[tuple[str, str]]:
    return [(each.id, column) for each, column in living(pods, containers)]


def test_sandboxes_come_before_their_containers() -> None:
    pods = [pod(id="p1"), pod(id="p2", pid=2)]
    containers = [running(id_, id_.replace("c", "p")) for id_ in ("c2", "c1", "c3")]
    assert found(pods, containers) == [(id_, "found") for id_ in ("p1", "c1", "p2", "c2", "c3")]


def test_running_and_paused_containers_live() -> None:
    of_states = [running(str(state), "p", state=state) for state in STATES.values()]
    assert len(of_states) == 5
    assert found([pod(id="")], [running("", "")]) == []
    alive = {id_ for id_, _ in found([], of_states)}
    assert alive == {str(STATES.CONTAINER_PAUSED), str(STATES.CONTAINER_RUNNING)}


def test_sandbox_without_a_process_lives_if_a_container_does() -> None:
    pods = [pod(id="spoofed", pid=0), pod(id="stopped", pid=0)]
    assert found(pods, [running("c", "spoofed")]) == [
        ("spoofed", "found"),
        ("c", "found"),
        ("stopped", "unproven"),
    ]


def test_container_of_an_unlisted_pod_lives() -> None:
    ((about, column),) = living([], [running("c", "gone", name="app")])
    request = about.request("create")
    assert (column, request.id, request.sandbox_id, about.name) == ("found", "c", "gone", "//app")
    assert re.fullmatch(rf"pid:{CONTAINER['pid']}/[0-9]*", about.life)
