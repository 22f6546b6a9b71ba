"""The changes of a container that its runtime was answered, and has dropped.

A runtime drops what it cannot apply, and says nothing: containerd CDI devices where they are not enabled, for
example. So what plugins have adjusted is looked for in the container that is about to start.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from nri.types.v1 import Result
from nri.v2 import api

Part = tuple[str, str]
"""A part of a container: the name of its field in ``adjust``, and its own name."""


def parts_of(container: api.Container) -> set[Part]:
    """Return the parts of a container that CDI devices and plugins can add to."""
    parts = {("env", variable.partition("=")[0]) for variable in container.env}
    parts |= {("mounts", posixpath.normpath(mount.destination)) for mount in container.mounts}
    parts |= {("linux.devices", device.path) for device in container.linux.devices}
    for stage, hooks in container.hooks.ListFields():
        parts |= {(f"hooks.{stage.name}", hook.path) for hook in hooks}
    return parts


def dropped(
    results: Iterable[tuple[str, Result]], created: set[Part] | None, container: api.Container
) -> dict[str, str]:
    """Return what is missing of what plugins have adjusted, as one line, by the plugin's type.

    :param results: those of ``setup``, in the order of the chain, each with the plugin's type.
    :param created: the parts of the container as its creation was asked about; None if that is not known.
    :param container: as it is about to start.
    """
    if not container.env or not container.mounts:
        return {}  # a container has both, so this runtime does not show it as it is
    there = parts_of(container)
    owners, devices = _owners(results)
    missing = {part: type_ for part, type_ in owners.items() if part not in there}
    for device in container.CDI_devices:
        devices.pop(device.name, None)
    # A device adds a variable, a mount, a node or a hook.
    has_added_nothing = created is not None and not there - created - owners.keys()
    if has_added_nothing:
        missing |= {("cdiDevices", name): type_ for name, type_ in devices.items()}
    lines: dict[str, str] = {}
    for (field, name), type_ in missing.items():
        lines.setdefault(type_, f"adjust.{field} {name}: the runtime has not applied it")
    return lines


def _owners(results: Iterable[tuple[str, Result]]) -> tuple[dict[Part, str], dict[str, str]]:
    """Return the type of the plugin that has set each part last, and that has asked for each CDI device."""
    owners: dict[Part, str] = {}
    devices: dict[str, str] = {}
    for type_, result in results:
        adjust = result.adjust if isinstance(result.adjust, dict) else {}
        for part, is_set in _asked(adjust):
            owners.pop(part, None)
            if is_set:
                owners[part] = type_
        for name in adjust.get("cdiDevices") or ():
            devices[str(name)] = type_
    return owners, devices


def _asked(adjust: Mapping[str, Any]) -> Iterable[tuple[Part, bool]]:
    """Yield each part that a document sets or removes, and whether it sets it."""
    for field in ("env", "mounts"):
        for name, value in (adjust.get(field) or {}).items():
            yield (field, name.removeprefix("-") if value is None else name), value is not None
    linux = adjust.get("linux")
    for device in (linux.get("devices") if isinstance(linux, dict) else None) or ():
        yield ("linux.devices", device["path"]), not device.get("remove")
