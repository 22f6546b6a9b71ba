"""Applies an ``adjust`` to an OCI runtime configuration.

Where the runtime specification leaves it open, this does what runtimes do with NRI's adjustments
(pkg/runtime-tools/generate of containerd/nri): a device gets a rule that allows it, mounts are ordered by the depth
of their destinations, a shared or slave mount changes the propagation of the root, a memory limit is also that of
memory and swap together. Unlike there, a container without a limit of swap gets none, since not every kernel has it,
and an rlimit replaces the one of its type.
"""

from __future__ import annotations

import os

from nri.adjust.fields import is_removal, walk
from nri.adjust.merging import BY_ENTRIES, MAP
from nri.types.jsonobject import mismatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def apply(config: dict[str, Any], adjust: dict[str, Any]) -> None:
    """Change *config* in place.

    :param config: an OCI configuration; the caller copies it if it is needed unchanged.
    :param adjust: as ``nri.adjust.document.read_adjust`` returns it.
    :raises DecodeError: a part of *config* has a type that the specification does not allow.
    """
    linux = adjust.get("linux", {})
    if "annotations" in adjust:
        _entries(config, "annotations", adjust["annotations"])
    if adjust.get("env"):
        process = below(config, "process")
        process["env"] = _environment(elements(process, "env", "process"), adjust["env"])
    args = adjust.get("args", [])
    if args[:1] == [""]:  # it replaces those of an earlier plugin
        args = args[1:]
    if args:
        below(config, "process")["args"] = list(args)
    for kind, hooks in adjust.get("hooks", {}).items():
        parent = below(config, "hooks")
        parent[kind] = [*elements(parent, kind, "hooks"), *hooks]
    if "rlimits" in adjust:
        _by_key(below(config, "process"), "rlimits", adjust["rlimits"], "type", "process")
    for key in ("oomScoreAdj", "ioPriority"):
        if key in linux:
            below(config, "process")[key] = linux[key]
    if "scheduler" in adjust:
        below(config, "process")["scheduler"] = adjust["scheduler"]
    if linux:
        _apply_linux(below(config, "linux"), linux)
    if "mounts" in adjust:
        _apply_mounts(config, adjust["mounts"])


