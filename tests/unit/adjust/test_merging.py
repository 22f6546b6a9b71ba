"""Two plugins of one chain cannot set the same thing, unless one removes what an earlier one has set."""

from string import ascii_lowercase
from typing import Any

import pytest

from nri.adjust import AdjustError
from nri.adjust.fields import is_removal, name_of, put, walk
from nri.adjust.merging import ADDED, BY_ENTRIES, COMMAND, MAP, REMOVAL
from tests.unit.adjust.documents import ADJUST, merged


def conflict(*documents: dict[str, Any], by: str = ascii_lowercase) -> str:
    """Merge documents of the plugins a, b, and so on; return the last one's error. The others have none."""
    assert merged(*documents[:-1], by=by) is not None
    try:
        merged(*documents, by=by)
    except AdjustError as error:
        return str(error)
    return ""


def alone(field: Any, value: Any) -> dict[str, Any]:
    made: dict[str, Any] = {}
    put(made, field, value)
    return made


def things(field: Any, value: Any) -> list[tuple[dict[str, Any], str]]:
    """A document for each thing that a value sets in a field, with the thing's name."""
    if field.kind == MAP:
        return [(alone(field, {key: item}), f" {key}") for key, item in value.items() if item is not None]
    if field.kind in BY_ENTRIES:
        items = [item for item in value if not is_removal(item)]
        return [(alone(field, [item]), f" {name_of(item, field)}") for item in items]
    return [(alone(field, ["sh"] if field.kind == COMMAND else value), "")]


def test_no_plugin_can_set_what_is_already_set() -> None:
    for field, value in walk(ADJUST):
        for one, name in [] if field.kind in (ADDED, REMOVAL) else things(field, value):
            expected = f"adjust.{field.name}{name}: already set by the plugin a; expected one plugin alone to set it"
            assert conflict(one) == ""
            assert conflict(one, one) == conflict(one, {}, one) == expected
            assert conflict(one, one, by="aa") == expected


def rdt(**keys: Any) -> dict[str, Any]:
    return {"linux": {"intelRdt": keys}}


def devices(*items: dict[str, Any]) -> dict[str, Any]:
    return {"linux": {"devices": list(items)}}


def namespace(**keys: Any) -> dict[str, Any]:
    return {"linux": {"namespaces": [{"type": "user", **keys}]}}


SET, REMOVED, BOTH = {"env": {"A": "1"}}, {"env": {"A": None}}, {"env": {"-A": None, "A": "2"}}
PIPE, NO_PIPE = {"path": "/d", "type": "p"}, {"path": "/d", "remove": True}


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        ([SET, REMOVED], ""),
        ([SET, REMOVED, SET], "env A: already removed by the plugin b"),
        ([SET, BOTH, SET], "env A: already set by the plugin b"),
        ([BOTH, SET], "env A: already set by the plugin a"),
        ([{"args": ["a"]}, {"args": ["", "b"]}], ""),
        ([{"args": ["a"]}, {"args": [""]}, {"args": ["c"]}], "args: already set by the plugin b"),
        ([devices(PIPE), devices(NO_PIPE, PIPE)], ""),
        ([rdt(closID="a"), rdt(remove=True, closID="b")], ""),
        (
            [rdt(closID="a"), rdt(remove=True), rdt(closID="c")],
            "linux.intelRdt.closID: already removed by the plugin b",
        ),
        ([rdt(remove=True), rdt(closID="c")], "linux.intelRdt.closID: already removed by the plugin a"),
        ([rdt(closID="a"), rdt(remove=False, closID="b")], "linux.intelRdt.closID: already set by the plugin a"),
        ([namespace(remove=True), namespace()], "linux.namespaces user: already set by the plugin a"),
    ],
)
def test_removal_hands_a_thing_over_to_the_plugin_that_removes(documents: list[dict[str, Any]], words: str) -> None:
    expected = f"adjust.{words}; expected one plugin alone to set it" if words else ""
    assert conflict(*documents) == expected
