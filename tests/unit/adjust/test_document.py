"""``adjust`` and ``updates`` as plugins write them: what is read, what is refused, and the tables of their rules."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness import json_schemas
from nri.adjust import document
from nri.adjust.document import read_adjust, read_updates
from nri.types import DecodeError
from nri.types.table import Rule, Table
from nri.types.table_explained import faults
from tests.unit.adjust.documents import ADJUST, RESOURCES, UPDATES
from tests.unit.types.mutations import values

RULES = {"adjust": document.ADJUST, "updates": document.UPDATES}
VALIDATORS = {name: json_schemas.validator(name) for name in RULES}
FULL: dict[str, Any] = {"adjust": ADJUST, "updates": UPDATES}

DEVICE = {"path": "/dev/x", "type": "c", "major": 1, "minor": 3}
CORE = {"type": "RLIMIT_CORE", "hard": 1, "soft": 1}
PAGES = {"pageSize": "2MB", "limit": 1}
BIND = "expected an absolute path without '..' for a bind mount"
UINT64 = f"an integer from 0 to {2**64 - 1}"
NEEDED = "missing, expected it for a device that is not removed"


def in_linux(**keys: Any) -> dict[str, Any]:
    return {"linux": keys}


def in_resources(**keys: Any) -> dict[str, Any]:
    return {"linux": {"resources": keys}}


# Reading


WRONG: list[tuple[Any, str]] = [
    (
        {"annotations": {"": "1"}},
        ".annotations: found the key '', expected a string that is not empty",
    ),
    (
        {"annotations": {"-a": "1"}},
        ".annotations.-a: found the string '1', expected null: a key that begins with '-' removes",
    ),
    ({"env": {"A=B": "1"}}, ".env: found the key 'A=B', expected a name without '='"),
    ({"args": ["", ""]}, ".args[1]: found the string '' again, expected the command"),
    ({"mounts": {"/data/": {}}}, ".mounts: found the key '/data/', expected '/data'"),
    ({"mounts": {"-//data": None}}, ".mounts: found the key '//data', expected '/data'"),
    (
        {"mounts": {"/d\x1b": {"type": "bind"}}},
        f".mounts./d\\x1b.source: found the string '', {BIND}",
    ),
    (
        {"mounts": {"/d": {"source": "../x", "options": ["rbind"]}}},
        f".mounts./d.source: found the string '../x', {BIND}",
    ),
    (
        {"rlimits": [CORE, CORE]},
        ".rlimits[1].type: found the string 'RLIMIT_CORE' again, expected it once",
    ),
    (
        {"cdiDevices": ["a.b/c=d", "a.b/c=d"]},
        ".cdiDevices[1]: found the string 'a.b/c=d' again, expected it once",
    ),
    (in_linux(devices=[{"path": "/dev/x"}]), f".linux.devices[0].type: {NEEDED}"),
    (
        in_linux(devices=[{"path": "/dev/x", "type": "b", "minor": 1}]),
        f".linux.devices[0].major: {NEEDED}",
    ),
    (
        in_linux(devices=[{"path": "/dev/x", "type": "b", "major": 1}]),
        f".linux.devices[0].minor: {NEEDED}",
    ),
    (
        in_linux(devices=[DEVICE | {"path": "/dev//x"}]),
        ".linux.devices[0].path: found the string '/dev//x', expected '/dev/x'",
    ),
    (
        in_linux(devices=[DEVICE, DEVICE]),
        ".linux.devices[1].path: found the string '/dev/x' again, expected it once",
    ),
    (
        in_linux(namespaces=[{"type": "pid", "remove": True}, {"type": "pid"}]),
        ".linux.namespaces[1].type: found the string 'pid' again, expected it once",
    ),
    ({"mounts": {"/d": {"options": ["bind"]}}}, f".mounts./d.source: found the string '', {BIND}"),
    (
        in_linux(oomScoreAdj=1.0),
        ".linux.oomScoreAdj: found the number 1.0, expected an integer from -1000 to 1000",
    ),
    (
        in_resources(cpu={"shares": True}),
        f".linux.resources.cpu.shares: found the boolean true, expected {UINT64}",
    ),
    (
        in_resources(unified={"../x": "1"}),
        ".linux.resources.unified: found the key '../x', expected the name of a file in the cgroup's directory",
    ),
    (
        in_resources(hugepageLimits=[PAGES, PAGES]),
        ".linux.resources.hugepageLimits[1].pageSize: found the string '2MB' again, expected it once",
    ),
]


@pytest.mark.parametrize(("adjust", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_adjust_is_refused_with_its_place(adjust: Any, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read_adjust(adjust)
    assert str(caught.value) == f"adjust{message}"


@pytest.mark.parametrize(
    ("updates", "message"),
    [
        (None, "updates: found null, expected an array of updates"),
        ([{"resources": {}}], "updates[0].id: missing, expected a container's id"),
        (
            [{"id": "a", "resources": {"hugepageLimits": [PAGES, PAGES]}}],
            "updates[0].resources.hugepageLimits[1].pageSize: found the string '2MB' again, expected it once",
        ),
    ],
)
def test_wrong_updates_are_refused_with_their_place(updates: Any, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read_updates(updates)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("adjust", "read"),
    [
        (None, {}),
        ({"env": None, "linux": None}, {}),
        ({"args": []}, {}),
        ({"env": {"A": None}}, {"env": {"A": None}}),
        (in_resources(cpu={"shares": None}), in_resources(cpu={})),
        ({"mounts": {"/a": {"options": None}, "/b": None}}, {"mounts": {"/a": {}, "/b": None}}),
        (
            in_linux(devices=[{"path": "/dev/x", "remove": True}, DEVICE | {"uid": None}]),
            in_linux(devices=[{"path": "/dev/x", "remove": True}, DEVICE]),
        ),
    ],
)
def test_null_stands_for_a_missing_key_but_removes_an_entry(adjust: Any, read: Any) -> None:
    assert read_adjust(adjust) == read


def test_full_documents_are_accepted_and_read_as_copies() -> None:
    for name, full in FULL.items():
        assert RULES[name].accepts(full)
        assert VALIDATORS[name].is_valid(full)
    assert json.dumps([read_adjust(ADJUST), read_updates(UPDATES)]) == json.dumps([ADJUST, UPDATES])
    assert read_adjust(ADJUST)["linux"]["resources"] is not RESOURCES
    assert read_updates(UPDATES)[0]["resources"] is not RESOURCES


# The tables agree with the schemas


def has_a_whole_number_with_a_point(value: Any) -> bool:
    """Return whether a value holds 1.0, which is an integer for a schema, but not for the table."""
    if isinstance(value, dict | list):
        return any(
            map(
                has_a_whole_number_with_a_point,
                value.values() if isinstance(value, dict) else value,
            )
        )
    return isinstance(value, float) and value.is_integer()


def agree(name: str, value: Any) -> None:
    accepted = RULES[name].accepts(value)
    assert VALIDATORS[name].is_valid(value) == accepted
    assert accepted == (not list(faults(RULES[name], value)))


def leaves(rule: Rule, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the values in a rule's tables; elements and entries are ``*``."""
    if isinstance(rule, Table):
        for name, key in rule.keys.items():
            yield from leaves(key.rule, (*path, name))
    elif rule.parts:
        yield from leaves(rule.parts[0], (*path, "*"))
    else:
        yield path


