"""The tables of ``adjust`` and ``updates`` agree with their schemas, and with the table of fields."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness import json_schemas
from nri.adjust import document, resources
from nri.adjust.fields import FIELDS, LIST, MAP, walk
from nri.adjust.reading import read_adjust, read_updates
from nri.types.table import Map, Table
from nri.types.table_explained import faults
from tests.unit.adjust.documents import ADJUST, RESOURCES, UPDATES
from tests.unit.types.mutations import mutated, values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nri.types.table import Rule

RULES = {"adjust": document.ADJUST, "updates": document.UPDATES}
VALIDATORS = {name: json_schemas.validator(name) for name in RULES}
FULL: dict[str, Any] = {"adjust": ADJUST, "updates": UPDATES}


def has_a_whole_number_with_a_point(value: Any) -> bool:
    """Return whether a value holds 1.0, which is an integer for a schema, but not for the table."""
    if isinstance(value, dict | list):
        return any(map(has_a_whole_number_with_a_point, value.values() if isinstance(value, dict) else value))
    return isinstance(value, float) and value.is_integer()


def agree(name: str, value: Any) -> None:
    rule = RULES[name]
    accepted = rule.accepts(value)
    assert VALIDATORS[name].is_valid(value) == accepted
    assert accepted == (not list(faults(rule, value, name)))


@pytest.mark.parametrize("name", RULES)
def test_the_full_document_is_accepted_and_read_without_a_change(name: str) -> None:
    assert RULES[name].accepts(FULL[name])
    assert VALIDATORS[name].is_valid(FULL[name])
    read: Any = read_adjust(ADJUST) if name == "adjust" else read_updates(UPDATES)
    assert json.dumps(read) == json.dumps(FULL[name])


@pytest.mark.parametrize("name", RULES)
def test_the_table_and_the_schema_agree_on_mutated_documents(name: str) -> None:
    @settings(max_examples=1500, deadline=None)
    @given(mutated([FULL[name]]))
    def holds(value: Any) -> None:
        assume(not has_a_whole_number_with_a_point(value))
        agree(name, value)

    holds()


def leaves(rule: Rule, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the values in a rule's tables; elements and entries are ``*``."""
    if isinstance(rule, Table):
        for name, key in rule.keys.items():
            yield from leaves(key.rule, (*path, name))
    elif rule.parts:
        yield from leaves(rule.parts[0], (*path, "*"))
    else:
        yield path


def placed(path: tuple[str, ...], value: Any) -> Any:
    """Return the full document with another value at a path; ``*`` is the first element or entry."""
    changed = json.loads(json.dumps(ADJUST))
    around = changed
    for part in path[:-1]:
        around = around[first(around) if part == "*" else part]
    around[first(around) if path[-1] == "*" else path[-1]] = value
    return changed


def first(around: Any) -> Any:
    return next(iter(around)) if isinstance(around, dict) else 0


@settings(max_examples=2000, deadline=None)
@given(
    st.sampled_from([*leaves(document.ADJUST)]),
    values
    | st.sampled_from(["rw\n", "2MB\n", "2BK", "2MKB", "a\0", "/a\n", "/../a", "/a/..", "a=b", "..", ".", "x/y=z\n"]),
)
def test_they_agree_on_any_value_of_any_key(path: tuple[str, ...], value: Any) -> None:
    assume(not has_a_whole_number_with_a_point(value))
    agree("adjust", placed(path, value))


NAMES = ["", "-", "-a", "/a", "/a/../b", "/..", "a=b", "a\n", "a\0", "/" * 4095, "/" * 4096, "a" * 256, "a" * 257]


@pytest.mark.parametrize("key", ["annotations", "env", "mounts", "linux.sysctl", "linux.netDevices"])
def test_they_agree_on_any_name_of_an_entry(key: str) -> None:
    items: list[Any] = [None, "1", {}]
    for name, value in itertools.product([*NAMES, *[f"-{name}" for name in NAMES]], items):
        entry: Any = {name: value}
        *parents, last = key.split(".")
        agree("adjust", {parents[0]: {last: entry}} if parents else {last: entry})


@pytest.mark.parametrize("rule", ["adjust", "resources"])
def test_the_full_documents_have_every_key(rule: str) -> None:
    table, full = (document.ADJUST, ADJUST) if rule == "adjust" else (resources.RESOURCES, RESOURCES)

    def missing(rule: Rule, values: list[Any], where: str) -> Iterator[str]:
        values = [value for value in values if value is not None]
        if isinstance(rule, Table):
            for name, key in rule.keys.items():
                inner = [value[name] for value in values if name in value]
                yield from missing(key.rule, inner, f"{where}.{name}")
        elif rule.parts:
            inner = [each for value in values for each in (value.values() if isinstance(value, dict) else value)]
            yield from missing(rule.parts[0], inner, where)
        elif not values:
            yield where

    assert [*missing(table, [full], rule)] == []


# The table of fields


def test_every_value_of_the_table_is_a_field_or_below_one_and_every_field_is_in_the_table() -> None:
    paths = {field.path for field in FIELDS}
    lost = [path for path in leaves(document.ADJUST) if not any(path[: len(each)] == each for each in paths)]
    assert lost == []
    for path in paths:
        rule: Any = document.ADJUST
        for key in path:
            rule = rule.keys[key].rule


def test_no_field_is_below_another_one_and_none_is_there_twice() -> None:
    names = [field.name for field in FIELDS]
    assert len(names) == len(set(names))
    assert [name for name in names for other in names if name.startswith(f"{other}.")] == []


def test_the_kind_of_a_field_fits_its_rule() -> None:
    for field in FIELDS:
        rule: Any = document.ADJUST
        for key in field.path:
            rule = rule.keys[key].rule
        assert (field.kind == MAP) <= isinstance(rule, Map)
        if field.kind == LIST and field.key:
            assert rule.parts[0].keys[field.key].rule.kind is str
            assert field.key in rule.parts[0].required


def test_a_walk_has_every_field_of_the_full_document() -> None:
    assert [field.name for field, _ in walk(ADJUST)] == [field.name for field in FIELDS]
    assert [*walk({"linux": None, "annotations": {}})] == [(FIELDS[0], {})]
