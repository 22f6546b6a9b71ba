"""A plugin conf as a class: the verdict, the message, the schema and the object come from its fields."""

from typing import Any

import pytest

from nri.skel import fields
from nri.types import DecodeError
from nri.types.conf import Conf
from nri.types.table import ANYTHING, FLAG, Key, Rule, Table, array, text, words
from nri.types.table_explained import faults as faults_of
from nri.types.table_explained import path_text
from nri.types.table_explained import schema as schema_of


class Inner(Conf):
    low_water: int = fields.integer("the low mark", 0, 9, default=1)
    names: tuple[str, ...] = fields.array(text(1), "some names", default=[])


class Base(Conf):
    key: str = fields.text("a key", default="k")
    level: str = fields.choice("low", "high", description="how much", default="low")


class Full(Base):
    cpus: frozenset[int] = fields.cpus("some CPUs")
    level: str = fields.choice("low", "high", "top", description="how much", default="top")
    ratio: float | None = fields.number("a part", 0, 1, default=None)
    dir: str | None = fields.path("a place", default=None)
    on: bool = fields.flag("whether", default=False)
    most: int = fields.integer("at most so many", high=9, default=1)
    any: int = fields.integer("as many", default=1)
    inner: Inner = fields.section(Inner, "more", default={})
    limits: dict[str, bool] = fields.mapping(FLAG, "by name", default={})
    which: tuple[str, ...] = fields.array(
        words("a", "b"), "some", shortest=1, unique=True, default=["a"]
    )
    raw: Any = fields.value(text(2, 4), "a text", default=None, read=str.upper, key="RAW")


CPUS = frozenset({0, 1, 2, 8})


def test_a_value_becomes_typed_attributes_and_defaults() -> None:
    conf = Full.from_value(
        {"cpus": "0-2,8", "inner": {"lowWater": 3}, "which": ["b"], "RAW": "abc", "x-note": 1}
    )
    assert (conf.cpus, conf.key, conf.level, conf.ratio, conf.on) == (CPUS, "k", "top", None, False)
    assert (conf.inner, conf.limits, conf.which, conf.raw) == (
        Inner(low_water=3),
        {},
        ("b",),
        "ABC",
    )
    # Its own defaults.
    assert Full.from_value({"cpus": ""}).inner == Inner() == Inner.from_value(None)
    assert Inner().names == ()
    assert Full.from_value({"cpus": "1", "level": None, "inner": None}) == Full.from_value(
        {"cpus": "1"}
    )


WRONG: list[tuple[Any, str]] = [
    (None, 'conf.cpus: missing, expected a CPU list such as "0-3,8"'),
    ([], "conf: found an array, expected an object"),
    ({"cpus": None}, 'conf.cpus: found null, expected a CPU list such as "0-3,8"'),
    ({"cpus": 3}, 'conf.cpus: found the number 3, expected a CPU list such as "0-3,8"'),
    ({"ratio": 1.5}, "conf.ratio: found the number 1.5, expected a number, 0 to 1"),
    ({"dir": "etc"}, "conf.dir: found the string 'etc', expected an absolute path without '..'"),
    (
        {"dir": "/a/../b"},
        "conf.dir: found the string '/a/../b', expected an absolute path without '..'",
    ),
    (
        {"inner": {"lowWater": 10}},
        "conf.inner.lowWater: found the number 10, expected an integer, 0 to 9",
    ),
    ({"inner": {"low_water": 1}}, "conf.inner.low_water: unknown key, did you mean lowWater?"),
    ({"most": 10}, "conf.most: found the number 10, expected an integer, 9 at most"),
    ({"any": "1"}, "conf.any: found the string '1', expected an integer"),
    ({"which": []}, "conf.which: found 0 items, expected at least 1"),
    ({"limits": {"a": 1}}, "conf.limits.a: found the number 1, expected true or false"),
]


def test_a_wrong_value_is_named_with_its_place() -> None:
    for value, message in WRONG:
        with pytest.raises(DecodeError) as refused:
            Full.from_value({"cpus": "1"} | value if isinstance(value, dict) else value)
        assert str(refused.value) == message
    with pytest.raises(DecodeError, match=r'0-3,8": \'two\' is no CPU and no range$'):
        Full.from_value({"cpus": "two"})


def test_all_faults_of_a_conf_are_named() -> None:
    wrong = {"cpus": 1, "level": 2, "ratio": 3, "dir": 4, "on": 5, "which": 6, "other": 7}
    with pytest.raises(DecodeError) as refused:
        Full.from_value(wrong)
    places = [fault.partition(":")[0] for fault in str(refused.value).split("; ")]
    assert sorted(places) == sorted(f"conf.{key}" for key in wrong)


