"""The fields that plugins can set: how two plugins' values go together, and which hosts know them.

One table decides who owns what, what a runtime can do, and what the tables of the documentation say. Sources: the
merging of pkg/adaptation/result.go, and the fields that pkg/runtime-tools/generate applies, in each tag of
containerd/nri from 0.2 to 0.12; config.md and config-linux.md of the OCI runtime specification, and its ChangeLog.
"""

from __future__ import annotations

from nri.adjust.merging import ADDED, BY_ENTRIES, CLAIMED, COMMAND, LIST, MAP, REMOVAL, VALUE
from nri.types.oci_values import HOOKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

Version = tuple[int, ...]

NEWEST_OCI: Version = (1, 3)
"""The newest version of the OCI runtime specification that ``FIELDS`` knows."""

NEVER: Version = (999, 0)
"""As a version: none has it."""


class AdjustField:
    """A field of ``adjust``.

    :ivar path: its keys from the top.
    :ivar kind: how it is merged, as ``nri.adjust.merging`` has it.
    :ivar key: the key that identifies an element of a list; "" for elements that are strings.
    :ivar nri: the first NRI whose runtimes apply it when a container is created.
    :ivar oci: the first version of the OCI runtime specification that has it; None for a field that it never had.
    """

    __slots__ = ("key", "kind", "nri", "oci", "path")

    def __init__(
        self,
        path: str,
        kind: str = VALUE,
        key: str = "",
        *,
        nri: Version = (0, 2),
        oci: Version | None = (1, 0),
    ) -> None:
        self.path = tuple(path.split("."))
        self.kind = kind
        self.key = key
        self.nri = nri
        self.oci = oci

    @property
    def name(self) -> str:
        """The path with dots, as errors show it."""
        return ".".join(self.path)


def _below(
    parent: str, *names: str, nri: Version = (0, 2), oci: Version | None = (1, 0)
) -> list[AdjustField]:
    return [AdjustField(f"{parent}.{name}", nri=nri, oci=oci) for name in names]


_CPU = "linux.resources.cpu"
_MEMORY = "linux.resources.memory"
_RESOURCES = "linux.resources"

FIELDS = (
    AdjustField("annotations", MAP),
    AdjustField("env", MAP),
    AdjustField("mounts", MAP),
    AdjustField("args", COMMAND, nri=(0, 10)),
    *[AdjustField(f"hooks.{kind}", ADDED) for kind in HOOKS],
    AdjustField("rlimits", LIST, "type", nri=(0, 4)),
    AdjustField("cdiDevices", LIST, nri=(0, 7), oci=None),
    AdjustField("scheduler", nri=(0, 11), oci=(1, 1)),
    AdjustField("linux.devices", LIST, "path"),
    AdjustField("linux.cgroupsPath"),
    AdjustField("linux.oomScoreAdj", nri=(0, 7)),
    AdjustField("linux.sysctl", MAP, nri=(0, 11)),
    AdjustField("linux.namespaces", CLAIMED, "type", nri=(0, 10)),
    AdjustField("linux.seccomp", nri=(0, 10)),
    AdjustField("linux.ioPriority", nri=(0, 10), oci=(1, 1)),
    AdjustField("linux.intelRdt.remove", REMOVAL, nri=(0, 11)),
    *_below("linux.intelRdt", "closID", nri=(0, 11)),
    *_below("linux.intelRdt", "l3CacheSchema", "memBwSchema", nri=NEVER),
    *_below("linux.intelRdt", "schemata", "enableMonitoring", nri=(0, 11), oci=(1, 3)),
    AdjustField("linux.netDevices", MAP, nri=(0, 11), oci=(1, 3)),
    AdjustField("linux.memoryPolicy", nri=(0, 12), oci=(1, 3)),
    *_below(_CPU, "shares", "quota", "period", "realtimeRuntime", "realtimePeriod", "cpus", "mems"),
    *_below(_CPU, "burst", "idle", nri=NEVER, oci=(1, 1)),
    *_below(_MEMORY, "limit"),
    *_below(
        _MEMORY,
        "reservation",
        "swap",
        "kernel",
        "kernelTCP",
        "swappiness",
        "disableOOMKiller",
        nri=NEVER,
    ),
    *_below(_MEMORY, "useHierarchy", nri=NEVER),
    *_below(_MEMORY, "checkBeforeUpdate", nri=NEVER, oci=(1, 1)),
    *_below(f"{_RESOURCES}.pids", "limit", nri=(0, 7)),
    AdjustField(f"{_RESOURCES}.hugepageLimits", LIST, "pageSize"),
    AdjustField(f"{_RESOURCES}.unified", MAP),
    AdjustField(f"{_RESOURCES}.devices", ADDED, nri=(0, 10)),
    AdjustField(f"{_RESOURCES}.blockIO", nri=NEVER),
    AdjustField(f"{_RESOURCES}.network", nri=NEVER),
    AdjustField(f"{_RESOURCES}.rdma", nri=NEVER),
    *_below(_RESOURCES, "blockioClass", "rdtClass", oci=None),
)
"""All fields of ``adjust``; those below ``linux.resources`` are the fields of an update's ``resources``."""

