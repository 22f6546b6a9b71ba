"""Values of the table's knobs beside plain numbers, and weights of cgroup v1 in those of v2.

No file is touched here.
"""

# ruff: noqa: D102 -- the base class describes the methods

from __future__ import annotations

from .knob import Values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .knob import Conversion


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
        return str(int(value))

    def stored(self, value: bool) -> bool:
        return value


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

MIN_SHARES = 2
MAX_SHARES = 262144
"""The kernel's bounds of cpu.shares (kernel/sched/sched.h); it takes any number, and stores the nearest of these."""

MIN_BLKIO = 10
"""The least blkio.weight that runtimes know. BFQ accepts 1 as well."""


def weight_of_shares(shares: int) -> int:
    """Return the cpu.weight, 1 to 10000, that runtimes make of cpu.shares."""
    import math

    power = math.log2(min(max(shares, MIN_SHARES), MAX_SHARES))
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
