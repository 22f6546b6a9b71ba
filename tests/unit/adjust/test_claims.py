"""Two plugins of one chain cannot set the same thing: the rules of NRI's owners."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri.adjust import AdjustError
from nri.adjust.claims import Claims, is_removal, name_of
from nri.adjust.fields import ADDED, FIELDS, LIST, MAP, REMOVAL, put, walk
from tests.unit.adjust.documents import ADJUST


def claim(*documents: dict[str, Any]) -> str:
    """Claim documents for the plugins a, b, and so on; return the last one's error. The others have none."""
    claims = Claims()
    for index, document in enumerate(documents):
        try:
            claims.claim(document, "abcdef"[index], "adjust")
        except AdjustError as error:
            assert index == len(documents) - 1, error
            return str(error)
    return ""


def alone(field: Any, value: Any) -> dict[str, Any]:
    document: dict[str, Any] = {}
    put(document, field, value)
    return document


def things(field: Any) -> list[tuple[dict[str, Any], str]]:
    """A document for each thing that the full document sets in a field, with the thing's name."""
    value: Any = {each.name: each_value for each, each_value in walk(ADJUST)}[field.name]
    if field.kind == MAP:
        return [(alone(field, {key: item}), f" {key}") for key, item in value.items() if item is not None]
    if field.kind == LIST:
        items = [item for item in value if not is_removal(item)]
        return [(alone(field, [item]), f" {name_of(item, field)}") for item in items]
    return [(alone(field, ["sh"] if field.name == "args" else value), "")]


CLAIMED = [
    (document, f"{field.name}{name}")
    for field in FIELDS
    if field.kind not in (ADDED, REMOVAL)
    for document, name in things(field)
]


@pytest.mark.parametrize(("document", "thing"), CLAIMED, ids=[thing for _, thing in CLAIMED])
def test_what_a_plugin_has_set_no_other_can_set(document: dict[str, Any], thing: str) -> None:
    assert claim(document) == ""
    expected = f"adjust.{thing}: already set by the plugin a; expected one plugin alone to set it"
    assert claim(document, document) == claim(document, {}, document) == expected


def test_hooks_and_device_rules_are_added_by_any_number_of_plugins() -> None:
    added: dict[str, Any] = {}
    for field, value in walk(ADJUST):
        if field.kind == ADDED:
            put(added, field, value)
    assert claim(added, added, added) == ""


SET, REMOVED = {"env": {"A": "1"}}, {"env": {"A": None}}
BOTH = {"env": {"-A": None, "A": "2"}}
TAKEN = "adjust.env A: already {} by the plugin {}; expected one plugin alone to set it"


@pytest.mark.parametrize(
    ("documents", "error"),
    [
        ([SET, REMOVED], ""),
        ([SET, BOTH], ""),
        ([SET, {"env": {"B": "1"}}], ""),
        ([SET, REMOVED, SET], TAKEN.format("removed", "b")),
        ([SET, BOTH, SET], TAKEN.format("set", "b")),
        ([SET, BOTH, BOTH], ""),
        ([REMOVED, SET], ""),
        ([REMOVED, REMOVED], ""),
        ([BOTH, SET], TAKEN.format("set", "a")),
        (
            [{"args": ["a"]}, {"args": ["b"]}],
            "adjust.args: already set by the plugin a; expected one plugin alone to set it",
        ),
        ([{"args": ["a"]}, {"args": ["", "b"]}], ""),
        ([{"args": ["a"]}, {"args": [""]}], ""),
        (
            [{"args": ["a"]}, {"args": [""]}, {"args": ["c"]}],
            "adjust.args: already set by the plugin b; expected one plugin alone to set it",
        ),
        (
            [
                {"linux": {"devices": [{"path": "/d", "type": "p"}]}},
                {"linux": {"devices": [{"path": "/d", "remove": True}]}},
            ],
            "",
        ),
        (
            [
                {"linux": {"devices": [{"path": "/d", "type": "p"}]}},
                {"linux": {"devices": [{"path": "/d", "remove": True}, {"path": "/d", "type": "p"}]}},
            ],
            "",
        ),
        ([{"linux": {"intelRdt": {"closID": "a"}}}, {"linux": {"intelRdt": {"enableMonitoring": True}}}], ""),
        (
            [{"linux": {"intelRdt": {"closID": "a"}}}, {"linux": {"intelRdt": {"closID": "b"}}}],
            "adjust.linux.intelRdt.closID: already set by the plugin a; expected one plugin alone to set it",
        ),
        ([{"linux": {"intelRdt": {"closID": "a"}}}, {"linux": {"intelRdt": {"remove": True, "closID": "b"}}}], ""),
        (
            [
                {"linux": {"intelRdt": {"closID": "a"}}},
                {"linux": {"intelRdt": {"remove": True}}},
                {"linux": {"intelRdt": {"closID": "c"}}},
            ],
            "adjust.linux.intelRdt.closID: already removed by the plugin b; expected one plugin alone to set it",
        ),
        (
            [{"linux": {"intelRdt": {"closID": "a"}}}, {"linux": {"intelRdt": {"remove": False, "closID": "b"}}}],
            "adjust.linux.intelRdt.closID: already set by the plugin a; expected one plugin alone to set it",
        ),
        ([{"linux": {"intelRdt": {"remove": True}}}, {"linux": {"intelRdt": {"remove": True}}}], ""),
        (
            [
                {"linux": {"namespaces": [{"type": "user", "remove": True}]}},
                {"linux": {"namespaces": [{"type": "user"}]}},
            ],
            "adjust.linux.namespaces user: already set by the plugin a; expected one plugin alone to set it",
        ),
    ],
)
def test_a_removal_hands_a_thing_over_to_the_plugin_that_removes(documents: list[dict[str, Any]], error: str) -> None:
    assert claim(*documents) == error


def test_a_plugin_that_runs_twice_cannot_set_a_thing_twice() -> None:
    claims = Claims()
    claims.claim(SET, "a", "adjust")
    with pytest.raises(AdjustError):
        claims.claim(SET, "a", "adjust")


def test_a_copy_claims_apart() -> None:
    claims = Claims()
    claims.copy().claim(SET, "a", "adjust")
    claims.claim(SET, "b", "adjust")


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([SET, REMOVED, BOTH]), max_size=6))
def test_a_thing_has_one_owner_that_set_it_last_after_removing_what_another_had_set(documents: Any) -> None:
    claims, owner, has_removed = Claims(), "", False
    for index, document in enumerate(documents):
        plugin = str(index)
        if document is not SET and owner:
            owner, has_removed = plugin, True
        refused = document is not REMOVED and bool(owner) and not (owner == plugin and has_removed)
        try:
            claims.claim(document, plugin, "adjust")
        except AdjustError:
            assert refused
            return
        assert not refused
        if document is not REMOVED:
            owner, has_removed = plugin, False
