"""The schemas of the plugins that adjust containers say the same about a conf as the plugins themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nri.plugins.device_injector import DeviceInjector
from nri.plugins.hook_injector import HookInjector
from nri.plugins.logger import FIELDS, Logger
from nri.plugins.ulimit_adjuster import UlimitAdjuster
from nri.skel.process import schema_of
from nri.types.v1 import STATES
from tests.support.confs import validate_conf
from tests.unit.plugins.asking import run

if TYPE_CHECKING:
    from nri import skel

ALL: list[tuple[Any, bool]] = [
    (None, True),
    ({}, True),
    ({"x-note": [1]}, True),
    ({"key": "a"}, False),
    ([], False),
    ("x", False),
    (0, False),
]


def allowing(name: str) -> list[tuple[Any, bool]]:
    good = [None, True, False, [], ["shop", "other"]]
    bad = ["shop", 0, {}, [""], [None], [True]]
    return [
        ({"allow": None}, True),
        ({"allow": {}}, True),
        ({"allow": True}, False),
        ({"allow": ["shop"]}, False),
        ({"allow": {"x-note": True}}, False),
        *[({"allow": {name: value}}, True) for value in good],
        *[({"allow": {name: value}}, False) for value in bad],
    ]


CASES: dict[type[skel.Plugin], list[tuple[Any, bool]]] = {
    DeviceInjector: [*ALL, *allowing("devices"), *allowing("sysctl"), ({"allow": {"ulimits": True}}, False)],
    UlimitAdjuster: [*ALL, *allowing("ulimits"), ({"allow": {"devices": True}}, False)],
    HookInjector: [
        *ALL,
        *allowing("annotations"),
        ({"dirs": []}, True),
        ({"dirs": None}, True),
        ({"dirs": ["/nonexistent"]}, True),
        ({"dirs": ["nonexistent"]}, False),
        ({"dirs": ["/a\0"]}, False),
        ({"dirs": "/etc"}, False),
    ],
    Logger: [
        *ALL,
        ({"file": None, "format": None, "states": None, "fields": None}, True),
        ({"file": "/"}, False),
        ({"file": ""}, False),
        ({"file": "log"}, False),
        ({"file": "/a\0"}, False),
        ({"format": "yaml"}, True),
        ({"format": "YAML"}, False),
        ({"states": []}, True),
        ({"states": [str(state) for state in STATES]}, True),
        ({"states": ["setup", "setup"]}, False),
        ({"states": ["start"]}, False),
        ({"fields": list(FIELDS)}, True),
        ({"fields": ["conf"]}, False),
        ({"fields": {}}, False),
        ({"allow": {}}, False),
    ],
}


@pytest.mark.parametrize(
    ("kind", "conf", "good"),
    [(kind, *case) for kind, cases in CASES.items() for case in cases],
    ids=lambda value: getattr(value, "type", repr(value)[:40]),
)
def test_schema_and_plugin_agree(kind: type[skel.Plugin], conf: Any, good: bool) -> None:
    assert (validate_conf(schema_of(kind()), conf) == []) == good
    error = run(kind(), {}, conf).error
    assert error.startswith("conf") != good, error


@pytest.mark.parametrize("kind", CASES)
def test_every_key_is_described(kind: type[skel.Plugin]) -> None:
    schema = schema_of(kind())
    assert schema is not None
    assert all(key["description"] for key in schema["properties"].values())


@pytest.mark.parametrize("kind", CASES)
def test_a_sandbox_is_not_adjusted(kind: type[skel.Plugin]) -> None:
    assert run(kind(), {}, id="pod").adjust is None
