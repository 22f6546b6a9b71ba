"""Applies merged adjustments and updates to a container, as a runtime does with the container's OCI configuration.

What NRI's generator leaves out is left out here, too: of an adjustment's memory it uses only the limit, which is the
limit of swap as well, and once any variable is set or removed, variables without a ``=`` are gone. Where it takes
the entries of a map in random order, removals come first here.

Source: pkg/runtime-tools/generate/generate.go of containerd/nri.
"""

from __future__ import annotations

import os
from typing import Any

from nri.adaptation.fields import FIELDS, RESOURCES, MergeRule, get, put, put_key, reach, set_fields
from nri.adjust.merging import ADDED, BY_ENTRIES, MAP
from nri.v2 import api
from nri.v2.api.removal import is_marked, unmarked

_RESOURCES = "linux.resources."
_NOT_SHOWN = ("CDI_devices", "linux.rdt.", "linux.memory_policy", _RESOURCES)
_PLAIN = {path: rule for path, rule in FIELDS.items() if not path.startswith(_NOT_SHOWN) and path != "env"}
_IGNORED = frozenset(path for path in RESOURCES if path.startswith("memory."))


def apply(container: api.Container, change: api.ContainerAdjustment | api.LinuxResources) -> None:
    """Apply an adjustment or the resources of an update to a container."""
    if isinstance(change, api.ContainerAdjustment):
        adjust(container, change)
    else:
        update(container, change)


def adjust(container: api.Container, adjustment: api.ContainerAdjustment) -> None:
    """Apply a merged adjustment to a container. The runtime resolves CDI devices, so they are not applied."""
    for path, rule, value in set_fields(adjustment, _PLAIN):
        if rule.kind == MAP:
            _put_entries(reach(container, path), value)
        elif path == "rlimits" or rule.kind == ADDED:
            reach(container, path).extend(value)
        elif rule.kind in BY_ENTRIES:
            _put_items(reach(container, path), rule, value)
        else:
            put(container, path, value)
    if adjustment.env:
        _put_env(container, adjustment.env)
    if adjustment.mounts:
        _sort_mounts(container)
    for device in adjustment.linux.devices:
        if not is_marked(device.path):
            container.linux.resources.devices.append(_rule(device))
    _adjust_resources(container.linux.resources, adjustment.linux.resources)
    _adjust_rdt(container, adjustment.linux.rdt)


def update(container: api.Container, resources: api.LinuxResources) -> None:
    """Apply the resources of an update to a container."""
    _put_resources(container.linux.resources, resources)


def _adjust_resources(target: api.LinuxResources, resources: api.LinuxResources) -> None:
    _put_resources(target, resources, _IGNORED)
    if limit := resources.memory.limit.value:
        target.memory.limit.value = target.memory.swap.value = limit


def _put_resources(
    target: api.LinuxResources, resources: api.LinuxResources, ignored: frozenset[str] = frozenset()
) -> None:
    for path, rule, value in set_fields(resources, RESOURCES):
        if path in ignored:
            continue
        if path == "devices":
            target.devices.extend(value)
        elif rule.kind == MAP:
            _put_entries(target.unified, value)
        elif rule.kind in BY_ENTRIES:
            _put_items(target.hugepage_limits, rule, value)
        else:
            put(target, path, value)


def _adjust_rdt(container: api.Container, rdt: api.LinuxRdt) -> None:
    if rdt.remove:
        container.linux.ClearField("rdt")
    for name in ("clos_id", "schemata", "enable_monitoring"):
        if (value := get(rdt, name)) is not None:
            put(container.linux.rdt, name, value)


def _put_entries(target: Any, entries: Any) -> None:
    for key in sorted(entries):  # removals, which begin with a minus, come first
        if is_marked(key):
            target.pop(unmarked(key), None)
    for key in sorted(entries):
        if not is_marked(key):
            put_key(target, key, entries[key])


def _put_items(target: Any, rule: MergeRule, items: Any) -> None:
    for item in items:
        key = getattr(item, rule.key)
        gone = unmarked(key) if rule.removable else key
        for index, present in reversed(list(enumerate(target))):
            if getattr(present, rule.key) == gone:
                del target[index]
        if gone == key:
            target.append(item)


def _put_env(container: api.Container, env: Any) -> None:
    changes = {unmarked(item.key): item for item in env}
    kept = []
    for text in container.env:
        name, equals, _ = text.partition("=")
        if not equals:
            continue
        if (item := changes.pop(name, None)) is None:
            kept.append(text)
        elif not is_marked(item.key):
            kept.append(f"{item.key}={item.value}")
    new = [item for item in env if item.key in changes and not is_marked(item.key)]
    container.env[:] = kept + [f"{item.key}={item.value}" for item in new]


def _sort_mounts(container: api.Container) -> None:
    """Sort the mounts so that none hides one below it."""
    mounts = sorted(container.mounts, key=lambda each: (_clean(each.destination).count("/"), each.destination))
    container.ClearField("mounts")
    container.mounts.extend(mounts)


def _clean(path: str) -> str:
    return os.path.normpath(path) if path else "."


def _rule(device: api.LinuxDevice) -> api.LinuxDeviceCgroup:
    """Return the rule that allows a container to use a device."""
    return api.LinuxDeviceCgroup(
        allow=True,
        type=device.type,
        major={"value": device.major},
        minor={"value": device.minor},
        access=f"rw{'m' if device.type == 'b' else ''}",
    )
