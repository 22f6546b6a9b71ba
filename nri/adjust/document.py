"""The rules of ``adjust`` and ``updates`` in a result as tables; ``tools/schemas`` makes the JSON Schema from them.

The words are those of the OCI runtime specification. Where that has a list with a key in each element, an element
``{"path": "/dev/x", "remove": true}`` removes; in an object, null removes.
"""

from __future__ import annotations

from nri.adjust.resources import RESOURCES
from nri.types.oci_values import (
    CDI_DEVICE,
    FILE_MODE,
    HOOKS,
    INT64,
    IO_CLASSES,
    IO_PRIORITY_LEVEL,
    MEMORY_FLAG,
    MEMORY_MODE,
    PATH,
    PLAIN,
    POLICIES,
    SCHEDULING,
    UINT32,
    UINT64,
    VARIABLE,
    WORD,
    flags,
)
from nri.types.table import FLAG, Key, Map, Table, array, number, text, words

NAMESPACES = ("pid", "network", "mount", "ipc", "uts", "user", "cgroup", "time")

_REMOVE = Key("remove", FLAG)


def _is_rlimit(value: str) -> bool:
    name = value.removeprefix("RLIMIT_")
    return name != value and name.isascii() and name.isalpha() and name.isupper()


_HOOK = Table(
    Key("path", PATH, required=True),
    Key("args", array(PLAIN)),
    Key("env", array(PLAIN)),
    Key("timeout", number(1, 2**31 - 1, whole=True, expected="an integer of seconds, at least 1")),
    nulls=True,
)
_MOUNT = Table(Key("type", PLAIN), Key("source", PLAIN), Key("options", array(PLAIN)), nulls=True)
_RLIMIT = Table(
    Key(
        "type",
        text(matches=_is_rlimit, pattern="^RLIMIT_[A-Z]+(?!\\n)$", expected="a name such as RLIMIT_NOFILE"),
        required=True,
    ),
    Key("hard", UINT64, required=True),
    Key("soft", UINT64, required=True),
)
_DEVICE = Table(
    Key("path", PATH, required=True),
    Key("type", words("c", "b", "u", "p")),
    Key("major", INT64),
    Key("minor", INT64),
    Key("fileMode", FILE_MODE),
    Key("uid", UINT32),
    Key("gid", UINT32),
    _REMOVE,
    nulls=True,
)
_NAMESPACE = Table(Key("type", words(*NAMESPACES), required=True), Key("path", PATH), _REMOVE, nulls=True)
_SYSCALL = Table(
    Key("names", array(WORD, 1), required=True),
    Key("action", WORD, required=True),
    Key("errnoRet", UINT32),
    Key(
        "args",
        array(
            Table(
                Key("index", UINT32, required=True),
                Key("value", UINT64, required=True),
                Key("valueTwo", UINT64),
                Key("op", WORD, required=True),
                nulls=True,
            )
        ),
    ),
    nulls=True,
)
_SECCOMP = Table(
    Key("defaultAction", WORD, required=True),
    Key("defaultErrnoRet", UINT32),
    Key("architectures", array(WORD)),
    Key("flags", array(WORD)),
    Key("listenerPath", PATH),
    Key("listenerMetadata", PLAIN),
    Key("syscalls", array(_SYSCALL)),
    nulls=True,
)

_LINUX = Table(
    Key("devices", array(_DEVICE)),
    Key("resources", RESOURCES),
    Key("cgroupsPath", text(1, 4095, expected="a path, or SLICE:PREFIX:NAME")),
    Key("oomScoreAdj", number(-1000, 1000, whole=True, expected="an integer from -1000 to 1000")),
    Key("sysctl", Map(PLAIN, WORD, removable=True)),
    Key("namespaces", array(_NAMESPACE)),
    Key("seccomp", _SECCOMP),
    Key(
        "ioPriority",
        Table(
            Key("class", flags("IOPRIO_CLASS_", *IO_CLASSES), required=True),
            Key("priority", IO_PRIORITY_LEVEL),
            nulls=True,
        ),
    ),
    Key(
        "intelRdt",
        Table(
            Key("closID", PLAIN),
            Key("l3CacheSchema", PLAIN),
            Key("memBwSchema", PLAIN),
            Key("schemata", array(PLAIN)),
            Key("enableMonitoring", FLAG),
            _REMOVE,
            nulls=True,
        ),
    ),
    Key("netDevices", Map(Table(Key("name", PLAIN), nulls=True), WORD, removable=True)),
    Key(
        "memoryPolicy",
        Table(
            Key("mode", MEMORY_MODE, required=True),
            Key("nodes", PLAIN),
            Key("flags", array(MEMORY_FLAG)),
            nulls=True,
        ),
    ),
    nulls=True,
)

ADJUST = Table(
    Key("annotations", Map(PLAIN, text(1), removable=True), title="Annotations; null removes one"),
    Key("env", Map(PLAIN, VARIABLE, removable=True), title="Environment variables; null removes one"),
    Key("args", array(PLAIN), title="The command line; an empty first word replaces that of an earlier plugin"),
    Key("mounts", Map(_MOUNT, PATH, removable=True), title="Mounts by destination; null removes one"),
    Key(
        "hooks",
        Table(*[Key(kind, array(_HOOK)) for kind in HOOKS], nulls=True),
        title="Hooks that are run after those of the container",
    ),
    Key("rlimits", array(_RLIMIT), title="Resource limits of the process"),
    Key(
        "cdiDevices",
        array(CDI_DEVICE),
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
        "linux", _LINUX, title="What the specification has below linux, and the process's oomScoreAdj and ioPriority"
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
