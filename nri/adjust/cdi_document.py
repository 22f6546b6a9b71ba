"""The rules of a CDI specification: the keys that it may have, and the version that each of them needs.

The source is version 1.1.0 of the Container Device Interface (SPEC.md, specs-go and pkg/cdi of cncf-tags/
container-device-interface). Unlike there, paths in the container are absolute, a bind mount's source is, too, and
a hook's timeout is at least 1, as SPEC.md has it.
"""

from __future__ import annotations

from nri.adjust.reading import faults_of_mount, without_nulls
from nri.types import DecodeError
from nri.types.gojson import describe
from nri.types.oci_values import HOOKS, INT64, PATH, PLAIN, UINT32, WORD
from nri.types.table import FLAG, Key, Map, Rule, Table, array, number, text, words
from nri.types.table_explained import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
"""The versions that are known, from old to new."""


def _string(accepts: Callable[[str], bool], expected: str) -> Rule:
    return Rule(str, lambda value: isinstance(value, str) and "\0" not in value and accepts(value), expected, {})


def _is_name(value: str, others: str = "_-.") -> bool:
    return (
        value.isascii()
        and value[:1].isalnum()
        and value[-1:].isalnum()
        and all(sign.isalnum() or sign in others for sign in value)
    )


def _is_kind(value: str) -> bool:
    vendor, _, class_ = value.partition("/")
    return all(_is_name(part) and part[0].isalpha() for part in (vendor, class_))


def _is_variable(value: str) -> bool:
    return value.find("=") > 0 and not value.startswith("-")


def _is_closid(value: str) -> bool:
    return value == "/" or (len(value) < 4096 and value not in (".", "..") and not set(value) & set("/\n"))


_VARIABLE = _string(_is_variable, "NAME=VALUE")
_INTERFACE = _string(lambda value: 0 < len(value) <= 256 and value[0] != "-", "the name of an interface")

_NODE = Table(
    Key("path", PATH, required=True),
    Key("hostPath", PLAIN),
    Key("type", words("", "b", "c", "u", "p")),
    Key("major", INT64),
    Key("minor", INT64),
    Key("fileMode", UINT32),
    Key(
        "permissions",
        _string(lambda value: value == "none" or not set(value) - set("rwm"), "letters out of r, w and m; or none"),
    ),
    Key("uid", UINT32),
    Key("gid", UINT32),
    nulls=True,
)
_MOUNT = Table(
    Key("hostPath", text(1, expected="a path"), required=True),
    Key("containerPath", PATH, required=True),
    Key("type", PLAIN),
    Key("options", array(PLAIN)),
    nulls=True,
)
_HOOK = Table(
    Key("hookName", words(*HOOKS), required=True),
    Key("path", PATH, required=True),
    Key("args", array(PLAIN)),
    Key("env", array(_VARIABLE)),
    Key("timeout", number(1, 2**31 - 1, whole=True, expected="an integer of seconds, at least 1")),
    nulls=True,
)
_RDT = Table(
    Key("closID", _string(_is_closid, "the name of a class of service")),
    Key("l3CacheSchema", PLAIN),
    Key("memBwSchema", PLAIN),
    Key("schemata", array(PLAIN)),
    Key("enableMonitoring", FLAG),
    nulls=True,
)
_EDITS = Table(
    Key("env", array(_VARIABLE)),
    Key("deviceNodes", array(_NODE)),
    Key(
        "netDevices",
        array(Table(Key("hostInterfaceName", _INTERFACE, required=True), Key("name", WORD, required=True))),
    ),
    Key("hooks", array(_HOOK)),
    Key("mounts", array(_MOUNT)),
    Key("intelRdt", _RDT),
    Key("additionalGids", array(UINT32)),
    nulls=True,
)
_ANNOTATIONS = Map(PLAIN, text())
_DEVICE = Table(
    Key(
        "name",
        _string(lambda value: _is_name(value, "_-.:"), "a name of letters, digits and _-.: between them"),
        required=True,
    ),
    Key("annotations", _ANNOTATIONS),
    Key("containerEdits", _EDITS, required=True),
    nulls=True,
)
SPECIFICATION = Table(
    Key(
        "cdiVersion",
        _string(lambda value: value.removeprefix("v") in VERSIONS, f"one of {', '.join(VERSIONS)}"),
        required=True,
    ),
    Key("kind", _string(_is_kind, "VENDOR/CLASS, both of letters, digits and _-. between them"), required=True),
    Key("annotations", _ANNOTATIONS),
    Key("devices", array(_DEVICE, 1, expected="an array of at least one device"), required=True),
    Key("containerEdits", _EDITS),
    nulls=True,
)
"""A whole file."""


