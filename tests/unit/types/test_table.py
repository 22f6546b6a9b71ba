"""Tables: the verdict, the faults, the values with their defaults, and the JSON Schema that says the same."""

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from fuzz.documents import WORDS
from nri.types import DecodeError
from nri.types.table import ANYTHING, FLAG, Key, Rule, Table, array, either, number, text, words
from nri.types.table_explained import faults as faults_of
from nri.types.table_explained import path_text, refusal, why
from nri.types.table_explained import schema as schema_of
from tests.unit.types.mutations import values

STRINGS = ["", "a", "A", "ab", "aB", "abcd", "abcde", "x-", "x-a", "1"]

leaves = st.one_of(
    st.just(ANYTHING),
    st.just(FLAG),
    st.lists(st.sampled_from(["a", "b", "A", ""]), min_size=1, max_size=3, unique=True).map(
        lambda all_: words(*all_)
    ),
    st.tuples(st.integers(0, 3), st.none() | st.integers(0, 5)).map(lambda limits: text(*limits)),
    st.tuples(st.none() | st.integers(-3, 3), st.none() | st.integers(-3, 4000), st.booleans()).map(
        lambda limits: number(*limits[:2], above=limits[2] and limits[0] is not None)
    ),
    st.tuples(st.none() | st.integers(-3, 3), st.none() | st.integers(-3, 4000)).map(
        lambda limits: number(*limits, whole=True)
    ),
)


def has_whole_number_with_a_point(value: object) -> bool:
    """Return whether a validator finds an integer in *value* where Go finds none."""
    if isinstance(value, dict | list):
        return any(map(has_whole_number_with_a_point, value.values() if isinstance(value, dict) else value))
    return isinstance(value, float) and value.is_integer()


def is_hashable(rule: Rule) -> bool:
    return rule.kind in (str, int, (int, float))


@st.composite
def arrays(draw: st.DrawFn, items: st.SearchStrategy[Rule]) -> Rule:
    item = draw(items)
    return array(item, draw(st.integers(0, 2)), unique=is_hashable(item) and draw(st.booleans()))


@st.composite
def tables(draw: st.DrawFn, rules: st.SearchStrategy[Rule]) -> Table:
    names = draw(st.lists(st.sampled_from(WORDS), max_size=4, unique=True))
    keys = [Key(name, draw(rules), required=draw(st.booleans())) for name in names]
    return Table(*keys, notes=draw(st.booleans()), nulls=draw(st.booleans()))


rules = st.recursive(
    leaves,
    lambda inner: st.one_of(
        arrays(inner),
        tables(inner),
        st.lists(inner, min_size=1, max_size=3).map(lambda all_: either(*all_, expected="one of these")),
    ),
    max_leaves=6,
)


def fitting(rule: Rule) -> st.SearchStrategy[Any]:
    """Values that are right, or nearly."""
    nearly: st.SearchStrategy[Any] = values | st.sampled_from(STRINGS)
    if isinstance(rule, Table):
        known = {name: fitting(key.rule) for name, key in rule.keys.items()}
        some = st.fixed_dictionaries({}, optional=known)
        return some | st.tuples(some, st.dictionaries(st.sampled_from([*WORDS, *STRINGS]), nearly, max_size=1)).map(
            lambda both: both[1] | both[0]
        )
    if rule.kind is list:
        return st.lists(fitting(rule.parts[0]), max_size=4)
    if rule.parts:
        return st.one_of([fitting(part) for part in rule.parts])
    if "enum" in rule.keywords:
        nearly |= st.sampled_from(rule.keywords["enum"])
    return nearly | st.integers(-4, 5) | st.booleans()


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_the_verdict_is_the_schemas_and_every_fault_has_its_path(data: st.DataObject) -> None:
    rule = data.draw(rules)
    value = data.draw(fitting(rule) | values)
    assume(not has_whole_number_with_a_point(value))
    schema = schema_of(rule)
    Draft202012Validator.check_schema(schema)
    accepted = rule.accepts(value)
    assert accepted == Draft202012Validator(schema).is_valid(value)
    faults = [(path_text(("conf", *path)), why) for path, why, _ in faults_of(rule, value)]
    assert (faults == []) == accepted
    assert (why(rule, value) == "") == accepted
    assert all(path.startswith("conf") and why for path, why in faults)


