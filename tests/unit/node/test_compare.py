"""What is due for a container, what it lacks, and which failures are over."""

from __future__ import annotations

import pytest

from nri.config.entries import PluginEntry
from nri.node.compare import CREATE, Wanted, compare, forget, lacking
from nri.node.record import FAILED, IGNORED, MISSED, OFF, REAPPLY, REFUSED, RELEASE, Entry, Outcome
from tests.unit.node.builders import facts, had, shown, wanted

CASES: dict[str, tuple[list[Wanted], list[Entry], list[str]]] = {
    "nothing": ([wanted("a", 1)], [], ["create a 1"]),
    "the same": ([wanted("a", 1)], [had("a", 1)], []),
    "only its setup": ([wanted("a", 1)], [had("a", 1, "setup")], ["create a 1 after 1"]),
    "it does not act on create": ([wanted("a", 1, acts=False)], [], []),
    "another conf": ([wanted("a", 2)], [had("a", 1)], ["reapply a 2 after 1"]),
    "another conf, whose plugin does not act on create any more": (
        [wanted("a", 2, acts=False)],
        [had("a", 1)],
        [],
    ),
    "another conf, which had failed": (
        [wanted("a", 2)],
        [had("a", 1, failed=FAILED)],
        ["create a 2"],
    ),
    "failed with this executable": (
        [wanted("a", 1, binary=(1,))],
        [had("a", 1, failed=FAILED)],
        [],
    ),
    "refused with this executable": (
        [wanted("a", 1, binary=(1,))],
        [had("a", 1, failed=REFUSED)],
        [],
    ),
    "failed with another one": (
        [wanted("a", 1, binary=(2,))],
        [had("a", 1, failed=FAILED)],
        ["create a 1 after 1"],
    ),
    "ignored with another one": (
        [wanted("a", 1, binary=(2,))],
        [had("a", 1, failed=IGNORED)],
        ["create a 1 after 1"],
    ),
    "not reached": (
        [wanted("a", 1, binary=(1,))],
        [had("a", 1, failed=FAILED, binary=())],
        ["create a 1 after 1"],
    ),
    "gone": ([], [had("a", 1)], ["release a 1 after 1"]),
    "gone, and had failed": ([], [had("a", 1, failed=FAILED)], []),
    "gone, and had a setup alone": ([], [had("a", 1, "setup")], []),
    "another type in its place": (
        [wanted("b", 1)],
        [had("a", 1)],
        ["create b 1", "release a 1 after 1"],
    ),
    "two of a type, one new": ([wanted("a", 1), wanted("a", 2)], [had("a", 2)], ["create a 1"]),
    "two of a type, both changed": (
        [wanted("a", 3), wanted("a", 4)],
        [had("a", 1), had("a", 2)],
        ["reapply a 3 after 1", "reapply a 4 after 2"],
    ),
    "two of a type, one gone": (
        [wanted("a", 2)],
        [had("a", 1), had("a", 2)],
        ["release a 1 after 1"],
    ),
    "two of a type, one failed and one changed": (
        [wanted("a", 1, binary=(1,)), wanted("a", 3)],
        [had("a", 1, failed=FAILED), had("a", 2)],
        ["reapply a 3 after 2"],
    ),
    "two that are the same": ([wanted("a", 1), wanted("a", 1)], [had("a", 1)], []),
    "two that are the same, and have had nothing": ([wanted("a", 1)] * 2, [], ["create a 1"] * 2),
    "another order": ([wanted("b", 1), wanted("a", 1)], [had("a", 1), had("b", 1)], []),
}


@pytest.mark.parametrize(("now", "before", "expected"), CASES.values(), ids=CASES)
def test_comparison_says_what_is_due(
    now: list[Wanted], before: list[Entry], expected: list[str]
) -> None:
    due = []
    for task in compare(now, facts(*before).entries):
        after = (
            ""
            if not task.had.states
            else f" after {PluginEntry.of_document(task.had.document).conf}"
        )
        due.append(f"{task.what} {task.entry.type} {task.entry.conf}{after}")
    assert due == expected


@pytest.mark.parametrize(
    ("outcome", "expected"), [(FAILED, [CREATE]), (REFUSED, [CREATE]), (IGNORED, [])]
)
def test_failures_are_tried_again_when_asked_but_not_ignored_ones(
    outcome: str, expected: list[str]
) -> None:
    due = compare(
        [wanted("a", 1, binary=(1,))], facts(had("a", 1, failed=outcome)).entries, again=True
    )
    assert [task.what for task in due] == expected


def test_the_order_of_the_keys_of_a_conf_does_not_count() -> None:
    one, two = (
        PluginEntry(type="a", conf=conf)
        for conf in ({"x": 1, "y": [{"a": 1, "b": 2}]}, {"y": [{"b": 2, "a": 1}], "x": 1})
    )
    assert one.key == two.key != PluginEntry(type="a", conf={"x": 1, "y": [{"a": 2, "b": 1}]}).key


def test_each_outcome_that_is_no_success_is_a_lack_once_by_plugin_and_state() -> None:
    entry, other = had("a", 1, failed=FAILED), had("a", 2, failed=REFUSED)
    entry.states["setup"] = Outcome(MISSED, "missed")
    updated = had("b", 1)
    updated.states[REAPPLY] = Outcome(FAILED, "no")
    updated.states[RELEASE] = Outcome(FAILED, "no")
    about = facts(entry, other, updated, without=Outcome(OFF, "off"))
    assert [(lack.plugin, lack.state, lack.cause) for lack in lacking(about)] == [
        ("a", "create", FAILED),
        ("a", "setup", MISSED),
        ("b", "create", FAILED),
        ("b", "release", FAILED),
    ]


def test_all_plugins_are_lacking_only_where_none_is_named() -> None:
    about = facts(had("a", 1), without=Outcome(OFF, "off"))
    assert [(lack.plugin, lack.cause) for lack in lacking(about)] == [(None, OFF)]


def test_what_has_failed_and_does_not_apply_any_more_is_forgotten() -> None:
    """It would not be listed, nor be due when it applies again."""
    about = facts(had("a", 1, failed=FAILED), had("b", 1), had("c", 1, failed=FAILED))
    assert forget(about, {"b", "c"}, (), ())
    assert shown(about) == [("b", {"create": "done"}), ("c", {"create": FAILED})]
    assert not forget(about, {"b", "c"}, (), ())


def test_a_missed_setup_is_listed_while_it_is_missed() -> None:
    entry = had("a", 1)
    entry.states["setup"] = Outcome(MISSED, "missed")
    assert not forget(facts(entry), {"a"}, {"a"}, ())
    assert forget(facts(entry), {"a"}, (), ())
    assert [*entry.states] == ["create"]


def test_a_reapply_that_has_failed_is_over_when_the_entry_applies_again() -> None:
    entry = had("a", 1)
    entry.states[REAPPLY] = Outcome(FAILED, "no")
    due = compare([wanted("a", 2)], facts(entry).entries)
    assert not forget(facts(entry), {"a"}, (), due)
    assert forget(facts(entry), {"a"}, (), compare([wanted("a", 1)], facts(entry).entries))
    assert [*entry.states] == ["create"]
