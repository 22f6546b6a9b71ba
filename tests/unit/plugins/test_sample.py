"""The schema that a plugin shows says the same about a conf as the plugin itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nri.plugins.clearcfs import ClearCFS
from nri.plugins.konfine import Konfine
from nri.skel.process import schema_of
from tests.support.confs import validate_conf
from tests.unit.plugins.running import BAD_CONF, Node

if TYPE_CHECKING:
    from nri import skel

BOTH: list[tuple[Any, bool]] = [
    (None, True),
    ({}, True),
    ({"key": "a"}, True),
    ({"key": None}, True),
    ({"x-note": ["anything"], "x-": None}, True),
    ({"X-note": 1}, False),
    ({"Key": "a"}, False),
    ({"key": " "}, True),
    ({"mountinfo": None}, True),
    ({"allow": None}, True),
    ({"allow": {}}, True),
    *[({"allow": {"class": value}}, True) for value in (None, True, False, [], ["team-a", "team-b"])],
    *[(conf, False) for conf, _message in BAD_CONF],
]
CASES = {
    ClearCFS: [
        ({"classes": [], "pod": True}, True),
        ({"classes": ["a", "a", ""]}, True),
        ({"classes": None, "pod": None}, True),
        ({"classes": [None]}, False),
        ({"classes": ["a", 1]}, False),
        ({"classes": "a"}, False),
        ({"classes": {}}, False),
        ({"pod": 0}, False),
        ({"pod": "true"}, False),
        ({"systemReserved": [0]}, False),
        ({"allow": {"cpus": True}}, False),
    ],
    Konfine: [
        ({"allow": {"cpus": ["team-a"], "class": False}}, True),
        ({"allow": {"cpus": ""}}, False),
        ({"systemReserved": []}, True),
        ({"systemReserved": [0, 8191, 0]}, True),
        ({"systemReserved": None, "systemClasses": None}, True),
        ({"systemReserved": ""}, True),
        ({"systemReserved": " \n"}, True),
        ({"systemReserved": "100-200"}, True),
        ({"systemReserved": " 100 ,\t102-0104\n"}, True),
        ({"systemReserved": "100\u2003,101"}, True),
        *[({"systemReserved": str(cpu)}, True) for cpu in (0, 999, 1000, 7999, 8000, 8099, 8189, 8191)],
        *[({"systemReserved": text}, False) for text in ("8192", "8200", "9000", "0-99999", "10000", "0,81910")],
        ({"systemReserved": "000000000000000008191"}, True),
        ({"systemReserved": "1 2"}, False),
        ({"systemReserved": "1 - 2"}, False),
        ({"systemReserved": "1-"}, False),
        ({"systemReserved": "-"}, False),
        ({"systemReserved": ","}, False),
        ({"systemReserved": "1,"}, False),
        ({"systemReserved": "1-2-3"}, False),
        ({"systemReserved": "٣"}, False),
        ({"systemReserved": "all"}, False),
        ({"systemReserved": "1," * 50_000 + "1"}, False),
        ({"systemReserved": [8192]}, False),
        ({"systemReserved": [-1]}, False),
        ({"systemReserved": [1.5]}, False),
        ({"systemReserved": [True]}, False),
        ({"systemReserved": [None]}, False),
        ({"systemReserved": ["0"]}, False),
        ({"systemReserved": 0}, False),
        ({"systemReserved": {}}, False),
        ({"systemClasses": []}, True),
        ({"systemClasses": ["a", ""]}, True),
        ({"systemClasses": [None]}, False),
        ({"systemClasses": "a"}, False),
        ({"classes": []}, False),
    ],
}
UNSAYABLE = [{"systemReserved": "3-1"}, {"systemReserved": [100.0]}]
"""What only the plugin refuses: a schema can't compare the ends of a range, and takes 100.0 for an integer."""


@pytest.mark.parametrize(
    ("kind", "conf", "good"),
    [(kind, *case) for kind, cases in CASES.items() for case in [*BOTH, *cases]],
    ids=lambda value: getattr(value, "type", repr(value)[:40]),
)
def test_schema_and_plugin_agree(kind: type[skel.Plugin], conf: Any, good: bool) -> None:
    assert (validate_conf(schema_of(kind()), conf) == []) == good
    error = Node(kind()).run(conf).error
    assert error.startswith("conf") != good, error


@pytest.mark.parametrize("conf", UNSAYABLE, ids=str)
def test_what_a_schema_cannot_say_the_plugin_says(conf: Any) -> None:
    assert validate_conf(schema_of(Konfine()), conf) == []
    assert Node(Konfine()).error(conf).startswith("conf.systemReserved")


@pytest.mark.parametrize("kind", CASES)
def test_every_key_is_described(kind: type[skel.Plugin]) -> None:
    schema = schema_of(kind())
    assert schema is not None
    assert all(key["description"] for key in schema["properties"].values())