def first(around: Any) -> Any:
    return next(iter(around)) if isinstance(around, dict) else 0


def placed(path: tuple[str, ...], value: Any) -> Any:
    """Return the full document with another value at a path; ``*`` is the first element or entry."""
    changed = json.loads(json.dumps(ADJUST))
    around = changed
    for part in path[:-1]:
        around = around[first(around) if part == "*" else part]
    around[first(around) if path[-1] == "*" else path[-1]] = value
    return changed


ODD = ["rw\n", "2MB\n", "2BK", "2MKB", "a\0", "/a\n", "/../a", "/a/..", "a=b", "..", ".", "x/y=z\n"]


@settings(max_examples=1000, deadline=None)
@given(st.sampled_from([*leaves(document.ADJUST)]), values | st.sampled_from(ODD))
def test_table_and_schema_agree_on_any_value_of_any_key(path: tuple[str, ...], value: Any) -> None:
    assume(not has_a_whole_number_with_a_point(value))
    agree("adjust", placed(path, value))


NAMES = [
    "",
    "-",
    "-a",
    "/a",
    "/a/../b",
    "/..",
    "a=b",
    "a\n",
    "a\0",
    "/" * 4095,
    "/" * 4096,
    "a" * 256,
    "a" * 257,
]


def test_table_and_schema_agree_on_any_name_of_an_entry() -> None:
    items: list[Any] = [None, "1", {}]
    for name, value in itertools.product([*NAMES, *[f"-{name}" for name in NAMES]], items):
        entry: Any = {name: value}
        for key in ("annotations", "env", "mounts"):
            agree("adjust", {key: entry})
        for key in ("sysctl", "netDevices"):
            agree("adjust", in_linux(**{key: entry}))
        agree("adjust", in_resources(unified=entry))


# The table of fields
