"""The rules of CDI specifications, in JSON and in YAML."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings

from nri.adjust import AdjustError
from nri.adjust.cdi_document import SPECIFICATION, VERSIONS, read_specification
from nri.adjust.cdi_edits import adjust_of
from nri.adjust.cdi_yaml import loads
from nri.adjust.reading import read_adjust
from nri.types import DecodeError
from tests.unit.adjust.test_cdi import FULL, specification, without_extras
from tests.unit.types.mutations import mutated

EDITS: dict[str, Any] = {"env": ["A=1"]}
GOOD = specification({"x": FULL, "y": EDITS}, FULL, annotations={"a": "b"})


def read(document: Any) -> Any:
    return read_specification(json.loads(json.dumps(document)))


def test_a_full_specification_is_read() -> None:
    assert read(GOOD) == GOOD


def changed(path: str, value: Any) -> Any:
    document = json.loads(json.dumps(GOOD))  # nothing is shared
    around: Any = document
    *parents, last = [int(part) if part.isdecimal() else part for part in path.split(".")]
    for part in parents:
        around = around[part]
    around[last] = value
    return document


E = "devices.0.containerEdits"
WRONG: list[tuple[str, Any, str]] = [
    (
        "cdiVersion",
        "2.0.0",
        f"the specification.cdiVersion: found the string '2.0.0', expected one of {', '.join(VERSIONS)}",
    ),
    ("cdiVersion", None, "the specification.cdiVersion: found null, expected one of"),
    (
        "cdiVersion",
        "1.0.0",
        "cdiVersion: found the string '1.0.0', expected 1.1.0 or newer, which intelRdt with schemata",
    ),
    ("kind", "vendor", "the specification.kind: found the string 'vendor', expected VENDOR/CLASS, both of letters"),
    ("kind", "1vendor/net", "the specification.kind: "),
    ("kind", "vendor/net/x", "the specification.kind: "),
    ("kind", "vendor/net.", "the specification.kind: "),
    ("devices", [], "the specification.devices: found an array, expected an array of at least one device"),
    ("devices", None, "the specification.devices: found null"),
    ("extra", 1, "the specification: found the key 'extra', expected one of cdiVersion, kind, "),
    ("annotations", {"a": 1}, "the specification.annotations.a: found the number 1, expected a string without NUL"),
    ("devices.0.name", "-x", "the specification.devices[0].name: found the string '-x', expected a name of letters"),
    ("devices.0.name", "y", "devices[1].name: found the string 'y' again, expected it once"),
    (E, {}, "devices[0].containerEdits: found no edits, expected at least one"),
    (E, {"env": []}, "devices[0].containerEdits: found no edits, expected at least one"),
    (E, {"enableCMT": True}, "the specification.devices[0].containerEdits: found the key 'enableCMT', expected"),
    (
        f"{E}.env.0",
        "A",
        "the specification.devices[0].containerEdits.env[0]: found the string 'A', expected NAME=VALUE",
    ),
    (
        f"{E}.env.0",
        "=A",
        "the specification.devices[0].containerEdits.env[0]: found the string '=A', expected NAME=VALUE",
    ),
    (
        f"{E}.deviceNodes.0.path",
        "a",
        "the specification.devices[0].containerEdits.deviceNodes[0].path: found the string 'a'",
    ),
    (
        f"{E}.deviceNodes.0.type",
        "x",
        "the specification.devices[0].containerEdits.deviceNodes[0].type: found the string 'x'",
    ),
    (
        f"{E}.deviceNodes.0.permissions",
        "rx",
        "the specification.devices[0].containerEdits.deviceNodes[0].permissions: ",
    ),
    (
        f"{E}.mounts.0.hostPath",
        "",
        "the specification.devices[0].containerEdits.mounts[0].hostPath: found the string ''",
    ),
    (
        f"{E}.mounts.0.hostPath",
        "a",
        "devices[0].containerEdits.mounts[0].hostPath: found the string 'a', expected an abs",
    ),
    (
        f"{E}.hooks.0.hookName",
        "stop",
        "the specification.devices[0].containerEdits.hooks[0].hookName: found the string",
    ),
    (f"{E}.hooks.0.timeout", 0, "the specification.devices[0].containerEdits.hooks[0].timeout: found the number 0"),
    (f"{E}.hooks.0.env", ["A"], "the specification.devices[0].containerEdits.hooks[0].env[0]: found the string 'A'"),
    (f"{E}.intelRdt.closID", "a/b", "the specification.devices[0].containerEdits.intelRdt.closID: found the string"),
    (
        f"{E}.netDevices.0.name",
        "",
        "the specification.devices[0].containerEdits.netDevices[0].name: found the string ''",
    ),
    (
        f"{E}.netDevices",
        [{"hostInterfaceName": "a", "name": "x"}, {"hostInterfaceName": "b", "name": "x"}],
        "devices[0].containerEdits.netDevices[1].name: found the string 'x' again, expected it once",
    ),
    (
        "containerEdits.netDevices",
        [{"hostInterfaceName": "a", "name": "x"}, {"hostInterfaceName": "a", "name": "y"}],
        "containerEdits.netDevices[1].hostInterfaceName: found the string 'a' again, expected it once",
    ),
    (
        f"{E}.additionalGids",
        [-1],
        "the specification.devices[0].containerEdits.additionalGids[0]: found the number -1",
    ),
]


@pytest.mark.parametrize(
    ("path", "value", "message"), WRONG, ids=[f"{path}={value}"[-40:] for path, value, _ in WRONG]
)
def test_a_wrong_specification_is_refused_with_the_place(path: str, value: Any, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read(changed(path, value))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("document", [None, [], "a", {}])
def test_what_is_no_specification_is_refused(document: Any) -> None:
    with pytest.raises(DecodeError, match=r"^the specification"):
        read(document)


NEEDS: list[tuple[str, dict[str, Any]]] = [
    ("0.3.0", specification({"x": EDITS})),
    ("0.4.0", specification({"x": {"mounts": [{"hostPath": "/a", "containerPath": "/a", "type": "none"}]}})),
    ("0.5.0", specification({"x": {"deviceNodes": [{"path": "/a", "hostPath": "/b"}]}})),
    ("0.5.0", specification({"0": EDITS})),
    ("0.6.0", specification({"x": EDITS}, annotations={"a": "b"})),
    ("0.6.0", specification({"x": EDITS}, kind="vendor.com/a.b")),
    ("0.7.0", specification({"x": EDITS}, {"additionalGids": [1]})),
    ("0.7.0", specification({"x": {"intelRdt": {"closID": "a"}}})),
    ("1.1.0", specification({"x": {"intelRdt": {"schemata": []}}})),
    ("1.1.0", specification({"x": EDITS}, {"netDevices": [{"hostInterfaceName": "a", "name": "b"}]})),
]


@pytest.mark.parametrize(("needed", "document"), NEEDS)
def test_a_specification_needs_the_version_of_what_it_uses(needed: str, document: dict[str, Any]) -> None:
    for version in VERSIONS:
        is_old = VERSIONS.index(version) < VERSIONS.index(needed) and needed != "0.3.0"
        for spelling in (version, f"v{version}"):
            if is_old:
                with pytest.raises(DecodeError, match=rf"^cdiVersion: .*, expected {needed} or newer, which "):
                    read(document | {"cdiVersion": spelling})
            else:
                read(document | {"cdiVersion": spelling})


@settings(max_examples=800, deadline=None)
@given(mutated([GOOD, specification({"x": FULL})]))
def test_whatever_is_accepted_becomes_an_adjust_that_is_accepted(document: Any) -> None:
    try:
        found = read(document)
    except DecodeError as error:
        assert len(str(error)) < 1000
        return
    many = [found.get("containerEdits", {}), *[device["containerEdits"] for device in found["devices"]]]
    try:
        plain = without_extras(adjust_of([("a file", edits) for edits in many], {}))
    except AdjustError:
        return
    assert read_adjust(plain) == plain


def test_nulls_are_missing_keys() -> None:
    nodes = [{"path": "/dev/null", "hostPath": None, "type": None, "uid": None}]
    found = read(specification({"x": {"env": None, "deviceNodes": nodes}}, None, annotations=None))
    assert found["devices"][0]["containerEdits"] == {"deviceNodes": [{"path": "/dev/null"}]}
    assert SPECIFICATION.accepts(found)


# YAML


@pytest.mark.parametrize("flow", [None, True, False])
def test_a_specification_is_the_same_in_yaml(flow: bool | None) -> None:
    text = "---\n" + yaml.safe_dump(json.loads(json.dumps(GOOD)), default_flow_style=flow)
    assert loads(text.encode()) == GOOD
    assert loads(json.dumps(GOOD).encode()) == GOOD


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("name: 0", {"name": "0"}),
        ("name: 1:2", {"name": "1:2"}),
        ("cdiVersion: 0.5", {"cdiVersion": "0.5"}),
        ("env: [A=1, yes, 2001-01-01]", {"env": ["A=1", "yes", "2001-01-01"]}),
        ("major: 10", {"major": 10}),
        ("major: '10'", {"major": "10"}),
        ("fileMode: 0660", {"fileMode": 0o660}),
        ("fileMode: 0o660", {"fileMode": 0o660}),
        ("fileMode: 09", {"fileMode": "09"}),
        ("minor: -1", {"minor": -1}),
        ("uid: 0x10", {"uid": 16}),
        ("uid: ten", {"uid": "ten"}),
        ("additionalGids:\n- 1\n- 2", {"additionalGids": [1, 2]}),
        ("uid: ~\ngid:\ntype: null", {"uid": None, "gid": None, "type": None}),
        ("enableMonitoring: true", {"enableMonitoring": True}),
        ("enableMonitoring: 'true'", {"enableMonitoring": "true"}),
        ("a: |\n  b\n  c", {"a": "b\nc"}),
        ("[{uid: 1, a: [b, {c: d}]}, e]", [{"uid": 1, "a": ["b", {"c": "d"}]}, "e"]),
        ("? a\n: b", {"a": "b"}),
        ("text", "text"),
    ],
)
def test_a_scalar_is_a_string_unless_its_key_is_a_numbers(text: str, value: object) -> None:
    found = loads(text.encode())
    assert (found, repr(found)) == (value, repr(value))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b"", "the document is empty, expected YAML"),
        (b"# nothing", "the document is empty, expected YAML"),
        (b"\xff", "the byte 0 is not UTF-8, expected text in UTF-8"),
        (b"a: &x 1", "line 1 column 4: found the anchor &x, expected a value without one"),
        (b"a: &x [1]", "line 1 column 4: found the anchor &x, expected a value without one"),
        (b"a: *x", "line 1 column 4: found the alias *x, expected the value itself"),
        (b"a: !!python/name:os.system x", "line 1 column 4: found the tag 'tag:yaml.org,2002:python/name:os.system'"),
        (b"a: 1\na: 2", "line 2 column 1: found the key 'a' again, expected it once"),
        (b"{a: 1, a: 2}", "line 1 column 8: found the key 'a' again, expected it once"),
        (b"? [a]\n: b", "line 1 column 3: found a collection as a key, expected a string"),
        (b"a: 1\n---\nb: 2", "line 2 column 1: found a second document, expected one"),
        (b"a: [1", "line 2 column 1: did not find expected ',' or ']'"),
        (b"a: \x01", "control characters are not allowed"),
        (b"[" * 300 + b"]" * 300, "line 1 column 257: nested too deep; expected at most 256 levels"),
        (b"- " * 300 + b"a", "line 1 column 513: nested too deep; expected at most 256 levels"),
    ],
)
def test_yaml_that_is_wrong_or_could_be_large_is_refused(document: bytes, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        loads(document)
    assert str(caught.value).startswith(message)


def test_a_yaml_bomb_does_nothing() -> None:
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    with pytest.raises(DecodeError):
        loads(bomb.encode())
