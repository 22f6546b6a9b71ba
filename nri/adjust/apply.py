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
    if words := args[1:] if args[:1] == [""] else args:
        below(config, "process")["args"] = list(words)
    for kind, hooks in adjust.get("hooks", {}).items():
        parent = below(config, "hooks")
        parent[kind] = [*elements(parent, kind, "hooks"), *hooks]
    if "rlimits" in adjust:
        process = below(config, "process")
        process["rlimits"] = _by_key(
            elements(process, "rlimits", "process"), adjust["rlimits"], "type"
        )
    for key, path in (("oomScoreAdj", "oomScoreAdj"), ("ioPriority", "ioPriority")):
        if key in linux:
            below(config, "process")[path] = linux[key]
    if "scheduler" in adjust:
        below(config, "process")["scheduler"] = adjust["scheduler"]
    if linux:
        _apply_linux(below(config, "linux"), linux)
    if "mounts" in adjust:
        _apply_mounts(config, adjust["mounts"])


def apply_resources(resources: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Change ``linux.resources`` in place."""
    limit = wanted.get("memory", {}).get("limit")
    for field, value in walk({"linux": {"resources": wanted}}):
        path = field.path[2:]
        parent = resources
        for key in path[:-1]:
            parent = below(parent, key, "linux.resources")
        if field.kind == MAP:
            _entries(parent, path[-1], value, "linux.resources")
        elif field.kind in BY_ENTRIES:
            parent[path[-1]] = _by_key(
                elements(parent, path[-1], "linux.resources"), value, field.key
            )
        elif field.name == "linux.resources.devices":
            parent["devices"] = [*elements(parent, "devices", "linux.resources"), *value]
        else:
            parent[path[-1]] = value
    memory = resources.get("memory")
    if limit and isinstance(memory, dict) and "swap" not in wanted["memory"] and memory.get("swap"):
        memory["swap"] = limit


def _apply_linux(config: dict[str, Any], linux: dict[str, Any]) -> None:
    if "devices" in linux:
        _apply_devices(config, linux["devices"])
    if "resources" in linux:  # after the devices: its rules can restrict theirs
        apply_resources(below(config, "resources", "linux"), linux["resources"])
    if "namespaces" in linux:
        config["namespaces"] = _by_key(
            elements(config, "namespaces", "linux"), linux["namespaces"], "type"
        )
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
    config["devices"] = _by_key(elements(config, "devices", "linux"), devices, "path")
    added = [device for device in devices if not is_removal(device)]
    rules = [_rule(device) for device in added if device["type"] != "p"]
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
    kept = [
        mount for mount in elements(config, "mounts") if clean(_destination(mount)) not in changed
    ]
    added = [{"destination": key, **mount} for key, mount in wanted.items() if mount is not None]
    config["mounts"] = sorted(
        [*kept, *added], key=lambda mount: clean(_destination(mount)).rstrip("/").count("/")
    )
    for mount in added:
        options = mount.get("options", [])
        if "rshared" in options:
            below(config, "linux")["rootfsPropagation"] = "rshared"
        elif "rslave" in options and below(config, "linux").get("rootfsPropagation") != "rshared":
            config["linux"]["rootfsPropagation"] = "rslave"


def _environment(variables: list[Any], wanted: dict[str, str | None]) -> list[Any]:
    """Return ``process.env``: a variable that is set again keeps its place."""
    left = {key: value for key, value in wanted.items() if value is not None}
    mentioned = {key.removeprefix("-") for key in wanted if wanted[key] is None} | {*left}
    environment = []
    for variable in variables:
        name = str(variable).partition("=")[0]
        if name not in mentioned:
            environment.append(variable)
        elif name in left:
            environment.append(f"{name}={left.pop(name)}")
    return environment + [f"{name}={value}" for name, value in left.items()]


def _entries(parent: dict[str, Any], key: str, wanted: dict[str, Any], where: str = "") -> None:
    entries = below(parent, key, where)
    for name, item in wanted.items():
        if item is None:
            entries.pop(name.removeprefix("-"), None)
    entries.update({name: item for name, item in wanted.items() if item is not None})


def _by_key(existing: list[Any], wanted: list[Any], key: str) -> list[Any]:
    """Return the elements of both lists; one of *wanted* replaces or removes that with its key."""
    mentioned = [item[key] for item in wanted]  # no set: a key of the configuration may be an array
    kept = []
    for item in existing:
        if not (isinstance(item, dict) and item.get(key) in mentioned):
            kept.append(item)

    added = [item for item in wanted if not is_removal(item)]
    return kept + [
        {name: value for name, value in item.items() if name != "remove"} for item in added
    ]


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
