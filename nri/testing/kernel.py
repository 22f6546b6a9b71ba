"""The effect of a write to a cgroup's file, by the table of knobs of ``nri.cgroups``.

A write is refused with EINVAL if its text is not a value of the knob, or a quota is below the burst, and with ERANGE
or EINVAL if a CPU does not exist. A file that is not in the table takes any text. The rules of v1 between a cgroup
and its parent or children are not imitated: a test asks for such an error with
``nri.testing.CgroupTree.refuse``.

Sources: ``kernel/cgroup/cpuset.c`` and ``kernel/sched/core.c`` (tg_set_cfs_bandwidth).
"""

from __future__ import annotations

import errno
import os
from typing import NoReturn

from nri.cgroups import cpulist, quota
from nri.cgroups.cpuset import Numbers
from nri.cgroups.knob import number
from nri.cgroups.knob_table import TABLE
from nri.cgroups.knob_values import DefaultWeight
from nri.testing.cgroup_files import UNLIMITED

_VALUES = {
    (name, version): (file.values, knob.can_be_written)
    for knob in TABLE.values()
    for version, file in knob.files.items()
    for name in file.names()
}
_BURST = {1: "cpu.cfs_burst_us", 2: "cpu.max.burst"}


class Surroundings:
    """The cgroup of a file that is written.

    :param cpus: the CPUs of the machine; the memory nodes are 0 only.
    """

    def __init__(self, directory: str, version: int, cpus: frozenset[int]) -> None:
        self.directory, self.version, self.cpus = directory, version, cpus

    def read(self, file: str) -> str:
        """Return the text of a file in this cgroup, "" if there is none."""
        try:
            with open(f"{self.directory}/{file}", encoding="ascii") as opened:
                return opened.read().strip()
        except OSError:
            return ""


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
        item = values.parse(text)
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
    return UNLIMITED if values.word(item) == "-1" else values.word(values.stored(item))


def _numbers(file: str, numbers: frozenset[int], at: Surroundings) -> str:
    there = at.cpus if file == "cpuset.cpus" else frozenset({0})
    if not numbers <= there:  # one that the machine cannot have, or one that is offline
        refuse(errno.ERANGE if file == "cpuset.cpus" and max(numbers) > max(there) else errno.EINVAL)
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
        return str(new.period_us) if file == quota.PERIOD_V1 else str(new.quota_us or -1)
    return str(new).replace("/", " ")


def _quota(at: Surroundings) -> quota.Quota:
    return quota.CPU_MAX.files[at.version].read(at.directory)  # type: ignore[no-any-return]


def _check_burst(burst: int, limit: quota.Quota) -> None:
    if limit.quota_us is not None and burst > limit.quota_us:
        refuse(errno.EINVAL)
