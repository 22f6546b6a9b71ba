"""The kernel's knobs, each with its files, its values and its source, by its name in cgroup v2.

This is the one home of these names; docs/cgroups.md shows the table, and a test compares the two. ``cpu.bvt_warp_ns``
is a name of v1, and of kernels of Alibaba Cloud Linux and Anolis OS.

What v1 lacks is not put in place of anything: ``memory.soft_limit_in_bytes`` only says what is reclaimed first when
the whole machine is short of memory, which neither protects (``memory.low``) nor throttles (``memory.high``), and
``memory.oom_control`` turns the OOM killer off, where ``memory.oom.group`` makes it kill more.

Sources (of the bounds): the kernel's ``Documentation/admin-guide/cgroup-v2.rst``, ``cgroup-v1/*.rst``,
``scheduler/sched-bwc.rst``; ``kernel/sched/core.c``, ``kernel/cgroup/pids.c`` (PIDS_MAX), ``mm/hugetlb_cgroup.c``.
"""

from __future__ import annotations

import errno
import os

from . import conversion, cpuset, hugetlb
from .cpulist import MAX_CPU
from .errors import KnobValueError, described, quoted
from .knob_devices import DeviceKind, DeviceLatency, DeviceLimits, DeviceWeights, LimitsKind
from .knob_forms import OneFile, QuotaFiles
from .knob_forms_v1 import (
    MEMORY,
    MEMORY_AND_SWAP,
    MEMORY_HINTS,
    BlkioWeights,
    Converted,
    MemoryLimit,
    SwapLimit,
    Throttles,
)
from .knob_kinds import BytesKind, CountKind, FlagKind, PercentKind, QuotaKind, SetKind, WordKind
from .knob_row import BOTH, COUNT, INNER, LIMIT, SCOPE, SETS, Knob, shown

MAX_NODE = 1023
"""The greatest memory node: MAX_NUMNODES is at most 1024 (CONFIG_NODES_SHIFT)."""


PAGE = os.sysconf("SC_PAGE_SIZE")

_BANDWIDTH = "CONFIG_CFS_BANDWIDTH"
_UCLAMP = "Linux 5.4 with CONFIG_UCLAMP_TASK_GROUP"
_MEMCG = "CONFIG_MEMCG"
_CPUSETS = "CONFIG_CPUSETS"
_IDLE = {errno.EINVAL: "a cgroup whose cpu.idle is set has no weight"}
_BURST = {errno.EINVAL: "cpu.max.burst may not be above the quota of cpu.max"}
_CLAMP = {errno.EINVAL: "the kernel does not accept this percentage"}

_WEIGHT = CountKind(1, 10000)
_NICE = CountKind(-20, 19)
_SHARES = CountKind(conversion.MIN_SHARES, conversion.MAX_SHARES)
_MICROSECONDS = CountKind(0, QuotaKind.MAX_QUOTA_US, unit="a number of microseconds")
_PIDS = CountKind(0, 4194304, "max")
_BYTES = {version: BytesKind(PAGE, version) for version in (1, 2)}
_QUOTA, _PERCENT, _FLAG = QuotaKind(), PercentKind(), FlagKind()
_CPUS, _NODES = SetKind("CPUs", MAX_CPU), SetKind("memory nodes", MAX_NODE)
_PARTITION = WordKind("member", "root", "isolated")
_IO_WEIGHT = DeviceKind("weights", 1, 10000, default=True)
_BFQ_WEIGHT = DeviceKind("weights", 1, 1000, default=True)
_IO_LATENCY = DeviceKind("microseconds", 1, 2**32 - 1)
_IO_LIMITS = LimitsKind()


def _same(weight: int) -> int:
    return weight


def _memory(name: str, level: str, needs: str = _MEMCG) -> Knob:
    return Knob(name, _BYTES[2], level, OneFile(name, _BYTES[2]), needs=needs)


