"""The table of the fields that plugins can set, and the walk over a message by it.

A message is walked by its descriptors. A field that is not in the table, as of a newer NRI, is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from google.protobuf.message import Message

from nri import api

VALUE, MAP, LIST, ADDED = "value", "map", "list", "added"
"""The kinds of fields: set as a whole; merged by keys; merged by a field of the elements; appended."""


class MergeRule(NamedTuple):
    """The rule for merging one field."""

    owner: int
    """Number of the field in an owner's record; 0 for a field without owners."""
    kind: str = VALUE
    key: str = ""
    """Name of the field that identifies a list's elements."""
    removable: bool = False
    """True where a key with a minus in front of it removes an entry."""


F = api.Field
_RESOURCES = {
    "memory.limit": MergeRule(F.MemLimit),
    "memory.reservation": MergeRule(F.MemReservation),
    "memory.swap": MergeRule(F.MemSwapLimit),
    "memory.kernel": MergeRule(F.MemKernelLimit),
    "memory.kernel_tcp": MergeRule(F.MemTCPLimit),
    "memory.swappiness": MergeRule(F.MemSwappiness),
    "memory.disable_oom_killer": MergeRule(F.MemDisableOomKiller),
    "memory.use_hierarchy": MergeRule(F.MemUseHierarchy),
    "cpu.shares": MergeRule(F.CPUShares),
    "cpu.quota": MergeRule(F.CPUQuota),
    "cpu.period": MergeRule(F.CPUPeriod),
    "cpu.realtime_runtime": MergeRule(F.CPURealtimeRuntime),
    "cpu.realtime_period": MergeRule(F.CPURealtimePeriod),
    "cpu.cpus": MergeRule(F.CPUSetCPUs),
    "cpu.mems": MergeRule(F.CPUSetMems),
    "pids": MergeRule(F.PidsLimit),
    "hugepage_limits": MergeRule(F.HugepageLimits, LIST, "page_size"),
    "blockio_class": MergeRule(F.BlockioClass),
    "rdt_class": MergeRule(F.RdtClass),
    "unified": MergeRule(F.CgroupsUnified, MAP),
    "devices": MergeRule(0, ADDED),
}
_HOOKS = ("prestart", "create_runtime", "create_container", "start_container", "poststart", "poststop")

FIELDS: dict[str, MergeRule] = {
    "annotations": MergeRule(F.Annotations, MAP, removable=True),
    "mounts": MergeRule(F.Mounts, LIST, "destination", removable=True),
    "env": MergeRule(F.Env, LIST, "key", removable=True),
    "args": MergeRule(F.Args),
    "rlimits": MergeRule(F.Rlimits, LIST, "type"),
    "CDI_devices": MergeRule(F.CdiDevices, LIST, "name"),
    **{f"hooks.{kind}": MergeRule(F.OciHooks, ADDED) for kind in _HOOKS},
    "linux.devices": MergeRule(F.Devices, LIST, "path", removable=True),
    **{f"linux.resources.{name}": rule for name, rule in _RESOURCES.items()},
    "linux.cgroups_path": MergeRule(F.CgroupsPath),
    "linux.oom_score_adj": MergeRule(F.OomScoreAdj),
    "linux.io_priority": MergeRule(F.IoPriority),
    "linux.seccomp_policy": MergeRule(F.SeccompPolicy),
    "linux.namespaces": MergeRule(F.Namespace, LIST, "type", removable=True),
    "linux.sysctl": MergeRule(F.Sysctl, MAP, removable=True),
    "linux.net_devices": MergeRule(F.LinuxNetDevices, MAP, removable=True),
    "linux.scheduler": MergeRule(F.LinuxSched),
    "linux.rdt.clos_id": MergeRule(F.RdtClosID),
    "linux.rdt.schemata": MergeRule(F.RdtSchemata),
    "linux.rdt.enable_monitoring": MergeRule(F.RdtEnableMonitoring),
    "linux.memory_policy": MergeRule(F.MemoryPolicy),
}
"""The fields of an adjustment by path; an update has those below ``linux.resources``."""


def walk(message: Message, prefix: str = "") -> Iterator[tuple[str, MergeRule, tuple[str, ...], Any]]:
    """Yield every set field of the table: its path, its rule, the path as a tuple, its value."""
    for descriptor, value in message.ListFields():
        path = prefix + descriptor.name
        if (rule := FIELDS.get(path)) is not None:
            yield path, rule, tuple(path.split(".")), value
        elif descriptor.message_type is not None and not descriptor.is_repeated:
            yield from walk(value, f"{path}.")


def changed_fields(message: Message) -> list[str]:
    """Return the paths, with keys, that an adjustment or update changes; for display."""
    names = []
    for path, rule, _, value in walk(message):
        keys = by_key(value, rule) if rule.kind in (MAP, LIST) else [""]
        names += [f"{path} {key}".rstrip() for key in keys]
    return names


def by_key(value: Any, rule: MergeRule) -> dict[str, Any]:
    """Return the entries of a map or keyed list by key."""
    return dict(sorted(value.items())) if rule.kind == MAP else {getattr(item, rule.key): item for item in value}


def split_keys(keys: Iterable[str], rule: MergeRule) -> tuple[list[str], list[str]]:
    """Return the keys that are set, and those that are removed."""
    removed = [key[1:] for key in keys if rule.removable and key.startswith("-")]
    return [key for key in keys if not (rule.removable and key.startswith("-"))], removed