def test_the_keys_of_a_class_come_before_those_of_its_base() -> None:
    assert list(Full.schema()["properties"])[:2] == ["cpus", "level"]
    assert list(Full.attributes)[-2:] == ["RAW", "key"]
    assert Full.schema()["required"] == ["cpus"]
    assert Base.from_value({}).level == "low"
    with pytest.raises(TypeError, match="found the default 'x', expected an integer"):
        fields.integer("a number", default="x")


@pytest.mark.parametrize("value", [{"b": 5}, {}])
def test_attribute_that_is_no_field_is_refused(value: dict[str, Any]) -> None:
    """It would be no key, and nothing would say so."""
    with pytest.raises(
        TypeError, match=r"^Plain\.b: found no field, expected one such as fields\.integer"
    ):
        type("Plain", (Conf,), {"__annotations__": {"b": "int"}, **value})
    allowed: Any = type(
        "Own", (Conf,), {"__annotations__": {"_b": "int", "c": "ClassVar[int]"}, "c": 5}
    )
    assert allowed.from_value({}).c == 5


def test_no_field_takes_the_name_of_a_method() -> None:
    with pytest.raises(TypeError, match=r"Taken\.schema: found a name that every conf has"):
        type("Taken", (Conf,), {"schema": fields.text("a text", default="a")})
    conf: Any = type("Named", (Conf,), {"its": fields.text("a text", default="a", key="schema")})
    assert conf.schema()["properties"].keys() == {"schema"}


def test_a_conf_is_frozen_and_compares_by_its_values() -> None:
    conf = Inner(low_water=2)
    with pytest.raises(AttributeError, match="Inner is frozen: low_water cannot be set"):
        conf.low_water = 3
    with pytest.raises(AttributeError, match="cannot be deleted"):
        del conf.low_water
    assert conf == Inner(low_water=2) != Inner()
    assert repr(conf) == "Inner(low_water=2, names=())"
    assert conf.replace(names=("a",)) == Inner(low_water=2, names=("a",))


def test_conf_made_by_hand_has_exactly_its_fields() -> None:
    assert Full(cpus=frozenset({1})) == Full.from_value({"cpus": "1"})
    with pytest.raises(TypeError, match="Full: cpus is missing"):
        Full()
    with pytest.raises(TypeError, match="Inner: found nmaes, expected low_water, names"):
        Inner(nmaes=())


def test_items_are_fields_confs_or_rules() -> None:
    class Listing(Conf):
        inner: tuple[Inner, ...] = fields.array(Inner, "confs")
        cpus: dict[str, frozenset[int]] = fields.mapping(fields.cpus(), "CPU lists", default={})
        words: tuple[str, ...] = fields.array(words("a"), "a rule", default=[])

    conf = Listing.from_value(
        {"inner": [{"lowWater": 2}, {}], "cpus": {"x": "0-1"}, "words": ["a"]}
    )
    assert conf.inner == (Inner(low_water=2), Inner())
    assert (conf.cpus, conf.words) == ({"x": frozenset({0, 1})}, ("a",))
    with pytest.raises(DecodeError, match=r"^conf\.inner\[0\]\.lowWater: found the number 10"):
        Listing.from_value({"inner": [{"lowWater": 10}]})


# Rules of tables, of which the fields are made


def test_a_rule_of_ones_own_says_what_is_wrong() -> None:
    def is_even(value: object) -> bool:
        return isinstance(value, int) and value % 2 == 0

    even = Rule(
        int, is_even, "an even number", {"multipleOf": 2}, explain=lambda value: f"{value} is odd"
    )
    faults = [
        (path_text(path), wrong)
        for path, wrong, _ in faults_of(Table(Key("a", array(even))), {"a": [2, 3, "4"]})
    ]
    assert faults == [
        ("a[1]", "3 is odd"),
        ("a[2]", "found the string '4', expected an even number"),
    ]
    assert schema_of(Table(Key("a", ANYTHING), nulls=True))["properties"] == {"a": {}}


def test_a_rule_that_cannot_keep_its_word_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^expected "):
        text(matches=str.islower)
    with pytest.raises(TypeError, match=r"^expected "):
        text(pattern="a")
    with pytest.raises(TypeError, match=r"^expected "):
        array(FLAG, unique=True)


def test_bounds_that_no_number_is_between_are_refused() -> None:
    with pytest.raises(ValueError, match="found the bounds 5 to 1"):
        fields.integer("how much", 5, 1)
