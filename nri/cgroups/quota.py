"""The CFS quota: the CPU time that a cgroup may use per period, both in microseconds.

Sources: the kernel's ``Documentation/scheduler/sched-bwc.rst`` ("Management", v1: ``cpu.cfs_quota_us``, -1 for none,
and ``cpu.cfs_period_us``) and ``admin-guide/cgroup-v2.rst`` ("CPU Interface Files", v2: ``cpu.max``,
``$MAX $PERIOD``, where writing only a number or ``max`` keeps the period).
"""

# ruff: noqa: D102 -- the base class describes the methods

from __future__ import annotations

import errno

from .knob import LIMIT, File, Knob, Limits, Values, number, text_of
from .units import INFINITY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .units import Unit

KNOB = {1: "cpu.cfs_quota_us", 2: "cpu.max"}
"""The file that holds the quota, by version of the hierarchy."""

PERIOD_V1 = "cpu.cfs_period_us"
"""The file that holds the period in v1."""

# The reasons behind the errors of kernel/sched/core.c (tg_set_cfs_bandwidth).
_HINTS = {
    errno.EINVAL: "a quota may not be below cpu.max.burst, which has to be lowered first; and in v1 a cgroup may not "
    "have more than its parent, nor less than its children",
}

_SECOND = 1_000_000  # microseconds
_PERIOD = 100_000  # systemd's own, in microseconds

MAX_QUOTA_US = 2**44 - 1
"""The kernel's max_cfs_runtime."""


class Quota:
    """A CFS quota: ``quota_us`` of CPU time in every ``period_us``; None for ``quota_us`` means no limit."""

    __slots__ = ("period_us", "quota_us")

    def __init__(self, quota_us: int | None, period_us: int) -> None:
        self.quota_us = quota_us
        self.period_us = period_us

    def __str__(self) -> str:
        """Return ``50000/100000`` or ``max/100000``."""
        quota = "max" if self.quota_us is None else self.quota_us
        return f"{quota}/{self.period_us}"

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
        return (
            other.quota_us is None
            or self.quota_us * other.period_us < other.quota_us * self.period_us
        )


CLEAR = Quota(None, 100_000)
"""No limit, in the period that there is."""


class Quotas(Limits):
    """A CFS quota and its period, as a ``Quota``: v1 and v2 have it as two words, ``str`` with a slash."""

    __slots__ = ("_period",)

    def __init__(self, none: str) -> None:
        super().__init__(none, 1000, MAX_QUOTA_US)
        # min_cfs_quota_period and max_cfs_quota_period of kernel/sched/core.c.
        self._period = Values(1000, 1_000_000)
        self.expected = (
            "a Quota of 1000 µs or more, or of None for no limit, in a period of 1000 to 1000000 µs"
        )

    def accepts(self, value: Any) -> bool:
        return (
            isinstance(value, Quota)
            and self._period.accepts(value.period_us)
            and super().accepts(value.quota_us)
        )

    def parse(self, text: str) -> Quota:
        limit, period = text.replace("/", " ").split()
        quota = Quota(super().parse(limit), number(period))
        if quota.quota_us == 0 or quota.period_us <= 0:
            raise ValueError(text)
        return quota

    def word(self, value: Quota) -> str:
        return f"{super().word(value.quota_us)}/{value.period_us}"

    def stored(self, value: Quota) -> Quota:
        return value

    def same(self, now: Quota, value: Quota) -> bool:
        return now == value or (value is CLEAR and now.quota_us is None)

    def shown(self, value: Quota) -> str:
        return str(value)

    def limits(self, value: Quota) -> bool:
        return value.quota_us is not None

    def kept(self, now: Quota, value: Quota) -> bool:
        if now.quota_us is None or value.quota_us is None:
            return now.quota_us is value.quota_us
        # systemd may have written the same share of another period, rounded to microseconds.
        difference = now.quota_us * value.period_us - value.quota_us * now.period_us
        return abs(difference) <= now.period_us + value.period_us

    def tightest(self, one: Quota, other: Quota) -> Quota:
        return other if other.is_tighter_than(one) else one


class QuotaFile(File):
    """The file of the quota and its period in v2."""

    __slots__ = ()

    def steps(self, directory: str, value: Quota, before: Quota) -> list[tuple[str, str]]:
        return [(self.name, " ".join(self._words(value, before)))]

    def _words(self, value: Quota, before: Quota) -> list[str]:
        """Return the kernel's words for the quota and the period."""
        period = before.period_us if value is CLEAR else value.period_us
        return self.values.word(Quota(value.quota_us, period)).split("/")

    def tell(self, unit: Unit, value: Quota) -> bool:
        """Give the unit this quota per second, rounded up, and its period if that is not systemd's own."""
        if value.quota_us is None:
            return unit.set_number(self.told, INFINITY)
        had_another = unit.set_number(self.told, -(-value.quota_us * _SECOND // value.period_us))
        if value.period_us != _PERIOD:
            had_another |= unit.set_number("CPUQuotaPeriodUSec", value.period_us)
        return had_another


class QuotaFilesV1(QuotaFile):
    """The files of the quota and its period in v1."""

    __slots__ = ()

    def names(self) -> tuple[str, ...]:
        return (self.name, PERIOD_V1)

    def read(self, directory: str) -> Quota:
        path = f"{directory}/{self.name}"
        text = f"{text_of(path)} {text_of(f'{directory}/{PERIOD_V1}')}"
        quota: Quota = self._value_in(text, f"{path} with {PERIOD_V1}", self.values)
        return quota

    def steps(self, directory: str, value: Quota, before: Quota) -> list[tuple[str, str]]:
        limit, period = self._words(value, before)
        writes = [(self.name, limit)]
        if period != str(before.period_us):
            # In between there is the tighter one of both: v1 refuses more than the parent has.
            is_first = value.quota_us is not None and value.period_us > before.period_us
            writes.insert(0 if is_first else 1, (PERIOD_V1, period))
        return writes


_TOLD = "CPUQuotaPerSecUSec"
_V1 = QuotaFilesV1(KNOB[1], Quotas("-1"), _TOLD, _HINTS)
_V2 = QuotaFile(KNOB[2], Quotas("max"), _TOLD, _HINTS)
CPU_MAX = Knob("cpu.max", LIMIT, _V2.values, "CONFIG_CFS_BANDWIDTH", v1=_V1, v2=_V2)
"""The knob of the quota."""