TABLE = {
    knob.name: knob
    for knob in (
        Knob(
            "cpu.weight",
            _WEIGHT,
            SCOPE,
            OneFile("cpu.weight", _WEIGHT, _IDLE),
            Converted("cpu.shares", _SHARES, conversion.weight_of_shares, conversion.shares_of_weight, _IDLE),
            needs="CONFIG_FAIR_GROUP_SCHED",
        ),
        Knob(
            "cpu.weight.nice",
            _NICE,
            SCOPE,
            OneFile("cpu.weight.nice", _NICE, _IDLE),
            needs="CONFIG_FAIR_GROUP_SCHED",
        ),
        Knob("cpu.max", _QUOTA, LIMIT, QuotaFiles(_QUOTA, 2), QuotaFiles(_QUOTA, 1), needs=_BANDWIDTH),
        Knob(
            "cpu.max.burst",
            _MICROSECONDS,
            BOTH,
            OneFile("cpu.max.burst", _MICROSECONDS, _BURST),
            OneFile("cpu.cfs_burst_us", _MICROSECONDS, _BURST),
            needs=f"Linux 5.14 with {_BANDWIDTH}",
            source="scheduler/sched-bwc.rst",
        ),
        Knob("cpu.idle", _FLAG, SCOPE, OneFile("cpu.idle", _FLAG), OneFile("cpu.idle", _FLAG), needs="Linux 5.15"),
        *(
            Knob(
                name, _PERCENT, level, OneFile(name, _PERCENT, _CLAMP), OneFile(name, _PERCENT, _CLAMP), needs=_UCLAMP
            )
            for name, level in (("cpu.uclamp.min", BOTH), ("cpu.uclamp.max", LIMIT))
        ),
        Knob(
            "cpu.bvt_warp_ns",
            CountKind(-2, 2),
            BOTH,
            OneFile("cpu.bvt_warp_ns", CountKind(-2, 2)),
            OneFile("cpu.bvt_warp_ns", CountKind(-2, 2)),
            needs="a kernel of Alibaba Cloud Linux or Anolis OS, with kernel.sched_group_identity_enabled",
            source="https://www.alibabacloud.com/help/en/alinux/user-guide/group-identity-feature",
        ),
        Knob("cpuset.cpus", _CPUS, SETS, OneFile(cpuset.KNOB, _CPUS), OneFile(cpuset.KNOB, _CPUS), needs=_CPUSETS),
        Knob(
            cpuset.MEMORY_NODES,
            _NODES,
            SETS,
            OneFile(cpuset.MEMORY_NODES, _NODES),
            OneFile(cpuset.MEMORY_NODES, _NODES),
            needs=_CPUSETS,
        ),
        Knob(
            "cpuset.cpus.partition",
            _PARTITION,
            SCOPE,
            OneFile("cpuset.cpus.partition", _PARTITION),
            needs="Linux 5.0, for isolated 6.1",
        ),
        shown(
            cpuset.EFFECTIVE[2],
            _CPUS,
            INNER,
            OneFile(cpuset.EFFECTIVE[1], _CPUS),
            _CPUSETS,
        ),
        shown("cpuset.mems.effective", _NODES, INNER, OneFile("cpuset.effective_mems", _NODES), _CPUSETS),
        _memory("memory.min", BOTH, "Linux 4.18"),
        _memory("memory.low", BOTH),
        _memory("memory.high", LIMIT),
        Knob(
            "memory.max",
            _BYTES[2],
            LIMIT,
            OneFile("memory.max", _BYTES[2], MEMORY_HINTS),
            MemoryLimit(MEMORY, _BYTES[1], MEMORY_HINTS),
            needs=_MEMCG,
        ),
        Knob(
            "memory.swap.max",
            _BYTES[2],
            LIMIT,
            OneFile("memory.swap.max", _BYTES[2]),
            SwapLimit(MEMORY_AND_SWAP, _BYTES[1], MEMORY_HINTS),
            needs="CONFIG_SWAP, and swapaccount=1 on kernels that count no swap by default",
        ),
        Knob("memory.oom.group", _FLAG, SCOPE, OneFile("memory.oom.group", _FLAG), needs="Linux 4.19"),
        shown("memory.current", COUNT, SCOPE, OneFile("memory.usage_in_bytes", COUNT), _MEMCG),
        shown("memory.peak", COUNT, SCOPE, OneFile("memory.max_usage_in_bytes", COUNT), "Linux 5.19"),
        shown("memory.swap.current", COUNT, SCOPE, None, "CONFIG_SWAP"),
        Knob(
            "io.weight",
            _IO_WEIGHT,
            SCOPE,
            DeviceWeights("io.weight", _IO_WEIGHT),
            BlkioWeights(
                _IO_WEIGHT,
                conversion.io_weight_of_blkio,
                conversion.blkio_of_io_weight,
                "blkio.bfq.weight",
                "blkio.weight",
            ),
            needs="CONFIG_BLK_CGROUP_IOCOST, in v1 CONFIG_BFQ_GROUP_IOSCHED",
        ),
        Knob(
            "io.bfq.weight",
            _BFQ_WEIGHT,
            SCOPE,
            DeviceWeights("io.bfq.weight", _BFQ_WEIGHT),
            BlkioWeights(_BFQ_WEIGHT, _same, _same, "blkio.bfq.weight"),
            needs="CONFIG_BFQ_GROUP_IOSCHED and the module bfq",
            source="block/bfq-iosched.rst",
        ),
        Knob(
            "io.max",
            _IO_LIMITS,
            LIMIT,
            DeviceLimits("io.max", _IO_LIMITS),
            Throttles(_IO_LIMITS),
            needs="CONFIG_BLK_DEV_THROTTLING",
        ),
        Knob(
            "io.latency",
            _IO_LATENCY,
            SCOPE,
            DeviceLatency("io.latency", _IO_LATENCY),
            needs="CONFIG_BLK_CGROUP_IOLATENCY",
        ),
        Knob(
            "pids.max",
            _PIDS,
            LIMIT,
            OneFile("pids.max", _PIDS),
            OneFile("pids.max", _PIDS),
            needs="CONFIG_CGROUP_PIDS",
        ),
        shown("pids.current", COUNT, SCOPE, OneFile("pids.current", COUNT), "CONFIG_CGROUP_PIDS"),
        shown("pids.peak", COUNT, SCOPE, OneFile("pids.peak", COUNT), "Linux 6.1"),
    )
}
"""The knobs with a fixed name. Those of huge pages are in :mod:`.hugetlb`."""


def find(name: str) -> Knob:
    """Return the knob with this name.

    :raises KnobValueError: there is none.
    """
    if not isinstance(name, str):
        raise KnobValueError(f"a knob's name is a text such as memory.high: found {described(name)}")
    knob = TABLE.get(name) or hugetlb.knob(name)
    if knob is not None:
        return knob
    for other in TABLE.values():
        if any(name in form.files() for version, form in other.forms.items() if version == 1):
            raise KnobValueError(f"{name} is a file of cgroup v1: expected the name that it has here, {other.name}")
    raise KnobValueError(
        f"there is no knob {quoted(name)}: expected one of {', '.join([*TABLE, *hugetlb.NAMES])}, "
        "where SIZE is 2MB for example"
    )
