"""The rules of ``adjust`` and ``updates`` in a result as tables; ``tools/schemas`` makes the JSON Schema from them.

The words are those of the OCI runtime specification. Where that has a list with a key in each element, an element
``{"path": "/dev/x", "remove": true}`` removes; in an object, null removes.
"""

from __future__ import annotations

from nri.adjust.apply import clean
from nri.types import DecodeError
from nri.types.demanding import demand
from nri.types.gojson import describe, shorten
from nri.types.oci_values import (
    CDI_DEVICE,
    FILE_MODE,
    HOOK_TIMEOUT,
    HOOKS,
    INT64,
    IO_CLASSES,
    IO_PRIORITY_LEVEL,
    MEMORY_FLAG,
    MEMORY_MODE,
    PLAIN,
    POLICIES,
    SCHEDULING,
    UINT32,
    UINT64,
    VARIABLE,
    WORD,
    flags,
)
from nri.types.table import FLAG, PATH, Key, Map, Rule, Table, array, number, text, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MEMORY = ("limit", "reservation", "swap", "kernel", "kernelTCP")


def _has_device_letters(value: str) -> bool:
    return set(value) <= set("rwm")


ACCESS = text(
    0,
    3,
    matches=_has_device_letters,
    pattern=r"^[rwm]*(?!\n)$",
    expected="letters out of r (read), w (write), m (mknod)",
)


def _is_page_size(value: str) -> bool:
    digits = value.removesuffix("B").rstrip("KMG")
    return (
        value.isascii() and digits.isdecimal() and value[len(digits) :] in ("B", "KB", "MB", "GB")
    )


_PAGE_SIZE = text(
    1,
    32,
    matches=_is_page_size,
    pattern=r"^[0-9]+[KMG]?B(?!\n)$",
    expected="a size such as 2MB or 1GB",
)


def _is_file_name(value: str) -> bool:
    return "/" not in value and "\0" not in value and value not in (".", "..")


_FILE_NAME = text(
    1,
    255,
    matches=_is_file_name,
    pattern=r"^(?!\.{1,2}(?![\s\S]))[^/\u0000]*$",
    expected="the name of a file in the cgroup's directory",
)


def _table(*required: str, **rules: Rule) -> Table:
    """Return a table with these keys; null stands for a missing one that is not required."""
    return Table(
        *[Key(name, rule, required=name in required) for name, rule in rules.items()], nulls=True
    )


_THROTTLES = array(_table("major", "minor", "rate", major=INT64, minor=INT64, rate=UINT64))
_WEIGHT = number(0, 1000, whole=True, expected="an integer from 0 to 1000")
DEVICE_RULE = _table(
    "allow",
    allow=FLAG,
    type=text(1, 1, matches="abc".__contains__, pattern="^[abc]$", expected="a, b or c"),
    major=INT64,
    minor=INT64,
    access=ACCESS,
)

RESOURCES = _table(
    memory=_table(
        **dict.fromkeys(_MEMORY, INT64),
        swappiness=UINT64,
        disableOOMKiller=FLAG,
        useHierarchy=FLAG,
        checkBeforeUpdate=FLAG,
    ),
    cpu=_table(
        shares=UINT64,
        quota=INT64,
        burst=UINT64,
        period=UINT64,
        realtimeRuntime=INT64,
        realtimePeriod=UINT64,
        cpus=PLAIN,
        mems=PLAIN,
        idle=number(0, 1, whole=True, expected="0 or 1"),
    ),
    pids=_table(limit=INT64),
    blockIO=_table(
        weight=_WEIGHT,
        leafWeight=_WEIGHT,
        throttleReadBpsDevice=_THROTTLES,
        throttleWriteBpsDevice=_THROTTLES,
        throttleReadIOPSDevice=_THROTTLES,
        throttleWriteIOPSDevice=_THROTTLES,
    ),
    hugepageLimits=array(_table("pageSize", "limit", pageSize=_PAGE_SIZE, limit=UINT64)),
    network=_table(
        classID=UINT32,
        priorities=array(_table("name", "priority", name=WORD, priority=UINT32)),
    ),
    rdma=Map(_table(hcaHandles=UINT32, hcaObjects=UINT32), WORD),
    unified=Map(PLAIN, _FILE_NAME),
    devices=array(DEVICE_RULE),
    blockioClass=PLAIN,
    rdtClass=PLAIN,
)
"""``linux.resources``."""


NAMESPACES = ("pid", "network", "mount", "ipc", "uts", "user", "cgroup", "time")


