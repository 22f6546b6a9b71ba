"""The values of knobs: what a plugin reads and writes, and the kernel's words for it. No file is touched here.

A text may hold what cannot be written, such as the weight 0 of a cgroup with ``cpu.idle``: ``parse`` is more lenient
than ``accepts``.
"""

# ruff: noqa: D102 -- the base class describes the methods

from __future__ import annotations

from . import cpulist
from .quota import MAX_QUOTA_US, Quota

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Conversion = tuple[Callable[[int], int], Callable[[int], int]]

MOST = 2**63 - 1
"""LONG_MAX: v1 shows "no limit" as the greatest multiple of a page that is not above."""


def number(word: str) -> int:
    """Return a decimal number of the kernel's, which may be negative. Raise ValueError for any other text."""
    digits = word.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 20:  # 64 bits have at most 20 digits
        raise ValueError(word)
    return int(word)


class Values:
    """The values of a knob; this one has any whole number from *low* to *high*, or None if *none* is a word.

    :param none: the kernel's word for no limit.
    :param step: of how many the kernel stores whole multiples, rounded down.
    :param convert: from the file's number to the value, and back: for v1.
    :ivar expected: the values that a plugin may write, for people.
    """

    __slots__ = ("_from_file", "_high", "_low", "_none", "_step", "_to_file", "expected")

    def __init__(
        self,
        low: int = 0,
        high: int = MOST,
        none: str = "",
        unit: str = "a number",
        *,
        step: int = 1,
        convert: Conversion = (int, int),
    ) -> None:
        shown = "2**63 - 1" if high == MOST else high
        self.expected = f"{unit} from {low} to {shown}" + (", or None for no limit" if none else "")
        self._low, self._high, self._none, self._step = low, high, none, step
        self._from_file, self._to_file = convert

    def accepts(self, value: Any) -> bool:
        """Return whether a plugin may write this value."""
        if value is None:
            return bool(self._none)
        return type(value) is int and self._low <= value <= self._high  # True is an int, too

    def parse(self, text: str) -> Any:
        """Return the value in the text of a file; raise ValueError if it has anything else."""
        if self._none and text == self._none:
            return None
        value = number(text)
        if value < min(self._low, 0):
            raise ValueError(text)
        if self._none and value // self._step >= MOST // self._step:
            return None
        return self._from_file(value)

    def word(self, value: Any) -> str:
        """Return the kernel's word for a value."""
        return self._none if value is None else str(self._to_file(value))

    def stored(self, value: Any) -> Any:
        """Return the value that the kernel makes of one."""
        return None if value is None else self._from_file(self._to_file(value)) // self._step * self._step

    def in_file(self, value: int) -> int:
        """Return the number that is written for a value."""
        return self._to_file(value)

    def same(self, now: Any, value: Any) -> bool:
        """Return whether the kernel would store the same for both values."""
        return bool(self.stored(now) == self.stored(value))

    def kept(self, now: Any, value: Any) -> bool:
        """Return whether *now* is what became of a value that was written, and told systemd."""
        return self.same(now, value)

    def limits(self, value: Any) -> bool:
        """Return whether a value is a limit."""
        return value is not None

    def tightest(self, one: Any, other: Any) -> Any:
        """Return the one of two values that limits more."""
        if one is None or other is None:
            return other if one is None else one
        return min(one, other)


class Flag(Values):
    """0 or 1, as a bool."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self.expected = "True or False"

    def accepts(self, value: Any) -> bool:
        return type(value) is bool

    def parse(self, text: str) -> bool:
        if text not in ("0", "1"):
            raise ValueError(text)
        return text == "1"

    def word(self, value: bool) -> str:
        return "1" if value else "0"

    def stored(self, value: bool) -> bool:
        return value


class Numbers(Values):
    """CPUs or memory nodes, as a frozenset of their numbers; the kernel's text is a list such as ``0-3,8``."""

    __slots__ = ()

    def __init__(self, kind: str, high: int) -> None:
        super().__init__(0, high)
        self.expected = f"a frozenset of {kind}, 0 to {high}"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, frozenset) and all(map(super().accepts, value))

    def parse(self, text: str) -> frozenset[int]:
        return cpulist.parse(text)

    def stored(self, value: frozenset[int]) -> frozenset[int]:
        return value


