"""The memory of the bridge: the table of its states, the comparison, and two threads that meet at a row."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from nri.client.chain import Step
from nri.client.invoker import PluginError
from nri.config.entries import PluginEntry
from nri.types.v1 import Result
from nri.v1bridge import memory as module
from nri.v1bridge.late import living
from nri.v1bridge.memory import COLUMNS, CREATE, MOVES, REAPPLY, Had, Holding, Memory, Ran, Row, compare
from nri.v1bridge.requests import Subject
from nri.v2 import api
from tests.support.pods import container, pod
from tests.support.waiting import SOON, until


def test_the_page_has_the_table() -> None:
    rows = [line for line in (module.__doc__ or "").splitlines() if line.startswith("| ") and "---" not in line]
    header, *states = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert header == ["state", *COLUMNS]
    assert {state: tuple(None if cell == "-" else cell for cell in cells) for state, *cells in states} == MOVES


# The comparison


def holds(name: str, conf: int, **changes: Any) -> Holding:
    entry = PluginEntry(type=name, conf=conf)
    return Holding(entry.key, entry, **changes)


def had(name: str, conf: int, *states: str, **changes: Any) -> Had:
    entry = PluginEntry(type=name, conf=conf)
    return Had(entry.key, entry.document, states or ("create",), **changes)


CASES: dict[str, tuple[list[Holding], list[Had], list[str]]] = {
    "nothing": ([holds("a", 1)], [], ["create a 1"]),
    "the same": ([holds("a", 1)], [had("a", 1)], []),
    "only its setup": ([holds("a", 1)], [had("a", 1, "setup")], ["create a 1"]),
    "it does not act on create": ([holds("a", 1, acts=False)], [], []),
    "another conf": ([holds("a", 2)], [had("a", 1)], ["reapply a 2 after 1"]),
    "another conf, whose plugin does not act on create any more": ([holds("a", 2, acts=False)], [had("a", 1)], []),
    "another conf, which had failed": ([holds("a", 2)], [had("a", 1, failed_with=(1,))], ["create a 2"]),
    "failed with this executable": ([holds("a", 1, binary=(1,))], [had("a", 1, failed_with=(1,))], []),
    "failed with another one": (
        [holds("a", 1, binary=(2,))],
        [had("a", 1, failed_with=(1,))],
        ["create a 1 after 1"],
    ),
    "gone": ([], [had("a", 1)], ["release a 1 after 1"]),
    "gone, and had failed": ([], [had("a", 1, failed_with=(1,))], []),
    "gone, and had a setup alone": ([], [had("a", 1, "setup")], []),
    "another type in its place": ([holds("b", 1)], [had("a", 1)], ["create b 1", "release a 1 after 1"]),
    "two of a type, one new": ([holds("a", 1), holds("a", 2)], [had("a", 2)], ["create a 1"]),
    "two of a type, both changed": (
        [holds("a", 3), holds("a", 4)],
        [had("a", 1), had("a", 2)],
        ["reapply a 3 after 1", "reapply a 4 after 2"],
    ),
    "two of a type, one gone": ([holds("a", 2)], [had("a", 1), had("a", 2)], ["release a 1 after 1"]),
    "two that are the same": ([holds("a", 1), holds("a", 1)], [had("a", 1)], []),
    "two that are the same, and have had nothing": ([holds("a", 1)] * 2, [], ["create a 1"] * 2),
    "another order": ([holds("b", 1), holds("a", 1)], [had("a", 1), had("b", 1)], []),
}


@pytest.mark.parametrize(("now", "before", "expected"), CASES.values(), ids=CASES)
def test_comparison_says_what_is_due(now: list[Holding], before: list[Had], expected: list[str]) -> None:
    due = [
        f"{each.what} {each.entry.type} {each.entry.conf}"
        + (f" after {PluginEntry.from_json(each.had.document).conf}" if each.had else "")
        for each in compare(now, before)
    ]
    assert due == expected


def test_failures_are_tried_again_when_asked() -> None:
    failed = had("a", 1, failed_with=(1,))
    now = [holds("a", 1, binary=(1,))]
    assert [each.what for each in compare(now, [failed], again=True)] == [CREATE]
    assert compare(now, [failed._replace(is_ignored=True)], again=True) == []


def test_the_order_of_the_keys_of_a_conf_does_not_count() -> None:
    one, two = (
        PluginEntry(type="a", conf=conf)
        for conf in ({"x": 1, "y": [{"a": 1, "b": 2}]}, {"y": [{"b": 2, "a": 1}], "x": 1})
    )
    assert one.key == two.key != PluginEntry(type="a", conf={"x": 1, "y": [{"a": 2, "b": 1}]}).key


# Rows, and what is on record of them


def subject(id_: str = "1f92", pid: int = 4711, **changes: Any) -> Subject:
    return Subject(pod(), container(id=id_, pid=pid, **changes))


def ran(*types: str, state: str = "create", error: str = "", conf: int = 1, how: str = "how", **changes: Any) -> Ran:
    steps = []
    for name in types:
        step = Step(PluginEntry(type=name, conf=conf), b"")
        step.error = PluginError(name, error) if error else None
        step.result = None if error else Result(plugin=name, metadata={"conf": str(conf)})
        step.stdout = b"" if step.result is None else step.result.to_json()
        step.is_ignored = bool(error) and how == "ignored"
        steps.append(step)
    return Ran(state, steps, lambda entry: (entry.key, entry.document), how, **changes)


@pytest.fixture
def record(tmp_path: Path) -> str:
    return str(tmp_path / "run/record")


@pytest.fixture
def memory(record: str) -> Memory:
    memory = Memory()
    memory.load(record)
    return memory


def again(record: str) -> Memory:
    """The memory of the next bridge."""
    memory = Memory()
    memory.load(record)
    return memory


def create(memory: Memory, about: Subject, *chains: Ran, column: str = "succeeds", why: str = "") -> Row:
    row = memory.begin(about, None)
    assert row is not None
    memory.ended(row, column, chains, why)
    return row


def test_the_next_bridge_knows_what_each_has_had(memory: Memory, record: str) -> None:
    memory.note(subject(pid=0), ran("a", state="setup"), ["a", "left out"])
    create(memory, subject(), ran("a", "b"), ran("c", error="no"))
    memory.note(subject(), ran("b", state="update", conf=1), ())
    row = again(record).rows["1f92"]
    assert [(each.type, each.states, each.failed_with) for each in row.had] == [
        ("a", ("setup", "create"), None),
        ("c", ("create",), ()),
        ("b", ("create", "update"), None),
    ]
    assert (row.state, row.is_created, row.setup) == ("failed", True, ["a", "left out"])
    assert row.life == subject().life
    last = row.previous(PluginEntry(type="b", conf=1).key)
    assert last is not None
    assert last.metadata == {"conf": "1"}
    assert row.previous(PluginEntry(type="b", conf=2).key) == last
    assert row.previous(PluginEntry(type="x").key) is None
    memory.remove("1f92")
    assert again(record).rows == {}


def test_refused_start_leaves_what_it_had(memory: Memory, record: str) -> None:
    memory.note(subject(pid=0), ran("a", state="setup"), ["a"])
    create(memory, subject(), ran("a", error="no"), column="is refused")
    for each in (memory, again(record)):
        row = each.rows["1f92"]
        assert (row.state, row.is_created, [had.states for had in row.had]) == ("new", False, [("setup",)])
        assert each.lacking()[0] == []


def test_another_life_of_an_id_is_another_container(memory: Memory) -> None:
    create(memory, subject(pid=1), ran("a"))
    memory.synchronize([(subject(pid=1), "found")], {"1f92"})
    assert memory.rows["1f92"].state == "done"
    memory.synchronize([(subject(pid=2), "found")], {"1f92"})
    assert (memory.rows["1f92"].state, memory.rows["1f92"].had) == ("due", [])
    create(memory, subject(created_at=5), ran("a"))
    memory.synchronize([(subject(pid=3, created_at=5), "found")], {"1f92"})
    assert memory.rows["1f92"].state == "done"
    memory.synchronize([(subject(pid=3, created_at=6), "found")], {"1f92"})
    assert memory.rows["1f92"].state == "due"
    create(memory, subject(pid=3), ran("a"))
    memory.note(subject(pid=0), ran("b", state="setup"), ["b"])  # a setup is a new container's
    assert [each.type for each in memory.rows["1f92"].had] == ["b"]


def test_long_result_is_not_kept(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RESULT", 10)
    assert create(memory, subject(), ran("a")).previous(PluginEntry(type="a", conf=1).key) is None


def test_the_oldest_beyond_the_limit_is_forgotten(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, record: str
) -> None:
    monkeypatch.setattr(module, "MAX_ROWS", 2)
    for id_ in "xyz":
        create(memory, subject(id_), ran("a"))
    assert [*memory.rows] == [*again(record).rows] == ["y", "z"]


def test_first_reason_counts_and_one_for_all_only_without_others(memory: Memory) -> None:
    row = create(memory, subject(), ran("a", error="one", how="ignored"))
    memory.lack(row, "create", "a", "two", "failed")
    memory.lack(row, "create", None, "three", "failed")
    memory.lack(row, "setup", None, "\x1b four", "failed")
    assert [(each["plugin"], each["why"]) for each in memory.lacking()[0]] == [
        ("a", "its failure is ignored: one"),
        (None, "\\x1b four"),
    ]


def test_update_between_an_edit_and_its_reapply_leaves_one_entry(memory: Memory) -> None:
    row = create(memory, subject(), ran("a", conf=1))
    memory.note(subject(), ran("a", state="update", conf=2))
    (older,) = [each for each in row.had if "create" in each.states]
    new = PluginEntry(type="a", conf=2).key
    for error in ("no", ""):
        create(memory, subject(), ran("a", conf=2, error=error, replaces={new: older}), column="succeeds")
        assert [each.what for each in compare([holds("a", 2)], row.had)] == ([REAPPLY] if error else [])


def test_success_of_one_entry_hides_no_failure_of_another_of_its_type(memory: Memory) -> None:
    first, second = ran("a", conf=1, error="no", how="ignored"), ran("a", conf=2)
    row = create(memory, subject(), first._replace(steps=[*first.steps, *second.steps]))
    assert [each["why"] for each in memory.lacking()[0]] == ["its failure is ignored: no"]
    assert [each.failed_with is None for each in row.had] == [False, True]


def test_missed_update_that_fails_is_listed_and_due_at_the_next_connection(memory: Memory, record: str) -> None:
    resized = subject(linux={"resources": {"cpu": {"shares": {"value": 1024}}}})
    create(memory, subject(), ran("a"))
    memory.synchronize([(resized, "found")], {"1f92"})
    row = memory.rows["1f92"]
    memory.judge(row, module.Verdict((), (), {"a"}, row.had), 1, reapplies=False)
    assert take(memory, row)
    memory.ended(row, "gives up", [ran("a", state="update", error="no")])
    assert [each["state"] for each in memory.lacking()[0]] == ["update"]
    after = again(record)
    after.synchronize([(resized, "found")], {"1f92"})
    assert after.rows["1f92"].is_resized


def test_an_update_without_a_plugin_is_not_missed_later(memory: Memory, record: str) -> None:
    resized = subject(linux={"resources": {"cpu": {"shares": {"value": 1024}}}})
    create(memory, subject(), ran("a"))
    memory.note(resized, ran(state="update"))
    after = again(record)
    after.synchronize([(resized, "found")], {"1f92"})
    assert not after.rows["1f92"].is_resized


def test_another_life_is_another_row_also_while_the_first_one_runs(memory: Memory) -> None:
    (row,) = due(memory, "1f92")
    assert take(memory, row)
    memory.synchronize([(subject(pid=5000), "found")], {"1f92"})
    memory.ended(row, "succeeds", [ran("a")])
    assert (memory.rows["1f92"].state, memory.rows["1f92"].had) == ("due", [])


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
    assert memory.begin(subject(), time.monotonic()) is None
    assert not memory.withdraw("1f92", time.monotonic(), lambda: None)
    steps: list[str] = []

    def event() -> None:
        if what == "create":
            assert memory.begin(subject(), None) is row
        else:
            assert memory.withdraw("1f92", None, lambda: None)
        steps.append(what)

    thread = threading.Thread(target=event)
    thread.start()
    steps.append("late")
    memory.ended(row, "succeeds", [ran("a")])
    thread.join(SOON)
    assert steps == ["late", what]


def test_withdrawn_disconnected_and_begun_rows_are_not_taken(memory: Memory) -> None:
    one, two, three, four = due(memory, "one", "two", "three", "four")
    assert memory.withdraw("one", None, lambda: None)
    memory.remove("two")
    assert memory.begin(subject("three"), None) is three
    assert memory.disconnect() == 1
    assert [take(memory, row) for row in (one, two, three, four)] == [False] * 4
    assert (three.state, four.state) == ("running", "new")


def test_sandbox_is_held_until_it_is_proven(memory: Memory) -> None:
    memory.synchronize([(Subject(pod(pid=0)), "unproven")], {"6efd"})
    row = memory.rows["6efd"]
    assert (row.state, memory.prove("6efd"), row.state, memory.prove("6efd"), memory.prove("x")) == (
        *("held", True, "due"),
        *(False, False),
    )


def test_verdict_on_what_has_changed_meanwhile_does_not_count(memory: Memory) -> None:
    (row,) = due(memory, "1f92")
    verdict = module.Verdict((), (), (), row.had)
    assert take(memory, row)
    memory.ended(row, "fails", [ran("a", error="no")])
    memory.judge(row, verdict, 7, reapplies=False)
    assert (row.state, row.stamp) == ("due", -1)


def test_failure_of_what_does_not_hold_any_more_is_forgotten(memory: Memory) -> None:
    """It would not be listed, nor be due when it holds again."""
    row = create(memory, subject(), ran("a", error="no"))
    assert row.had
    memory.judge(row, module.Verdict((), (), {"b"}, row.had), 7, reapplies=False)
    assert (row.had, row.lacks) == ([], {})


def test_many_threads_lose_nothing(memory: Memory, record: str) -> None:
    ids = [f"{name}{number}" for name in "abcd" for number in range(50)]

    def work(name: str) -> None:
        for id_ in ids:
            if id_[0] == name:
                create(memory, subject(id_), ran("a"))

    threads = [threading.Thread(target=work, args=name) for name in "abcd"]
    for thread in threads:
        thread.start()
    until(lambda: not any(thread.is_alive() for thread in threads), "the threads")
    assert sorted(again(record).rows) == sorted(ids)


# What lives, of what runtimes synchronize with

STATES = api.ContainerState


def running(id_: str, pod_id: str, **changes: Any) -> api.Container:
    return container(**{"id": id_, "pod_sandbox_id": pod_id, "state": STATES.CONTAINER_RUNNING, **changes})


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
    assert found(pods, [running("c", "spoofed")]) == [("spoofed", "found"), ("c", "found"), ("stopped", "unproven")]


def test_container_of_an_unlisted_pod_lives() -> None:
    ((about, column),) = living([], [running("c", "gone", name="app")])
    request = about.request("create")
    assert (column, request.id, request.sandbox_id, about.name) == ("found", "c", "gone", "//app")
    assert re.fullmatch(r"pid:4712/[0-9]*", about.life)