def _is_rlimit(value: str) -> bool:
    name = value.removeprefix("RLIMIT_")
    return name != value and name.isascii() and name.isalpha() and name.isupper()


_HOOK = _table(
    "path",
    path=PATH,
    args=array(PLAIN),
    env=array(PLAIN),
    timeout=HOOK_TIMEOUT,
)
_MOUNT = _table(type=PLAIN, source=PLAIN, options=array(PLAIN))
_RLIMIT_TYPE = text(
    matches=_is_rlimit, pattern="^RLIMIT_[A-Z]+(?!\\n)$", expected="a name such as RLIMIT_NOFILE"
)
_RLIMIT = _table("type", "hard", "soft", type=_RLIMIT_TYPE, hard=UINT64, soft=UINT64)
_DEVICE = _table(
    "path",
    path=PATH,
    type=words("c", "b", "u", "p"),
    major=INT64,
    minor=INT64,
    fileMode=FILE_MODE,
    uid=UINT32,
    gid=UINT32,
    remove=FLAG,
)
_NAMESPACE = _table("type", type=words(*NAMESPACES), path=PATH, remove=FLAG)
_ARGUMENT = _table("index", "value", "op", index=UINT32, value=UINT64, valueTwo=UINT64, op=WORD)
_SYSCALL = _table(
    "names", "action", names=array(WORD, 1), action=WORD, errnoRet=UINT32, args=array(_ARGUMENT)
)
_SECCOMP = _table(
    "defaultAction",
    defaultAction=WORD,
    defaultErrnoRet=UINT32,
    architectures=array(WORD),
    flags=array(WORD),
    listenerPath=PATH,
    listenerMetadata=PLAIN,
    syscalls=array(_SYSCALL),
)
_IO_PRIORITY = {"class": flags("IOPRIO_CLASS_", *IO_CLASSES), "priority": IO_PRIORITY_LEVEL}
_INTEL_RDT = _table(
    closID=PLAIN,
    l3CacheSchema=PLAIN,
    memBwSchema=PLAIN,
    schemata=array(PLAIN),
    enableMonitoring=FLAG,
    remove=FLAG,
)

_LINUX = _table(
    devices=array(_DEVICE),
    resources=RESOURCES,
    cgroupsPath=text(1, 4095, expected="a path, or SLICE:PREFIX:NAME"),
    oomScoreAdj=number(-1000, 1000, whole=True, expected="an integer from -1000 to 1000"),
    sysctl=Map(PLAIN, WORD, removable=True),
    namespaces=array(_NAMESPACE),
    seccomp=_SECCOMP,
    ioPriority=_table("class", **_IO_PRIORITY),
    intelRdt=_INTEL_RDT,
    netDevices=Map(_table(name=PLAIN), WORD, removable=True),
    memoryPolicy=_table("mode", mode=MEMORY_MODE, nodes=PLAIN, flags=array(MEMORY_FLAG)),
)

ADJUST = Table(
    Key("annotations", Map(PLAIN, text(1), removable=True), title="Annotations; null removes one"),
    Key(
        "env", Map(PLAIN, VARIABLE, removable=True), title="Environment variables; null removes one"
    ),
    Key(
        "args",
        array(PLAIN),
        title="The command line; an empty first word replaces that of an earlier plugin",
    ),
    Key(
        "mounts", Map(_MOUNT, PATH, removable=True), title="Mounts by destination; null removes one"
    ),
    Key(
        "hooks",
        Table(*[Key(kind, array(_HOOK)) for kind in HOOKS], nulls=True),
        title="Hooks that are run after those of the container",
    ),
    Key("rlimits", array(_RLIMIT), title="Resource limits of the process"),
    Key(
        "cdiDevices",
        array(CDI_DEVICE, unique=True),
        title="Devices of the Container Device Interface by their full names",
    ),
    Key(
        "scheduler",
        Table(
            Key("policy", flags("SCHED_", *POLICIES), required=True),
            *SCHEDULING,
            nulls=True,
        ),
        title="Scheduling of the process",
    ),
    Key(
        "linux",
        _LINUX,
        title="What the specification has below linux, and the process's oomScoreAdj and "
        "ioPriority",
    ),
    nulls=True,
    title="Changes of the container that is about to be created",
    description="In answer to setup only. The words are those of the OCI runtime specification.",
)
"""``adjust`` in a result."""

UPDATES = array(
    Table(
        Key("id", text(1, expected="a container's id"), title="The container's id", required=True),
        Key("resources", RESOURCES, title="Its new resources, as linux.resources", required=True),
        Key("ignoreFailure", FLAG, title="Whether a failure of the update is ignored"),
        nulls=True,
    ),
    expected="an array of updates",
)
"""``updates`` in a result."""


