"""The kernel's knobs, a row for each, by its name in cgroup v2. docs/cgroups.md shows them; a test compares the two.

Some distributions' kernels have files of v2 in v1, too, such as ``memory.low`` (Anolis OS, TencentOS): these count
where they are. A knob that v1 lacks has no substitute: ``memory.soft_limit_in_bytes`` only says what is reclaimed
first when the whole machine is short of memory, which neither protects (``memory.low``) nor throttles
(``memory.high``), and ``memory.oom_control`` turns the OOM killer off, where ``memory.oom.group`` makes it kill more.

Sources: the kernel's ``Documentation/admin-guide/cgroup-v2.rst``; ``cgroup-v1/memory.rst`` (memsw counts memory and
swap, and limits no less than memory alone); ``block/bfq-iosched.rst``; ``scheduler/sched-bwc.rst``; for bounds
``kernel/sched/core.c`` and ``kernel/cgroup/pids.c`` (PIDS_MAX). Properties: ``systemd.resource-control(5)``, and
systemd's ``src/core/cgroup.c`` for v1. ``cpu.bvt_warp_ns`` is of kernels of Alibaba Cloud Linux and Anolis OS:
https://www.alibabacloud.com/help/en/alinux/user-guide/group-identity-feature
"""

# ruff: noqa: D102 -- the base class describes the methods

from __future__ import annotations

import errno
import os

from . import cpuset, knobs, quota
from .errors import CgroupError, KnobValueError, described, quoted
from .knob import BOTH, INNER, LIMIT, SCOPE, File, Knob, Limits, Values
from .knob_values import (
    DefaultWeight,
    Flag,
    blkio_of_io_weight,
    io_weight_of_blkio,
    shares_of_weight,
    weight_of_shares,
)

PAGE = os.sysconf("SC_PAGE_SIZE")
MEMORY_V1 = "memory.limit_in_bytes"
BOTH_V1 = "memory.memsw.limit_in_bytes"
BFQ_V1 = "blkio.bfq.weight"


class MemoryLimitV1(File):
    """The memory's limit. v1 limits memory and swap together, so that limit moves along: the swap's own stays."""

    __slots__ = ()

    def names(self) -> tuple[str, ...]:
        return (self.name, BOTH_V1)

    def steps(self, directory: str, value: int | None, before: int | None) -> list[tuple[str, str]]:
        steps = [(self.name, self.values.word(value))]
        # A kernel without swap accounting has no such file.
        if knobs.exists(f"{directory}/{BOTH_V1}"):
            both = self._parsed(directory, BOTH_V1, self.values)
            if both is not None:
                if value is None or before is None:
                    moved = None
                else:
                    moved = value + max(both - before, 0)
                # The kernel refuses a limit of the memory above that of both, at any moment.
                is_first = moved is None or moved > both
                steps.insert(0 if is_first else 1, (BOTH_V1, self.values.word(moved)))
        return steps


class SwapLimitV1(File):
    """The swap's limit: memory and swap together, less the memory. Without a limit of the memory there is none."""

    __slots__ = ()

    def names(self) -> tuple[str, ...]:
        return (f"{self.name} - {MEMORY_V1}",)

    def read(self, directory: str) -> int | None:
        both: int | None = super().read(directory)
        memory = self._memory(directory)
        if both is None or memory is None:
            return None
        return max(both - memory, 0)

    def steps(self, directory: str, value: int | None, before: int | None) -> list[tuple[str, str]]:
        memory = self._memory(directory)
        if value is None:
            return [(self.name, self.values.word(None))]
        if memory is None:
            raise CgroupError(
                f"{directory}/{self.name} cannot limit swap to {value} bytes: in v1 it limits memory and swap "
                f"together, and {MEMORY_V1} is unlimited; expected memory.max to be set before memory.swap.max"
            )
        return [(self.name, self.values.word(memory + value))]

    def _memory(self, directory: str) -> int | None:
        limit: int | None = self._parsed(directory, MEMORY_V1, self.values)
        return limit


_IDLE = {errno.EINVAL: "a cgroup whose cpu.idle is set has no weight"}
_BURST = {
    errno.EINVAL: "cpu.max.burst may not be above the quota of cpu.max, nor the quota below it afterwards, also when "
    "the runtime changes it; raise the quota first, and lower the burst first"
}
_MEMORY_HINTS = {
    errno.EBUSY: "the cgroup uses more than that, and the kernel could not reclaim enough",
    errno.EINVAL: f"in v1 {MEMORY_V1} may not be above {BOTH_V1}",
}

