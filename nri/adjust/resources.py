"""The rules of ``resources`` in adjustments and updates: ``linux.resources`` of the OCI runtime specification.

Beside its keys there are NRI's classes of block I/O and RDT, which a runtime's administrator defines.
"""

from __future__ import annotations

from nri.types.oci_values import INT64, PLAIN, UINT32, UINT64, WORD
from nri.types.table import FLAG, Key, Map, Rule, Table, array, number, text

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
    return value.isascii() and digits.isdecimal() and value[len(digits) :] in ("B", "KB", "MB", "GB")


_PAGE_SIZE = text(
    1, 32, matches=_is_page_size, pattern=r"^[0-9]+[KMG]?B(?!\n)$", expected="a size such as 2MB or 1GB"
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


def _table(**rules: Rule) -> Table:
    return Table(*[Key(name, rule) for name, rule in rules.items()], nulls=True)


def _throttles() -> Rule:
    rates = Table(
        Key("major", INT64, required=True), Key("minor", INT64, required=True), Key("rate", UINT64, required=True)
    )
    return array(rates)


DEVICE_RULE = Table(
    Key("allow", FLAG, required=True),
    Key("type", text(1, 1, matches="abc".__contains__, pattern="^[abc]$", expected="a, b or c")),
    Key("major", INT64),
    Key("minor", INT64),
    Key("access", ACCESS),
    nulls=True,
)

RESOURCES = Table(
    Key(
        "memory",
        _table(
            **dict.fromkeys(_MEMORY, INT64),
            swappiness=UINT64,
            disableOOMKiller=FLAG,
            useHierarchy=FLAG,
            checkBeforeUpdate=FLAG,
        ),
    ),
    Key(
        "cpu",
        _table(
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
    ),
    Key("pids", _table(limit=INT64)),
    Key(
        "blockIO",
        _table(
            weight=number(0, 1000, whole=True, expected="an integer from 0 to 1000"),
            leafWeight=number(0, 1000, whole=True, expected="an integer from 0 to 1000"),
            throttleReadBpsDevice=_throttles(),
            throttleWriteBpsDevice=_throttles(),
            throttleReadIOPSDevice=_throttles(),
            throttleWriteIOPSDevice=_throttles(),
        ),
    ),
    Key(
        "hugepageLimits",
        array(Table(Key("pageSize", _PAGE_SIZE, required=True), Key("limit", UINT64, required=True))),
    ),
    Key(
        "network",
        _table(
            classID=UINT32,
            priorities=array(Table(Key("name", WORD, required=True), Key("priority", UINT32, required=True))),
        ),
    ),
    Key("rdma", Map(_table(hcaHandles=UINT32, hcaObjects=UINT32), WORD)),
    Key("unified", Map(PLAIN, _FILE_NAME)),
    Key("devices", array(DEVICE_RULE)),
    Key("blockioClass", PLAIN),
    Key("rdtClass", PLAIN),
    nulls=True,
)
"""``linux.resources``."""