_UPDATED = (
    "cpu.shares",
    "cpu.quota",
    "cpu.period",
    "cpu.cpus",
    "cpu.mems",
    "memory.limit",
    "unified",
)

UPDATED_BY_NRI = frozenset([f"{_RESOURCES}.{name}" for name in (*_UPDATED, "hugepageLimits")])
"""The fields that runtimes with NRI v2 apply to a container that exists.

Source: ``toCRIResources`` in internal/cri/nri of containerd, and of CRI-O's server, which have no other fields.
"""

UPDATED_BY_OCI = frozenset(
    [
        f"{_RESOURCES}.{name}"
        for name in (
            *_UPDATED,
            *("cpu.realtimeRuntime", "cpu.realtimePeriod", "cpu.burst", "cpu.idle", "pids.limit"),
            *("memory.reservation", "memory.swap", "memory.checkBeforeUpdate"),
        )
    ]
)
"""The fields that ``update --resources`` of OCI runtimes applies. Source: update.go of runc."""


def walk(adjust: dict[str, Any]) -> Iterator[tuple[AdjustField, Any]]:
    """Yield each field that *adjust*, or an update's ``{"linux": {"resources": …}}``, has, with its value."""
    for field in FIELDS:
        value: Any = adjust
        for key in field.path:
            if not isinstance(value, dict) or key not in value:
                break
            value = value[key]
        else:
            yield field, value


def put(document: dict[str, Any], field: AdjustField, value: Any) -> None:
    """Set a field of *document*; make the objects above it."""
    for key in field.path[:-1]:
        document = document.setdefault(key, {})
    document[field.path[-1]] = value


def entries(field: AdjustField, value: Any) -> Any:
    """Return the value of a field as ``nri.adjust.merging.Merge.add`` takes it."""
    if field.kind == MAP:
        given = []
        for key, item in value.items():
            if item is None:
                given.append((key.removeprefix("-"), None))
            else:
                given.append((key, item))
        return given
    if field.kind in BY_ENTRIES:
        given = []
        for item in value:
            value = None if is_removal(item) else item
            given.append((name_of(item, field), value))
        return given
    return value


def document(values: dict[str, Any]) -> dict[str, Any]:
    """Return the document of merged values; removals stay, since the runtime has to know them."""
    made: dict[str, Any] = {}
    for field in FIELDS:
        if field.name not in values:
            continue
        value = values[field.name]
        if field.kind in (LIST, CLAIMED):
            value = _list_of(value, field)
        put(made, field, value)
    return made


def _list_of(merged: dict[str, Any], field: AdjustField) -> list[Any]:
    """Return the array of merged entries; the key of a removal begins with a dash."""
    items = []
    for entry, item in merged.items():
        if item is None:
            items.append({field.key: entry[1:], "remove": True})
        else:
            items.append(item)
    return items


def is_removal(item: object) -> bool:
    """Return whether an element of a list removes something."""
    return isinstance(item, dict) and bool(item.get("remove"))


def name_of(item: Any, field: AdjustField) -> str:
    """Return the name of an element of a list."""
    if field.key:
        item = item[field.key]
    return str(item)