_FAIR = "CONFIG_FAIR_GROUP_SCHED"
_MEMCG = "CONFIG_MEMCG"
_PIDS = "CONFIG_CGROUP_PIDS"
_BFQ = "CONFIG_BFQ_GROUP_IOSCHED and the module bfq"
_BURSTS = Values(0, quota.MAX_QUOTA_US, "a number of microseconds")
_IDENTITIES = Values(-2, 2)
_BYTES = Limits("max", unit="a number of bytes", step=PAGE)
_BYTES_V1 = Limits("-1", unit="a number of bytes", step=PAGE)
_SHARES = Values(1, 10000, convert=(weight_of_shares, shares_of_weight))
_TASKS = Limits("max", 0, 4194304)
_WEIGHT_V1 = DefaultWeight(1, 10000, (io_weight_of_blkio, blkio_of_io_weight))


TABLE = {
    knob.name: knob
    for knob in (
        Knob(
            "cpu.weight",
            SCOPE,
            Values(1, 10000),
            _FAIR,
            told="CPUWeight",
            hints=_IDLE,
            v1=File("cpu.shares", _SHARES, "CPUShares", _IDLE),
        ),
        quota.CPU_MAX,
        Knob(
            "cpu.max.burst",
            BOTH,
            _BURSTS,
            "Linux 5.14 with CONFIG_CFS_BANDWIDTH",
            v1=File("cpu.cfs_burst_us", _BURSTS, hints=_BURST),
            hints=_BURST,
        ),
        Knob("cpu.idle", SCOPE, Flag(), "Linux 5.15", v1=File("cpu.idle", Flag())),
        Knob(
            "cpu.bvt_warp_ns",
            BOTH,
            _IDENTITIES,
            "a kernel of Alibaba Cloud Linux or Anolis OS, with "
            "kernel.sched_group_identity_enabled",
            v1=File("cpu.bvt_warp_ns", _IDENTITIES),
        ),
        cpuset.CPUS,
        cpuset.MEMS,
        Knob(
            "cpuset.cpus.effective",
            INNER,
            cpuset.CPUS.values,
            cpuset.NEEDS,
            v1=File(cpuset.EFFECTIVE[1], cpuset.CPUS.values),
        ),
        Knob(
            "cpuset.mems.effective",
            INNER,
            cpuset.MEMS.values,
            cpuset.NEEDS,
            v1=File("cpuset.effective_mems", cpuset.MEMS.values),
        ),
        Knob("memory.min", BOTH, _BYTES, "Linux 4.18", told="MemoryMin"),
        Knob("memory.low", BOTH, _BYTES, _MEMCG, told="MemoryLow"),
        Knob("memory.high", LIMIT, _BYTES, _MEMCG, told="MemoryHigh"),
        Knob(
            "memory.max",
            LIMIT,
            _BYTES,
            _MEMCG,
            told="MemoryMax",
            hints=_MEMORY_HINTS,
            v1=MemoryLimitV1(MEMORY_V1, _BYTES_V1, "MemoryLimit", _MEMORY_HINTS),
        ),
        Knob(
            "memory.swap.max",
            LIMIT,
            _BYTES,
            "CONFIG_SWAP, and swapaccount=1 on kernels that count no swap by default",
            told="MemorySwapMax",
            v1=SwapLimitV1(BOTH_V1, _BYTES_V1, "", _MEMORY_HINTS),
        ),
        Knob("memory.oom.group", SCOPE, Flag(), "Linux 4.19"),
        Knob(
            "io.weight",
            SCOPE,
            DefaultWeight(1, 10000),
            f"CONFIG_BLK_CGROUP_IOCOST, in v1 {_BFQ}",
            told="IOWeight",
            v1=File(BFQ_V1, _WEIGHT_V1, "BlockIOWeight"),
        ),
        Knob(
            "pids.max",
            LIMIT,
            _TASKS,
            _PIDS,
            told="TasksMax",
            v1=File("pids.max", _TASKS, "TasksMax"),
        ),
    )
}


def find(name: str) -> Knob:
    """Return the knob with this name.

    :raises KnobValueError: there is none.
    """
    if not isinstance(name, str):
        raise KnobValueError(
            f"a knob's name is a text such as memory.high: found {described(name)}"
        )
    if name in TABLE:
        return TABLE[name]
    for other in TABLE.values():
        if 1 in other.files and name in other.files[1].names():
            raise KnobValueError(
                f"{name} is a file of cgroup v1: expected the name that it has here, {other.name}"
            )
    raise KnobValueError(
        f"there is no knob {quoted(name)}: expected one of {', '.join(TABLE)}; "
        "read_text and write_text reach any file"
    )
