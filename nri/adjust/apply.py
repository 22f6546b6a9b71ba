"""Applies an ``adjust`` to an OCI runtime configuration.

Where the runtime specification leaves it open, this does what runtimes do with NRI's adjustments
(pkg/runtime-tools/generate of containerd/nri): a device gets a rule that allows it, mounts are ordered by the depth
of their destinations, a shared or slave mount changes the propagation of the root, a memory limit is also that of
memory and swap together. Unlike there, a container without a limit of swap gets none, since not every kernel has it,
and an rlimit replaces the one of its type.
"""

from __future__ import annotations

import os

from nri.adjust.fields import entries, walk
from nri.adjust.merging import ADDED, BY_ENTRIES, MAP, VALUE
from nri.types.jsonobject import below, elements, joined, mismatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from nri.adjust.fields import AdjustField


_IN_PROCESS = ("env", "args", "rlimits", "scheduler", "linux.oomScoreAdj", "linux.ioPriority")
"""The fields that an OCI configuration has in ``process``."""


def apply(config: dict[str, Any], adjust: dict[str, Any]) -> None:
    """Change *config* in place.

    :param config: an OCI configuration; the caller copies it if it is needed unchanged.
    :param adjust: as ``nri.adjust.document.read_adjust`` returns it.
    :raises DecodeError: a part of *config* has a type that the specification does not allow.
    """
    for field, value in walk(adjust):
        if field.kind != VALUE and not value:
            continue
        asked: Any = value
        if field.kind in BY_ENTRIES:
            asked = Wanted(entries(field, value))
        own_way = _OWN_WAYS.get(field.name)
        if own_way is not None:
            own_way(config, asked)
        else:
            _apply_field(config, field, asked)


class Wanted:
    """The changes that one field asks for, entry by entry.

    :ivar mentioned: the names of the entries that are set or removed.
    :ivar new: those that are set, by their names.
    """

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.mentioned = [name for name, _ in pairs]
        self.new = {name: item for name, item in pairs if item is not None}


def apply_resources(resources: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Change ``linux.resources`` in place."""
    apply({"linux": {"resources": resources}}, {"linux": {"resources": wanted}})


def _apply_field(config: dict[str, Any], field: AdjustField, value: Any) -> None:
    """Apply a field as its kind says."""
    path = field.path
    if field.name in _IN_PROCESS:
        path = ("process", path[-1])
    parent = config
    where = ""
    for key in path[:-1]:
        parent = below(parent, key, where)
        where = joined(where, key)
    name = path[-1]
    if field.kind == MAP:
        _change_entries(below(parent, name, where), value)
    elif field.kind in BY_ENTRIES:
        parent[name] = _by_key(elements(parent, name, where), value, field.key)
    elif field.kind == ADDED:
        parent[name] = [*elements(parent, name, where), *value]
    else:
        parent[name] = value


def _apply_environment(config: dict[str, Any], wanted: Wanted) -> None:
    """Apply variables; one that is set again keeps its place."""
    process = below(config, "process")
    mentioned = set(wanted.mentioned)
    left = dict(wanted.new)
    environment = []
    for variable in elements(process, "env", "process"):
        name = str(variable).partition("=")[0]
        if name in left:
            environment.append(f"{name}={left.pop(name)}")
        elif name not in mentioned:
            environment.append(variable)
    for name, value in left.items():
        environment.append(f"{name}={value}")
    process["env"] = environment


def _apply_args(config: dict[str, Any], wanted: list[str]) -> None:
    args = [*wanted]
    if args[0] == "":  # it replaces those of an earlier plugin
        del args[0]
    if args:
        below(config, "process")["args"] = args


def _apply_memory_limit(config: dict[str, Any], limit: int) -> None:
    """Apply a limit, which is also that of memory and swap together; a later one of its own replaces that."""
    resources = below(below(config, "linux"), "resources", "linux")
    memory = below(resources, "memory", "linux.resources")
    memory["limit"] = limit
    if limit and memory.get("swap"):
        memory["swap"] = limit


def _remove_rdt(config: dict[str, Any], _is_removed: bool) -> None:
    below(config, "linux").pop("intelRdt", None)


def _leave(config: dict[str, Any], value: Any) -> None:
    """Do nothing: an OCI configuration does not have the field."""


def _apply_devices(config: dict[str, Any], wanted: Wanted) -> None:
    """Apply devices, and the rules by which the container may use them, before those that are asked for."""
    linux = below(config, "linux")
    linux["devices"] = _by_key(elements(linux, "devices", "linux"), wanted, "path")
    rules = []
    for device in wanted.new.values():
        if device["type"] != "p":
            rules.append(_rule(device))
    if rules:
        resources = below(linux, "resources", "linux")
        resources["devices"] = [*elements(resources, "devices", "linux.resources"), *rules]


def _apply_mounts(config: dict[str, Any], wanted: Wanted) -> None:
    changed = set(map(clean, wanted.mentioned))
    mounts = []
    for mount in elements(config, "mounts"):
        if clean(_destination(mount)) not in changed:
            mounts.append(mount)
    for destination, mount in wanted.new.items():
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


def _change_entries(there: dict[str, Any], wanted: Wanted) -> None:
    for name in wanted.mentioned:
        there.pop(name, None)
    there.update(wanted.new)


def _by_key(existing: list[Any], wanted: Wanted, key: str) -> list[Any]:
    """Return the elements of a list, and those that are wanted, which replace or remove the ones with their keys."""
    kept = []
    for item in existing:
        is_mentioned = isinstance(item, dict) and item.get(key) in wanted.mentioned
        if not is_mentioned:
            kept.append(item)
    for item in wanted.new.values():
        new = {**item}
        new.pop("remove", None)
        kept.append(new)
    return kept


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
    if path.startswith("/"):
        path = f"/{path.lstrip('/')}"
    return os.path.normpath(path)


_OWN_WAYS: dict[str, Callable[[dict[str, Any], Any], None]] = {
    "env": _apply_environment,
    "args": _apply_args,
    "mounts": _apply_mounts,
    "cdiDevices": _leave,
    "linux.devices": _apply_devices,
    "linux.intelRdt.remove": _remove_rdt,
    "linux.resources.memory.limit": _apply_memory_limit,
}
"""The fields that are not applied as their kind says."""
