"""The CFS quota: the CPU time that a cgroup may use per period, both in microseconds.

Sources: the kernel's ``Documentation/scheduler/sched-bwc.rst`` ("Management", v1: ``cpu.cfs_quota_us``, -1 for none,
and ``cpu.cfs_period_us``) and ``admin-guide/cgroup-v2.rst`` ("CPU Interface Files", v2: ``cpu.max``,
``$MAX $PERIOD``, where writing only a number or ``max`` keeps the period).
"""

from __future__ import annotations

import errno

from . import knobs
from .errors import CgroupError, quoted

KNOB = {1: "cpu.cfs_quota_us", 2: "cpu.max"}
"""The file that holds the quota, by version of the hierarchy."""

_NONE = {1: "-1", 2: "max"}
PERIOD_V1 = "cpu.cfs_period_us"
"""The file that holds the period in v1."""

_ABSENT = {
    1: "the kernel has no CFS quotas (CONFIG_CFS_BANDWIDTH), or this is no cpu cgroup",
    2: "the cgroup.subtree_control of the parent lacks cpu; '+cpu' written there enables it",
}
# The reasons behind the errors of kernel/sched/core.c (tg_set_cfs_bandwidth).
HINTS = {
    errno.EINVAL: "a quota may not be below cpu.max.burst, which has to be lowered first; and in v1 a cgroup may not "
    "have more than its parent, nor less than its children",
}

MAX_QUOTA_US = 2**44 - 1
"""The kernel's max_cfs_runtime."""


class Quota:
    """A CFS quota: ``quota_us`` of CPU time in every ``period_us``; None for ``quota_us`` means no limit."""

    __slots__ = ("period_us", "quota_us")

    def __init__(self, quota_us: int | None, period_us: int) -> None:
        self.quota_us, self.period_us = quota_us, period_us

    def __str__(self) -> str:
        """Return ``50000/100000`` or ``max/100000``."""
        return f"{'max' if self.quota_us is None else self.quota_us}/{self.period_us}"

    def __repr__(self) -> str:
        return f"Quota(quota_us={self.quota_us}, period_us={self.period_us})"

    def __eq__(self, other: object) -> bool:
        """Compare quota and period: equal ratios of other periods are not equal."""
        if not isinstance(other, Quota):
            return NotImplemented
        return (self.quota_us, self.period_us) == (other.quota_us, other.period_us)

    def __hash__(self) -> int:
        return hash((self.quota_us, self.period_us))

    def is_tighter_than(self, other: Quota) -> bool:
        """Return whether this allows less CPU time per wall time than *other*."""
        if self.quota_us is None:
            return False
        return other.quota_us is None or self.quota_us * other.period_us < other.quota_us * self.period_us


def read(directory: str, version: int) -> Quota:
    """Return the quota of the cgroup in *directory*."""
    path = f"{directory}/{KNOB[version]}"
    text = knobs.read(path, _ABSENT[version])
    words = text.split()
    if version == 1:
        period_path = f"{directory}/{PERIOD_V1}"
        words.append(knobs.read(period_path, _ABSENT[1]))
    if len(words) != 2:
        raise CgroupError(f"{path} holds {quoted(text)}: expected {_NONE[version]!r} or a number of microseconds")
    quota = None if words[0] == _NONE[version] else _microseconds(words[0], path)
    return Quota(quota, _microseconds(words[1], path if version == 2 else period_path))


def is_clear(directory: str, version: int) -> bool:
    """Return whether the cgroup in *directory* has no quota."""
    text = knobs.read(f"{directory}/{KNOB[version]}", _ABSENT[version])
    return text.partition(" ")[0] == _NONE[version]


def clear(directory: str, version: int) -> None:
    """Remove the quota of the cgroup in *directory*; the period stays."""
    knobs.write(f"{directory}/{KNOB[version]}", _NONE[version], _ABSENT[version])


def steps(version: int, quota: Quota, before: Quota) -> list[tuple[str, str]]:
    """Return what is written to which files for this quota and period in place of *before*."""
    word = _NONE[version] if quota.quota_us is None else str(quota.quota_us)
    if version == 2:
        return [(KNOB[2], f"{word} {quota.period_us}")]
    writes = [(KNOB[1], word)]
    if quota.period_us != before.period_us:
        # In between there is the tighter one of both: v1 refuses more than the parent has.
        is_first = quota.quota_us is not None and quota.period_us > before.period_us
        writes.insert(0 if is_first else 1, (PERIOD_V1, str(quota.period_us)))
    return writes


def _microseconds(word: str, path: str) -> int:
    if not (word.isascii() and word.isdigit()) or len(word) > 20 or int(word) == 0:  # 20 digits: 64 bits
        raise CgroupError(f"{path} holds {quoted(word)}: expected a number of microseconds greater than 0")
    return int(word)