def apply_resources(resources: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Change ``linux.resources`` in place."""
    for field, value in walk({"linux": {"resources": wanted}}):
        path = field.path[2:]
        parent = resources
        for key in path[:-1]:
            parent = below(parent, key, "linux.resources")
        if field.kind == MAP:
            _entries(parent, path[-1], value, "linux.resources")
        elif field.kind in BY_ENTRIES:
            _by_key(parent, path[-1], value, field.key, "linux.resources")
        elif field.name == "linux.resources.devices":
            parent["devices"] = [*elements(parent, "devices", "linux.resources"), *value]
        else:
            parent[path[-1]] = value
    memory = wanted.get("memory", {})
    if memory.get("limit") and "swap" not in memory and resources["memory"].get("swap"):
        resources["memory"]["swap"] = memory["limit"]


def _apply_linux(config: dict[str, Any], linux: dict[str, Any]) -> None:
    if "devices" in linux:
        _apply_devices(config, linux["devices"])
    if "resources" in linux:  # after the devices: its rules can restrict theirs
        apply_resources(below(config, "resources", "linux"), linux["resources"])
    if "namespaces" in linux:
        _by_key(config, "namespaces", linux["namespaces"], "type", "linux")
    for key in ("sysctl", "netDevices"):
        if key in linux:
            _entries(config, key, linux[key], "linux")
    for key in ("cgroupsPath", "seccomp", "memoryPolicy"):
        if key in linux:
            config[key] = linux[key]
    if "intelRdt" in linux:
        _apply_rdt(config, linux["intelRdt"])


def _apply_devices(config: dict[str, Any], devices: list[dict[str, Any]]) -> None:
    """Apply devices, and the rules by which the container may use them."""
    _by_key(config, "devices", devices, "path", "linux")
    rules = []
    for device in devices:
        if not is_removal(device) and device["type"] != "p":
            rules.append(_rule(device))
    if rules:
        resources = below(config, "resources", "linux")
        resources["devices"] = [*elements(resources, "devices", "linux.resources"), *rules]


def _apply_rdt(config: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Apply RDT; nothing is left of it if all of it is removed."""
    rdt = {**wanted}
    if not rdt.pop("remove", False):
        rdt = below(config, "intelRdt", "linux") | rdt
    if rdt:
        config["intelRdt"] = rdt
    else:
        config.pop("intelRdt", None)


def _apply_mounts(config: dict[str, Any], wanted: dict[str, Any]) -> None:
    changed = {clean(key.removeprefix("-")) for key in wanted}
    mounts = []
    for mount in elements(config, "mounts"):
        if clean(_destination(mount)) not in changed:
            mounts.append(mount)
    for destination, mount in wanted.items():
        if mount is not None:
            mounts.append({"destination": destination, **mount})
            _propagate(config, mount.get("options", []))
    config["mounts"] = sorted(mounts, key=_depth)


def _depth(mount: dict[str, Any]) -> int:
    return clean(_destination(mount)).rstrip("/").count("/")


def _propagate(config: dict[str, Any], options: list[str]) -> None:
    """Change the propagation of the root as the options of a mount in it demand."""
    if "rshared" in options:
        below(config, "linux")["rootfsPropagation"] = "rshared"
    elif "rslave" in options:
        linux = below(config, "linux")
        if linux.get("rootfsPropagation") != "rshared":
            linux["rootfsPropagation"] = "rslave"


def _environment(variables: list[Any], wanted: dict[str, str | None]) -> list[Any]:
    """Return ``process.env``: a variable that is set again keeps its place."""
    left: dict[str, str] = {}
    mentioned = set()
    for key, value in wanted.items():
        if value is None:
            mentioned.add(key.removeprefix("-"))
        else:
            mentioned.add(key)
            left[key] = value
    environment = []
    for variable in variables:
        name = str(variable).partition("=")[0]
        if name not in mentioned:
            environment.append(variable)
        elif name in left:
            environment.append(f"{name}={left.pop(name)}")
    for name, value in left.items():
        environment.append(f"{name}={value}")
    return environment


def _entries(parent: dict[str, Any], key: str, wanted: dict[str, Any], where: str = "") -> None:
    entries = below(parent, key, where)
    for name, item in wanted.items():
        if item is None:
            entries.pop(name.removeprefix("-"), None)
    for name, item in wanted.items():
        if item is not None:
            entries[name] = item


def _by_key(
    parent: dict[str, Any], name: str, wanted: list[Any], key: str, where: str = ""
) -> None:
    """Have the elements of an array replaced or removed by those with their key."""
    mentioned = [item[key] for item in wanted]  # no set: a key of the configuration may be an array
    kept = []
    for item in elements(parent, name, where):
        is_mentioned = isinstance(item, dict) and item.get(key) in mentioned
        if not is_mentioned:
            kept.append(item)
    for item in wanted:
        if not is_removal(item):
            new = {**item}
            new.pop("remove", None)
            kept.append(new)
    parent[name] = kept


def _rule(device: dict[str, Any]) -> dict[str, Any]:
    type_ = "c" if device["type"] == "u" else device["type"]
    return {
        "allow": True,
        "type": type_,
        "major": device["major"],
        "minor": device["minor"],
        "access": "rwm" if type_ == "b" else "rw",
    }


def _destination(mount: object) -> str:
    if not isinstance(mount, dict):
        raise mismatch(mount, "mounts: an element", "an object")
    return str(mount.get("destination", ""))


def clean(path: str) -> str:
    """Return a path without empty parts, ``.`` and ``..``, as Go's ``filepath.Clean``."""
    return os.path.normpath(f"/{path.lstrip('/')}" if path.startswith("/") else path)


def below(parent: dict[str, Any], key: str, where: str = "") -> dict[str, Any]:
    """Return the object at *key*, which is made if it is missing or null.

    :param where: the path of *parent*, for errors.
    :raises DecodeError: it is not an object.
    """
    value = parent.get(key)
    if value is None:
        value = parent[key] = {}
    if not isinstance(value, dict):
        raise mismatch(value, f"{where}.{key}" if where else key, "an object")
    return value


def elements(parent: dict[str, Any], key: str, where: str = "") -> list[Any]:
    """Return the array at *key*, empty if it is missing or null.

    :raises DecodeError: it is not an array.
    """
    value = parent.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise mismatch(value, f"{where}.{key}" if where else key, "an array")
    return value