TABLE = Table(
    Key("name", text(1), required=True),
    Key("level", words("low", "high"), default="low"),
    Key("cpus", array(number(0, 3, whole=True, expected="a CPU, 0 to 3"), unique=True), default=[]),
    Key("when", either(FLAG, array(text(1)), expected="true, false, or an array of names")),
    Key("more", Table(Key("a", number(0, 1, above=True)), nulls=True)),
    notes=True,
    nulls=True,
)
GOOD = {"name": "n", "level": "high", "cpus": [0, 3], "when": ["a"], "more": {"a": 0.5}, "x-": {"any": 1}}
FAULTS: list[tuple[Any, list[str]]] = [
    (GOOD, []),
    ({"name": "n"}, []),
    ({"name": "n", "level": None, "cpus": None, "when": None, "more": {"a": None}}, []),
    ({"name": None}, ["conf.name: found null, expected a string that is not empty"]),
    (
        {"name": "n", "nmae": 1, "X-": 1},
        [
            "conf.nmae: unknown key, did you mean name?",
            "conf.X-: unknown key, expected one of name, level, cpus, when, more",
        ],
    ),
    (
        {"name": "n", "cpus": [0, 4, "1", 0, True, None]},
        [
            "conf.cpus[1]: found the number 4, expected a CPU, 0 to 3",
            "conf.cpus[2]: found the string '1', expected an integer",
            "conf.cpus[3]: found the number 0 again, expected it once",
            "conf.cpus[4]: found the boolean true, expected an integer",
            "conf.cpus[5]: found null, expected a CPU, 0 to 3",
        ],
    ),
    ({"name": "n", "when": ["a", "a", 1]}, ["conf.when[2]: found the number 1, expected a string that is not empty"]),
    ({"name": "n", "more": {"a": 0}}, ["conf.more.a: found the number 0, expected a number"]),
]


def test_fault_has_its_path_what_was_found_and_what_is_expected() -> None:
    for value, expected in FAULTS:
        assert [f"{path_text(('conf', *path))}: {why}" for path, why, _ in faults_of(TABLE, value)] == expected
        assert TABLE.accepts(value) == (expected == [])


def test_reading_fills_in_defaults_for_missing_and_null() -> None:
    assert TABLE.read(GOOD) == {name: GOOD[name] for name in TABLE.keys}
    read = TABLE.read({"name": "n", "level": None})
    assert read == {"name": "n", "level": "low", "cpus": [], "when": None, "more": None}
    assert Table(Key("a", FLAG, default=True)).read(None) == {"a": True}
    assert TABLE.read(None) is None
    with pytest.raises(DecodeError, match=r"^conf\.name: missing, expected a string that is not empty$"):
        raise refusal(TABLE, None, "conf")


def test_a_rule_of_ones_own_says_what_is_wrong() -> None:
    def is_even(value: object) -> bool:
        return isinstance(value, int) and value % 2 == 0

    even = Rule(int, is_even, "an even number", {"multipleOf": 2}, explain=lambda value: f"{value} is odd")
    faults = [(path_text(path), why) for path, why, _ in faults_of(Table(Key("a", array(even))), {"a": [2, 3, "4"]})]
    assert faults == [("a[1]", "3 is odd"), ("a[2]", "found the string '4', expected an integer")]


def test_a_rule_that_cannot_keep_its_word_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^expected "):
        text(matches=str.islower)
    with pytest.raises(TypeError, match=r"^expected "):
        text(pattern="a")
    with pytest.raises(TypeError, match=r"^expected "):
        array(FLAG, unique=True)
