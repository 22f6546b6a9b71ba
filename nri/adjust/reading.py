"""Reads ``adjust`` and ``updates`` of a result strictly: each fault is an error with its place.

:mod:`nri.adjust.document` has the rules of each value. The rules here are between values.
"""

from __future__ import annotations

from nri.adjust.apply import clean
from nri.adjust.document import ADJUST, UPDATES
from nri.types import DecodeError
from nri.types.gojson import describe, shorten
from nri.types.oci_values import PATH
from nri.types.table import Map, Rule, Table
from nri.types.table_explained import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def read_adjust(value: object) -> dict[str, Any]:
    """Return an ``adjust`` that keeps the rules, without its nulls that stand for a missing key.

    :param value: None for one that changes nothing.
    :raises DecodeError: its first faults, each with its place.
    """
    if value is None:
        return {}
    if not ADJUST.accepts(value):
        raise refusal(ADJUST, value, "adjust")
    adjust: dict[str, Any] = without_nulls(ADJUST, value)
    if adjust.get("args") == []:
        del adjust["args"]  # for NRI, too, it says nothing
    for path, wrong in _deeper_faults(adjust, "adjust"):
        raise DecodeError(f"{path}: {wrong}")
    return adjust


def read_updates(value: object) -> list[dict[str, Any]]:
    """Return ``updates`` that keep the rules, as :func:`read_adjust`."""
    if not UPDATES.accepts(value):
        raise refusal(UPDATES, value, "updates")
    updates: list[dict[str, Any]] = without_nulls(UPDATES, value)
    for index, update in enumerate(updates):
        for path, wrong in _of_resources(update["resources"], f"updates[{index}].resources"):
            raise DecodeError(f"{path}: {wrong}")
    return updates


def without_nulls(rule: Rule, value: Any) -> Any:
    """Return a copy of an accepted value without the keys of tables whose value is null."""
    if isinstance(rule, Table):
        keys = rule.keys
        return {name: without_nulls(keys[name].rule, item) for name, item in value.items() if item is not None}
    if isinstance(rule, Map):
        return {name: item if item is None else without_nulls(rule.item, item) for name, item in value.items()}
    if rule.parts:
        return (
            [without_nulls(rule.parts[0], item) for item in value]
            if isinstance(value, list)
            else without_nulls(rule.parts[0], value)
        )
    return value


def _deeper_faults(adjust: dict[str, Any], where: str) -> Iterator[tuple[str, str]]:
    """Yield the faults that are between keys, which a table does not see."""
    linux = adjust.get("linux", {})
    if adjust.get("args", [])[:2] == ["", ""]:
        yield f"{where}.args[1]", "found the string '' again, expected the command"
    for destination, mount in adjust.get("mounts", {}).items():
        yield from _of_path(destination.removeprefix("-"), f"{where}.mounts", "key")
        yield from faults_of_mount(mount, f"{where}.mounts.{shorten(repr(destination)[1:-1])}")
    yield from _repeated(adjust.get("rlimits", []), "type", f"{where}.rlimits")
    yield from _repeated(adjust.get("cdiDevices", []), "", f"{where}.cdiDevices")
    for index, device in enumerate(linux.get("devices", [])):
        yield from _of_path(device["path"], f"{where}.linux.devices[{index}].path")
        yield from _of_device(device, f"{where}.linux.devices[{index}]")
    yield from _repeated(linux.get("devices", []), "path", f"{where}.linux.devices")
    yield from _repeated(linux.get("namespaces", []), "type", f"{where}.linux.namespaces", removals=True)
    yield from _of_resources(linux.get("resources", {}), f"{where}.linux.resources")


def _of_path(path: str, where: str, kind: str = "string") -> Iterator[tuple[str, str]]:
    """Yield a fault if another spelling of *path* is usual: two plugins could set the same without a conflict."""
    if path != (right := clean(path)):
        yield where, f"found the {kind} {shorten(repr(path))}, expected {shorten(repr(right))}"


def faults_of_mount(mount: dict[str, Any] | None, where: str) -> Iterator[tuple[str, str]]:
    """Yield the fault between the keys of a mount, or of a removal."""
    if mount is None:
        return
    source, options = mount.get("source", ""), mount.get("options", [])
    is_bind = mount.get("type") == "bind" or "bind" in options or "rbind" in options
    if is_bind and not PATH.accepts(source):
        yield f"{where}.source", f"found {describe(source)}, expected {PATH.expected} for a bind mount"


def _of_device(device: dict[str, Any], where: str) -> Iterator[tuple[str, str]]:
    if device.get("remove"):
        return
    needed = ("type",) if device.get("type") == "p" else ("type", "major", "minor")
    for key in needed:
        if key not in device:
            yield f"{where}.{key}", "missing, expected it for a device that is not removed"


def _of_resources(resources: dict[str, Any], where: str) -> Iterator[tuple[str, str]]:
    yield from _repeated(resources.get("hugepageLimits", []), "pageSize", f"{where}.hugepageLimits")


def _repeated(items: list[Any], key: str, where: str, *, removals: bool = False) -> Iterator[tuple[str, str]]:
    """Yield each item that sets the same as an earlier one.

    :param removals: whether an item that removes counts, too; others may stand beside one that sets the same.
    """
    seen = set()
    for index, item in enumerate(items):
        if key and item.get("remove") and not removals:
            continue
        name = item[key] if key else item
        if name in seen:
            yield f"{where}[{index}]" + (f".{key}" if key else ""), f"found {describe(name)} again, expected it once"
        seen.add(name)
