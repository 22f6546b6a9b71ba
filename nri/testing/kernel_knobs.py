"""The files of a cgroup of each version, as a table: the content that a new cgroup has, and the rule of a write."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from nri.testing import kernel_rules as rules

if TYPE_CHECKING:
    from nri.testing.kernel_rules import Rule

    Knobs = dict[str, tuple[str, Rule]]

_BOOL = rules.whole(0, 1, beyond=errno.EINVAL)
_PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0"
_CPU_STAT = "nr_periods 0\nnr_throttled 0\nthrottled_usec 0\nnr_bursts 0\nburst_usec 0"
_SIZE = rules.size(none="max")
_SIZE_V1 = rules.size(none="-1")
_HUGE_V1 = str(2**63 - (2 << 20))

V2: Knobs = {
    "cgroup.controllers": ("cpuset cpu io memory hugetlb pids", rules.read_only),
    "cgroup.events": ("populated 0\nfrozen 0", rules.read_only),
    "cgroup.freeze": ("0", _BOOL),
    "cgroup.procs": ("", rules.anything),
    "cgroup.stat": ("nr_descendants 0\nnr_dying_descendants 0", rules.read_only),
    "cgroup.subtree_control": ("cpuset cpu io memory hugetlb pids", rules.anything),
    "cgroup.type": ("domain", rules.words("threaded")),
    "cpu.idle": ("0", _BOOL),
    "cpu.max": ("max 100000", rules.bandwidth),
    "cpu.max.burst": ("0", rules.whole(0, 2**63 - 1, beyond=errno.EINVAL)),
    "cpu.pressure": (_PRESSURE, rules.anything),
    "cpu.stat": (f"usage_usec 0\nuser_usec 0\nsystem_usec 0\n{_CPU_STAT}", rules.read_only),
    "cpu.uclamp.max": ("max", rules.clamp),
    "cpu.uclamp.min": ("0.00", rules.clamp),
    "cpu.weight": ("100", rules.whole(1, 10_000)),
    "cpu.weight.nice": ("0", rules.whole(-20, 19)),
    "cpuset.cpus": ("", rules.cpus),
    "cpuset.cpus.effective": ("", rules.read_only),
    "cpuset.cpus.partition": ("member", rules.words("member", "root", "isolated")),
    "cpuset.mems": ("", rules.mems),
    "cpuset.mems.effective": ("0", rules.read_only),
    "hugetlb.1GB.current": ("0", rules.read_only),
    "hugetlb.1GB.max": ("max", _SIZE),
    "hugetlb.2MB.current": ("0", rules.read_only),
    "hugetlb.2MB.max": ("max", _SIZE),
    "io.latency": ("", rules.for_device),
    "io.max": ("", rules.for_device),
    "io.pressure": (_PRESSURE, rules.anything),
    "io.stat": ("", rules.read_only),
    "io.weight": ("default 100", rules.io_weight),
    "memory.current": ("0", rules.read_only),
    "memory.events": ("low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0", rules.read_only),
    "memory.high": ("max", _SIZE),
    "memory.low": ("0", _SIZE),
    "memory.max": ("max", _SIZE),
    "memory.min": ("0", _SIZE),
    "memory.oom.group": ("0", _BOOL),
    "memory.peak": ("0", rules.anything),
    "memory.pressure": (_PRESSURE, rules.anything),
    "memory.stat": ("anon 0\nfile 0\nkernel 0\nshmem 0\npgfault 0\npgmajfault 0", rules.read_only),
    "memory.swap.current": ("0", rules.read_only),
    "memory.swap.high": ("max", _SIZE),
    "memory.swap.max": ("max", _SIZE),
    "memory.zswap.max": ("max", _SIZE),
    "pids.current": ("0", rules.read_only),
    "pids.events": ("max 0", rules.read_only),
    "pids.max": ("max", rules.number_or_max),
}

V1: dict[str, Knobs] = {
    "cpu": {
        "cpu.cfs_burst_us": ("0", rules.whole(0, 2**63 - 1, beyond=errno.EINVAL)),
        "cpu.cfs_period_us": ("100000", rules.period_v1),
        "cpu.cfs_quota_us": ("-1", rules.quota_v1),
        "cpu.idle": ("0", _BOOL),
        "cpu.shares": ("1024", rules.shares),
        "cpu.stat": ("nr_periods 0\nnr_throttled 0\nthrottled_time 0", rules.read_only),
        "cpu.uclamp.max": ("max", rules.clamp),
        "cpu.uclamp.min": ("0.00", rules.clamp),
    },
    "cpuset": {
        "cpuset.cpus": ("", rules.cpus),
        "cpuset.effective_cpus": ("", rules.read_only),
        "cpuset.effective_mems": ("0", rules.read_only),
        "cpuset.mems": ("0", rules.mems),
        "cpuset.memory_migrate": ("0", _BOOL),
    },
    "memory": {
        "memory.failcnt": ("0", rules.anything),
        "memory.limit_in_bytes": (str(rules.UNLIMITED), _SIZE_V1),
        "memory.memsw.limit_in_bytes": (str(rules.UNLIMITED), _SIZE_V1),
        "memory.oom_control": ("oom_kill_disable 0\nunder_oom 0\noom_kill 0", _BOOL),
        "memory.soft_limit_in_bytes": (str(rules.UNLIMITED), _SIZE_V1),
        "memory.stat": ("cache 0\nrss 0\nmapped_file 0\npgfault 0\npgmajfault 0", rules.read_only),
        "memory.swappiness": ("60", rules.whole(0, 200, beyond=errno.EINVAL)),
        "memory.usage_in_bytes": ("0", rules.read_only),
    },
    "blkio": {
        "blkio.bfq.weight": ("100", rules.whole(1, 1000)),
        "blkio.throttle.read_bps_device": ("", rules.for_device),
        "blkio.throttle.read_iops_device": ("", rules.for_device),
        "blkio.throttle.write_bps_device": ("", rules.for_device),
        "blkio.throttle.write_iops_device": ("", rules.for_device),
        "blkio.weight": ("500", rules.whole(10, 1000)),
    },
    "hugetlb": {
        "hugetlb.2MB.limit_in_bytes": (_HUGE_V1, _SIZE_V1),
        "hugetlb.2MB.usage_in_bytes": ("0", rules.read_only),
    },
    "pids": {
        "pids.current": ("0", rules.read_only),
        "pids.max": ("max", rules.number_or_max),
    },
}

INITIAL = {
    **{kind: {name: f"{text}\n" for name, (text, _) in knobs.items()} for kind, knobs in V1.items()},
    "": {name: f"{text}\n" for name, (text, _) in V2.items()},
}
"""The files of a new cgroup and their content, by v1 controller, and for v2 under ""."""


def rule_of(knob: str, version: int) -> Rule:
    """Return the rule of a file; any text for one that is not in the table."""
    found = V2.get(knob) if version == 2 else V1.get(knob.partition(".")[0], {}).get(knob)
    return found[1] if found is not None else rules.anything