class Quotas(Values):
    """A CFS quota and its period, as a ``nri.cgroups.Quota``; ``nri.cgroups.quota`` has its files."""

    __slots__ = ("_period",)

    def __init__(self) -> None:
        super().__init__(1000, MAX_QUOTA_US, "max")
        self._period = Values(1000, 1_000_000)  # min_cfs_quota_period, max_cfs_quota_period, kernel/sched/core.c
        self.expected = "a Quota of 1000 µs or more, or of None for no limit, in a period of 1000 to 1000000 µs"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, Quota) and self._period.accepts(value.period_us) and super().accepts(value.quota_us)

    def stored(self, value: Quota | None) -> Quota | None:
        return value

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


class DefaultWeight(Values):
    """The weight of all devices without their own; those are left to ``read_text`` and ``write_text``."""

    __slots__ = ()

    def __init__(self, low: int, high: int, convert: Conversion = (int, int)) -> None:
        super().__init__(low, high, convert=convert)
        self.expected += ", for all devices without their own"

    def parse(self, text: str) -> int:
        # A number alone, or a line "default N" before those of devices.
        weight: int = super().parse(text.partition("\n")[0].removeprefix("default "))
        return weight


# Weights of cgroup v1 in those of v2, and back.
#
# Container runtimes get ``cpu.shares`` and ``blkio.weight``, whatever the node has, and convert them where it has
# v2. Here a plugin writes v2's weights, and where the node has v1 the conversion is turned around. So a weight means
# the same on both, and what a runtime has set reads as the weight that the same runtime would have set on v2.
#
# - **CPU**: runtimes had a straight line from 2..262144 to 1..10000, by which the default of 1024 shares became a
#   weight of 39, below the default of 100. runc 1.3.2 and crun 1.23 have a curve through both ends and both defaults:
#   ``log10(weight) = (l * l + 125 * l) / 612 - 7 / 34`` with ``l = log2(shares)``, rounded up. This is the one used
#   here. Every weight is that of some shares, so weight -> shares -> weight changes nothing.
# - **I/O**: runtimes have a straight line from 10..1000 to 1..10000. v2 has ten times as many weights: v1 gets
#   the nearest one that is not above, and reads as up to 10 less than what was written.
#
# Sources: opencontainers/cgroups, ``utils.go`` (ConvertCPUSharesToCgroupV2Value, ConvertBlkIOToIOWeightValue), which
# runc and the kubelet use, and crun's ``convert_shares_to_weight``.

MIN_SHARES, MAX_SHARES = 2, 262144
"""The kernel's bounds of cpu.shares (kernel/sched/sched.h); it takes any number, and stores the nearest of these."""

MIN_BLKIO = 10
"""The least blkio.weight that runtimes know. BFQ accepts 1 as well."""


def weight_of_shares(shares: int) -> int:
    """Return the cpu.weight, 1 to 10000, that runtimes make of cpu.shares."""
    import math

    if shares <= MIN_SHARES:
        return 1
    if shares >= MAX_SHARES:
        return 10000
    power = math.log2(shares)
    return math.ceil(10 ** ((power * power + 125 * power) / 612 - 7 / 34))


def shares_of_weight(weight: int) -> int:
    """Return the cpu.shares that a cpu.weight, 1 to 10000, comes from: the most that convert to this weight."""
    import math

    # The curve of weight_of_shares, solved for l.
    power = (math.sqrt(125 * 125 + 4 * (612 * math.log10(weight) + 126)) - 125) / 2
    return int(2**power)


def io_weight_of_blkio(weight: int) -> int:
    """Return the io.weight, 1 to 10000, that runtimes make of blkio.weight; below 10 (BFQ's) it is 1."""
    return 1 + (max(weight, MIN_BLKIO) - MIN_BLKIO) * 9999 // 990


def blkio_of_io_weight(weight: int) -> int:
    """Return the greatest blkio.weight, 10 to 1000, that does not convert to more than this io.weight."""
    return MIN_BLKIO + (weight * 990 - 1) // 9999
