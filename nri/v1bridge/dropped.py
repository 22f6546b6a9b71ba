"""The changes of a container that its runtime was answered, and has dropped.

A runtime drops what it cannot apply, and says nothing: containerd CDI devices where they are not enabled, for
example. So what plugins have adjusted is looked for in the container that is about to start.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from typing import TypeVar

from nri.adjust.fields import entries, walk
from nri.types.v1 import Result
from nri.v2 import api

_LOOKED_FOR = ("env", "mounts", "linux.devices")
"""The fields of ``adjust`` whose parts are looked for."""

Part = tuple[str, str]
"""A part of a container: the name of its field in ``adjust``, and its own name."""

Entry = TypeVar("Entry")
"""What stands for an entry of the configuration."""


def parts_of(container: api.Container) -> set[Part]:
    """Return the parts of a container that CDI devices and plugins can add to."""
    parts: set[Part] = set()
    for variable in container.env:
        parts.add(("env", variable.partition("=")[0]))
    for mount in container.mounts:
        parts.add(("mounts", posixpath.normpath(mount.destination)))
    for device in container.linux.devices:
        parts.add(("linux.devices", device.path))
    for stage, hooks in container.hooks.ListFields():
        for hook in hooks:
            parts.add((f"hooks.{stage.name}", hook.path))
    return parts


def dropped(
    results: Iterable[tuple[Entry, Result]], created: set[Part] | None, container: api.Container
) -> list[tuple[Entry, str]]:
    """Return what is missing of what plugins have adjusted, each part with its entry and as one line.

    :param results: those of ``setup``, in the order of the chain, each with its entry.
    :param created: the parts of the container as its creation was asked about; None if that is not known.
    :param container: as it is about to start.
    """
    if not container.env or not container.mounts:
        return []  # a container has both, so this runtime does not show it as it is
    there = parts_of(container)
    owners, devices = _owners(results)
    for device in container.CDI_devices:
        devices.pop(device.name, None)
    # A device adds a variable, a mount, a node or a hook.
    has_added_nothing = created is not None and not there - created - owners.keys()
    if has_added_nothing:
        for name, entry in devices.items():
            owners["cdiDevices", name] = entry
    missing = []
    for part, entry in owners.items():
        if part not in there:
            field, name = part
            missing.append((entry, f"adjust.{field} {name}: the runtime has not applied it"))
    return missing


def _owners(
    results: Iterable[tuple[Entry, Result]],
) -> tuple[dict[Part, Entry], dict[str, Entry]]:
    """Return the entry that has set each part last, and the one that has asked for each CDI device."""
    owners: dict[Part, Entry] = {}
    devices: dict[str, Entry] = {}
    for entry, result in results:
        for field, value in walk(result.adjust or {}):
            if field.name == "cdiDevices":
                devices |= dict.fromkeys(map(str, value), entry)
            if field.name not in _LOOKED_FOR:
                continue
            for name, item in entries(field, value):
                owners.pop((field.name, name), None)
                if item is not None:
                    owners[field.name, name] = entry
    return owners, devices
