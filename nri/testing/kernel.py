"""The files of a new cgroup, and the effect of a write: by the table of knobs of :mod:`nri.cgroups`.

A text that is no value of its knob is EINVAL, and a file that is not in the table takes any text. Beside the table
are the rules between files and cgroups that a plugin meets: a cpuset of v1 has its parent's CPUs at most (EACCES) and
its children's at least (EBUSY), and is not emptied under a process (ENOSPC); a quota of v1 is no more than the
parent's and no less than the children's, and none is below the burst (EINVAL).

Sources: ``kernel/cgroup/cpuset.c``, ``cpuset-v1.c`` and ``kernel/sched/core.c`` (tg_set_cfs_bandwidth).
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, NoReturn

from nri.cgroups import cpulist, quota
from nri.cgroups.knob_table import PAGE, TABLE
from nri.cgroups.knob_values import MOST, DefaultWeight, Numbers, number

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNLIMITED = str(MOST // PAGE * PAGE)  # what v1 shows for no limit
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}

INITIAL = {
    "": {
        "cgroup.controllers": "cpuset cpu io memory pids",
        "cgroup.events": "populated 0\nfrozen 0",
        "cgroup.freeze": "0",
        "cgroup.procs": "",
        "cgroup.subtree_control": "cpuset cpu io memory pids",
        "cgroup.type": "domain",
        "cpu.idle": "0",
        "cpu.max": "max 100000",
        "cpu.max.burst": "0",
        "cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0",
        "cpu.stat": "usage_usec 0\nuser_usec 0\nsystem_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0",
        "cpu.weight": "100",
        "cpu.weight.nice": "0",
        "cpuset.cpus": "",
        "cpuset.cpus.effective": "",
        "cpuset.mems": "",
        "cpuset.mems.effective": "0",
        "io.latency": "",
        "io.max": "",
        "io.stat": "",
        "io.weight": "default 100",
        "memory.current": "0",
        "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0",
        "memory.high": "max",
        "memory.low": "0",
        "memory.max": "max",
        "memory.min": "0",
        "memory.oom.group": "0",
        "memory.peak": "0",
        "memory.stat": "anon 0\nfile 0\npgfault 0\npgmajfault 0",
        "memory.swap.current": "0",
        "memory.swap.max": "max",
        "pids.current": "0",
        "pids.events": "max 0",
        "pids.max": "max",
    },
    "cpu": {
        "cpu.cfs_burst_us": "0",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "-1",
        "cpu.idle": "0",
        "cpu.shares": "1024",
        "cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0",
    },
    "cpuset": {
        "cpuset.cpus": "",
        "cpuset.effective_cpus": "",
        "cpuset.effective_mems": "0",
        "cpuset.mems": "0",
    },
    "memory": {
        "memory.limit_in_bytes": _UNLIMITED,
        "memory.memsw.limit_in_bytes": _UNLIMITED,
        "memory.soft_limit_in_bytes": _UNLIMITED,
        "memory.stat": "cache 0\nrss 0\npgfault 0\npgmajfault 0",
        "memory.usage_in_bytes": "0",
    },
    "blkio": {
        "blkio.bfq.weight": "100",
        "blkio.throttle.read_bps_device": "",
        "blkio.throttle.read_iops_device": "",
        "blkio.throttle.write_bps_device": "",
        "blkio.throttle.write_iops_device": "",
    },
    "pids": {"pids.current": "0", "pids.max": "max"},
}
"""The files of a new cgroup and their text, by v1 controller, and for v2 under ""."""

_VALUES = {
    (name, version): (file.values, knob.can_be_written)
    for knob in TABLE.values()
    for version, file in knob.files.items()
    for name in file.names()
}
_BURST = {1: "cpu.cfs_burst_us", 2: "cpu.max.burst"}


class Surroundings:
    """The cgroup of a file that is written.

    :param top: the mount of the hierarchy.
    :param cpus: the CPUs of the machine; the memory nodes are 0 only.
    :param has_tasks: whether a process is in the cgroup.
    """

    def __init__(self, directory: str, top: str, version: int, cpus: frozenset[int], *, has_tasks: bool) -> None:
        self.directory, self.top, self.version, self.cpus, self.has_tasks = directory, top, version, cpus, has_tasks

    def read(self, file: str, directory: str = "") -> str:
        """Return the text of a file in this cgroup, or in another *directory*; "" if there is none."""
        try:
            with open(f"{directory or self.directory}/{file}", encoding="ascii") as opened:
                return opened.read().strip()
        except OSError:
            return ""

    @property
    def parent(self) -> str:
        """The directory of the parent; "" for a child of the root, which limits nothing."""
        above = os.path.dirname(self.directory)
        return above if len(above) > len(self.top) else ""

    def children(self) -> Iterator[str]:
        """The directories of the cgroups in this one."""
        for name in sorted(os.listdir(self.directory)):
            if os.path.isdir(f"{self.directory}/{name}"):
                yield f"{self.directory}/{name}"


def refuse(number: int) -> NoReturn:
    """Raise the error of a system call."""
    raise OSError(number, os.strerror(number))


def written(file: str, text: str, at: Surroundings) -> str:
    """Return the new text of a file to which *text* is written; raise OSError if the kernel would refuse it."""
    text = text.strip()
    values, can_be_written = _VALUES.get((file, at.version), (None, True))
    if not can_be_written:
        refuse(errno.EINVAL)
    if values is None:
        return text
    try:
        if file in (quota.KNOB[at.version], quota.PERIOD_V1):
            return _bandwidth(file, text, at)
        item = values.parse(_bytes(text))
    except ValueError:
        refuse(errno.EINVAL)
    if isinstance(values, Numbers):
        return _numbers(file, item, at)
    if not values.accepts(item):
        refuse(errno.EINVAL)
    if file == _BURST[at.version]:
        _check_burst(item, _quota(at))
    if file == "cpu.shares":
        return text
    if isinstance(values, DefaultWeight):
        return f"default {item}" if at.version == 2 else text
    return _UNLIMITED if values.word(item) == "-1" else values.word(values.stored(item))


def _bytes(text: str) -> str:
    """Return a number without its unit, which the kernel takes for sizes: ``1M``."""
    digits, unit = text[:-1], text[-1:].lower()
    return str(int(digits) * _UNITS[unit]) if unit in _UNITS and digits.isdigit() else text


def _numbers(file: str, numbers: frozenset[int], at: Surroundings) -> str:
    there = at.cpus if file == "cpuset.cpus" else frozenset({0})
    if not numbers <= there:  # one that the machine cannot have, or one that is offline
        refuse(errno.ERANGE if file == "cpuset.cpus" and max(numbers) > max(there) else errno.EINVAL)
    if at.version == 1:
        if any(not cpulist.parse(at.read(file, child)) <= numbers for child in at.children()):
            refuse(errno.EBUSY)
        if at.parent and not numbers <= cpulist.parse(at.read(file, at.parent)):
            refuse(errno.EACCES)
        if not numbers and at.has_tasks:
            refuse(errno.ENOSPC)
    return cpulist.render(numbers)


def _bandwidth(file: str, text: str, at: Surroundings) -> str:
    new = _quota(at)
    if at.version == 2:
        first, *rest = text.split()
        new.quota_us = None if first == "max" else number(first)
        new.period_us = number(rest[0]) if rest else new.period_us
    elif file == quota.PERIOD_V1:
        new.period_us = number(text)
    else:
        new.quota_us = None if number(text) < 0 else number(text)
    if not TABLE["cpu.max"].values.accepts(new):
        refuse(errno.EINVAL)
    _check_burst(int(at.read(_BURST[at.version]) or 0), new)
    if at.version == 1:
        above = [_quota(at, at.parent)] if at.parent else []
        below = [_quota(at, child) for child in at.children()]
        if new.quota_us is not None and (
            any(each.is_tighter_than(new) for each in above)
            or any(each.quota_us is not None and new.is_tighter_than(each) for each in below)
        ):
            refuse(errno.EINVAL)
        return str(new.period_us) if file == quota.PERIOD_V1 else str(new.quota_us or -1)
    return str(new).replace("/", " ")


def _quota(at: Surroundings, directory: str = "") -> quota.Quota:
    return quota.read(directory or at.directory, at.version)


def _check_burst(burst: int, limit: quota.Quota) -> None:
    if limit.quota_us is not None and burst > limit.quota_us:
        refuse(errno.EINVAL)
