"""The table of the fields that plugins can set, in the order in which NRI merges them, and ways to walk over it.

A field that is not in the table, as of a newer NRI, is ignored.

Source: ``adjust`` and ``adjustResources`` in pkg/adaptation/result.go of containerd/nri.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any, NamedTuple

from google.protobuf.message import Message

from nri.adjust.merging import ADDED, BY_ENTRIES, CLAIMED, COMMAND, LIST, MAP, REMOVAL, VALUE
from nri.v2 import api
from nri.v2.api.oci import MARK


class MergeRule(NamedTuple):
    """The rule for merging one field."""

    owner: int
    """Number of the field in an owner's record; 0 for a field without owners."""
    kind: str = VALUE
    """How it is merged, as ``nri.adjust.merging`` has it."""
    key: str = ""
    """Name of the field that identifies a list's elements."""
    removable: bool = False
    """True where a key with a minus in front of it removes an entry."""


F = api.Field
RESOURCES = {
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
    "hugepage_limits": MergeRule(F.HugepageLimits, LIST, "page_size"),
    "devices": MergeRule(0, ADDED),
    "unified": MergeRule(F.CgroupsUnified, MAP),
    "blockio_class": MergeRule(F.BlockioClass),
    "rdt_class": MergeRule(F.RdtClass),
    "pids": MergeRule(F.PidsLimit),
}
"""The fields of a LinuxResources message by path."""

_HOOKS = (
    "prestart",
    "poststart",
    "poststop",
    "create_runtime",
    "create_container",
    "start_container",
)

FIELDS: dict[str, MergeRule] = {
    "annotations": MergeRule(F.Annotations, MAP, removable=True),
    "mounts": MergeRule(F.Mounts, LIST, "destination", removable=True),
    "env": MergeRule(F.Env, LIST, "key", removable=True),
    "args": MergeRule(F.Args, COMMAND),
    **{f"hooks.{kind}": MergeRule(F.OciHooks, ADDED) for kind in _HOOKS},
    "linux.devices": MergeRule(F.Devices, LIST, "path", removable=True),
    **{f"linux.resources.{name}": rule for name, rule in RESOURCES.items()},
    "linux.cgroups_path": MergeRule(F.CgroupsPath),
    "linux.oom_score_adj": MergeRule(F.OomScoreAdj),
    "linux.io_priority": MergeRule(F.IoPriority),
    "linux.seccomp_policy": MergeRule(F.SeccompPolicy),
    "linux.namespaces": MergeRule(F.Namespace, CLAIMED, "type", removable=True),
    "linux.sysctl": MergeRule(F.Sysctl, MAP, removable=True),
    "linux.net_devices": MergeRule(F.LinuxNetDevices, MAP, removable=True),
    "linux.scheduler": MergeRule(F.LinuxSched),
    "linux.rdt.remove": MergeRule(0, REMOVAL),
    "linux.rdt.clos_id": MergeRule(F.RdtClosID),
    "linux.rdt.schemata": MergeRule(F.RdtSchemata),
    "linux.rdt.enable_monitoring": MergeRule(F.RdtEnableMonitoring),
    "linux.memory_policy": MergeRule(F.MemoryPolicy),
    "rlimits": MergeRule(F.Rlimits, LIST, "type"),
    "CDI_devices": MergeRule(F.CdiDevices, LIST, "name"),
}
"""The fields of an adjustment by path; an update has those below ``linux.resources``, without ``devices``."""


def set_fields(
    message: Message, table: dict[str, MergeRule]
) -> Iterator[tuple[str, MergeRule, Any]]:
    """Yield path, rule and value of each field of the table that is set in a message, in the table's order."""
    for path, rule in table.items():
        if (value := get(message, path)) is not None:
            yield path, rule, value


def get(message: Any, path: str) -> Any:
    """Return the value of a field; None where it, or a message around it, is not set or empty."""
    around, name = _around(message, path)
    given = {field.name: value for field, value in around.ListFields()}
    return given.get(name)


def put(message: Any, path: str, value: Any) -> None:
    """Set a field that is set as a whole."""
    around, name = _around(message, path)
    around.ClearField(name)
    around.MergeFrom(type(around)(**{name: value}))


def put_key(target: MutableMapping[str, Any], key: str, value: Any) -> None:
    """Set an entry of a map of strings or messages."""
    if isinstance(value, Message):
        target[key].CopyFrom(value)
    else:
        target[key] = value


def reach(message: Any, path: str) -> Any:
    """Return the list or map at a path, also where it is empty."""
    around, name = _around(message, path)
    return getattr(around, name)


def _around(message: Any, path: str) -> tuple[Any, str]:
    """Return the message that has the field at a path, and the field's name. One that is not set is empty."""
    *parents, name = path.split(".")
    for parent in parents:
        message = getattr(message, parent)
    return message, name


def entries(rule: MergeRule, value: Any) -> Any:
    """Return the value of a field as ``nri.adjust.merging.Merge.add`` takes it."""
    if rule.kind not in BY_ENTRIES:
        return value
    if rule.kind == MAP:
        pairs = [(key, value[key]) for key in sorted(value)]  # Go's order is random
    else:
        pairs = [(getattr(item, rule.key), item) for item in value]
    named = []
    for key, item in pairs:
        if rule.removable and key.startswith(MARK):
            named.append((key.removeprefix(MARK), None))
        else:
            named.append((key, item))
    return named


def changed_fields(adjustment: api.ContainerAdjustment) -> list[str]:
    """Return the paths, with keys, that an adjustment changes; for display."""
    names = []
    for path, rule, value in set_fields(adjustment, FIELDS):
        if rule.kind in BY_ENTRIES:
            for key in dict(entries(rule._replace(removable=False), value)):
                names.append(f"{path} {key}")
        else:
            names.append(path)
    return names


def of_resources(resources: api.LinuxResources) -> api.ContainerAdjustment:
    """Return the adjustment that sets these resources."""
    return api.ContainerAdjustment(linux={"resources": resources})