def read_specification(value: object) -> dict[str, Any]:
    """Return a specification that keeps the rules, without its nulls.

    :raises DecodeError: its first fault, with its place.
    """
    if not SPECIFICATION.accepts(value):
        raise refusal(SPECIFICATION, value, "the specification")
    found: dict[str, Any] = without_nulls(SPECIFICATION, value)
    for fault in _deeper_faults(found):
        raise DecodeError(fault)
    return found


def _deeper_faults(found: dict[str, Any]) -> Iterator[str]:
    needed, what = max([("0.3.0", ""), *_needs(found)], key=lambda need: VERSIONS.index(need[0]))
    if what and VERSIONS.index(found["cdiVersion"].removeprefix("v")) < VERSIONS.index(needed):
        yield f"cdiVersion: found {describe(found['cdiVersion'])}, expected {needed} or newer, which {what} needs"
    yield from _faults_of_edits(found.get("containerEdits", {}), "containerEdits")
    names = set()
    for index, device in enumerate(found["devices"]):
        where = f"devices[{index}]"
        if device["name"] in names:
            yield f"{where}.name: found {describe(device['name'])} again, expected it once"
        names.add(device["name"])
        if not any(edit or key == "intelRdt" for key, edit in device["containerEdits"].items()):
            yield f"{where}.containerEdits: found no edits, expected at least one"
        yield from _faults_of_edits(device["containerEdits"], f"{where}.containerEdits")


def _faults_of_edits(edits: dict[str, Any], where: str) -> Iterator[str]:
    for index, mount in enumerate(edits.get("mounts", [])):
        for path, wrong in faults_of_mount(mount | {"source": mount["hostPath"]}, f"{where}.mounts[{index}]"):
            yield f"{path.removesuffix('source')}hostPath: {wrong}"
    for key in ("hostInterfaceName", "name"):
        names = [device[key] for device in edits.get("netDevices", [])]
        for index, name in enumerate(names):
            if name in names[:index]:
                yield f"{where}.netDevices[{index}].{key}: found {describe(name)} again, expected it once"


def _needs(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the versions that a specification needs, each with the reason."""
    if "." in found["kind"].partition("/")[2]:
        yield "0.6.0", "a dot in the class of its kind"
    if found.get("annotations") or any(device.get("annotations") for device in found["devices"]):
        yield "0.6.0", "annotations"
    if any(device["name"][0].isdigit() for device in found["devices"]):
        yield "0.5.0", "a device's name that begins with a digit"
    for edits in [found.get("containerEdits", {}), *[device["containerEdits"] for device in found["devices"]]]:
        rdt = edits.get("intelRdt", {})
        if "schemata" in rdt or rdt.get("enableMonitoring"):
            yield "1.1.0", "intelRdt with schemata or enableMonitoring"
        if edits.get("netDevices"):
            yield "1.1.0", "netDevices"
        if "intelRdt" in edits:
            yield "0.7.0", "intelRdt"
        if edits.get("additionalGids"):
            yield "0.7.0", "additionalGids"
        if any(node.get("hostPath") for node in edits.get("deviceNodes", [])):
            yield "0.5.0", "hostPath of a device node"
        if any(mount.get("type") for mount in edits.get("mounts", [])):
            yield "0.4.0", "type of a mount"