# Reads them strictly: each fault is an error with its place. The rules here are between values.


def read_adjust(value: object) -> dict[str, Any]:
    """Return an ``adjust`` that keeps the rules, without its nulls that stand for a missing key.

    :param value: None for one that changes nothing.
    :raises DecodeError: its first faults, each with its place.
    """
    if value is None:
        return {}
    demand(ADJUST, value, "adjust")
    adjust: dict[str, Any] = without_nulls(ADJUST, value)
    if adjust.get("args") == []:
        del adjust["args"]  # for NRI, too, it says nothing
    _check_deeper(adjust, "adjust")
    return adjust


def read_updates(value: object) -> list[dict[str, Any]]:
    """Return ``updates`` that keep the rules, as ``read_adjust``."""
    demand(UPDATES, value, "updates")
    updates: list[dict[str, Any]] = without_nulls(UPDATES, value)
    for index, update in enumerate(updates):
        _check_resources(update["resources"], f"updates[{index}].resources")
    return updates


def without_nulls(rule: Rule, value: Any) -> Any:
    """Return a copy of an accepted value without the keys of tables whose value is null."""
    if isinstance(rule, Table):
        keys = rule.keys
        return {
            name: without_nulls(keys[name].rule, item)
            for name, item in value.items()
            if item is not None
        }
    if isinstance(rule, Map):
        kept: dict[str, Any] = {}
        for name, item in value.items():
            if item is None:
                kept[name] = item
            else:
                kept[name] = without_nulls(rule.item, item)
        return kept
    if rule.parts:
        return [without_nulls(rule.parts[0], item) for item in value]
    return value


# Each of these raises DecodeError for a fault between keys, which a table does not see.


def _check_deeper(adjust: dict[str, Any], where: str) -> None:
    linux = adjust.get("linux", {})
    if adjust.get("args", [])[:2] == ["", ""]:
        raise DecodeError(f"{where}.args[1]: found the string '' again, expected the command")
    for destination, mount in adjust.get("mounts", {}).items():
        _check_path(destination.removeprefix("-"), f"{where}.mounts", "key")
        _check_mount(mount or {}, f"{where}.mounts.{shorten(repr(destination)[1:-1])}")
    _check_once(adjust.get("rlimits", []), "type", f"{where}.rlimits")
    for index, device in enumerate(linux.get("devices", [])):
        _check_path(device["path"], f"{where}.linux.devices[{index}].path")
        _check_device(device, f"{where}.linux.devices[{index}]")
    _check_once(linux.get("devices", []), "path", f"{where}.linux.devices")
    _check_once(linux.get("namespaces", []), "type", f"{where}.linux.namespaces", removals=True)
    _check_resources(linux.get("resources", {}), f"{where}.linux.resources")


def _check_path(path: str, where: str, kind: str = "string") -> None:
    """Refuse *path* if another spelling of it is usual: two plugins could set the same without a conflict."""
    right = clean(path)
    if path != right:
        raise DecodeError(
            f"{where}: found the {kind} {shorten(repr(path))}, expected {shorten(repr(right))}"
        )


def _check_mount(mount: dict[str, Any], where: str) -> None:
    source = mount.get("source", "")
    options = mount.get("options", [])
    is_bind = mount.get("type") == "bind" or "bind" in options or "rbind" in options
    if is_bind and not PATH.accepts(source):
        raise DecodeError(
            f"{where}.source: found {describe(source)}, expected {PATH.expected} for a bind mount"
        )


def _check_device(device: dict[str, Any], where: str) -> None:
    if device.get("remove"):
        return
    needed = ["type"]
    if device.get("type") != "p":
        needed += ["major", "minor"]
    for key in needed:
        if key not in device:
            raise DecodeError(
                f"{where}.{key}: missing, expected it for a device that is not removed"
            )


def _check_resources(resources: dict[str, Any], where: str) -> None:
    _check_once(resources.get("hugepageLimits", []), "pageSize", f"{where}.hugepageLimits")


def _check_once(items: list[Any], key: str, where: str, *, removals: bool = False) -> None:
    """Refuse an item that sets the same as an earlier one.

    :param removals: whether an item that removes counts, too; others may stand beside one that sets the same.
    """
    seen = set()
    for index, item in enumerate(items):
        if item.get("remove") and not removals:
            continue
        name = item[key]
        if name in seen:
            raise DecodeError(
                f"{where}[{index}].{key}: found {describe(name)} again, expected it once"
            )
        seen.add(name)
