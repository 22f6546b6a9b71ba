"""Kinds of values: what a plugin reads and writes, and the kernel's text for it. No file is touched here.

A text may hold a value that cannot be written, such as the weight 0 of a cgroup with ``cpu.idle``: ``parse`` is more
lenient than ``accepts``.
"""

# ruff: noqa: D102 -- the base class describes the methods

from __future__ import annotations

from . import cpulist
from .quota import Quota

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NO_LIMIT_V1 = 2**63 - 1
"""LONG_MAX: v1 shows "no limit" as the greatest multiple of a page (of a huge page) that is not above."""


def number(word: str) -> int:
    """Return a decimal number of the kernel's, which may be negative. Raise ValueError for any other text."""
    digits = word.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 20:  # 64 bits have at most 20 digits
        raise ValueError(word)
    return int(word)


class KnobKind:
    """What the kinds share: a value None means no limit where there is one, and the lower value limits more."""

    __slots__ = ("expected",)

    is_remarked = False
    """Whether the kernel may accept a value, and remark that it has no effect."""

    def __init__(self, expected: str) -> None:
        self.expected = expected

    def accepts(self, value: Any) -> bool:
        """Return whether a plugin may write this value."""
        raise NotImplementedError

    def parse(self, text: str) -> Any:
        """Return the value in the kernel's text; raise ValueError if it has none."""
        raise NotImplementedError

    def render(self, value: Any) -> str:
        """Return the text to write for a value that was accepted."""
        return str(value)

    def same(self, one: Any, other: Any) -> bool:
        """Return whether the kernel would store the same for both."""
        return bool(one == other)

    def is_kept(self, now: Any, value: Any) -> bool:
        """Return whether *now* is what becomes of *value* when it was written."""
        return self.same(now, value)

    def least(self, one: Any, other: Any) -> Any:
        """Return the one of two values that limits more."""
        if one is None or other is None:
            return other if one is None else one
        return min(one, other)


class CountKind(KnobKind):
    """A whole number within bounds. With *none*, the kernel's word for it, None stands for no limit."""

    __slots__ = ("_high", "_low", "_none")

    def __init__(self, low: int, high: int, none: str = "", unit: str = "a number") -> None:
        super().__init__(f"{unit} from {low} to {high}" + (", or None for no limit" if none else ""))
        self._low, self._high, self._none = low, high, none

    def accepts(self, value: Any) -> bool:
        if value is None:
            return bool(self._none)
        return type(value) is int and self._low <= value <= self._high  # True is an int, too

    def parse(self, text: str) -> int | None:
        return None if self._none and text == self._none else number(text)

    def render(self, value: int | None) -> str:
        return self._none if value is None else str(value)


class BytesKind(KnobKind):
    """A number of bytes, of which the kernel stores whole pages, rounded down. None stands for no limit."""

    __slots__ = ("_none", "step")

    def __init__(self, step: int, version: int) -> None:
        super().__init__("a number of bytes from 0 to 2**63 - 1, or None for no limit")
        self.step, self._none = step, {1: "-1", 2: "max"}[version]

    def accepts(self, value: Any) -> bool:
        return value is None or (type(value) is int and 0 <= value <= NO_LIMIT_V1)

    def parse(self, text: str) -> int | None:
        if text == self._none:
            return None
        found = number(text)
        if found < 0:
            raise ValueError(text)
        return None if found // self.step >= NO_LIMIT_V1 // self.step else found

    def render(self, value: int | None) -> str:
        return self._none if value is None else str(value)

    def same(self, one: int | None, other: int | None) -> bool:
        if one is None or other is None:
            return one is other
        return one // self.step == other // self.step


class PercentKind(KnobKind):
    """A percentage with two decimals, as a float or an int; None is ``max``, 100 %."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("a percentage from 0 to 100, or None for the maximum")

    def accepts(self, value: Any) -> bool:
        return value is None or (type(value) in (int, float) and 0 <= value <= 100)  # a NaN is not

    def parse(self, text: str) -> float | None:
        if text == "max":
            return None
        whole, _, rest = text.partition(".")
        if len(rest) > 2 or "-" in text:
            raise ValueError(text)
        return number(whole) + number((rest or "0").ljust(2, "0")) / 100

    def render(self, value: float | None) -> str:
        return "max" if value is None else f"{value:.2f}"

    def same(self, one: float | None, other: float | None) -> bool:
        return self._hundredths(one) == self._hundredths(other)

    def _hundredths(self, value: float | None) -> int:
        return 10000 if value is None else round(value * 100)


class FlagKind(KnobKind):
    """0 or 1, as a bool."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("True or False")

    def accepts(self, value: Any) -> bool:
        return type(value) is bool

    def parse(self, text: str) -> bool:
        if text not in ("0", "1"):
            raise ValueError(text)
        return text == "1"

    def render(self, value: bool) -> str:
        return "1" if value else "0"


class SetKind(KnobKind):
    """CPUs or memory nodes, as a frozenset of their numbers; the kernel's text is a list such as ``0-3,8``."""

    __slots__ = ("_high",)

    def __init__(self, what: str, high: int) -> None:
        super().__init__(f"a frozenset of {what}, 0 to {high}")
        self._high = high

    def accepts(self, value: Any) -> bool:
        return isinstance(value, frozenset) and all(type(each) is int and 0 <= each <= self._high for each in value)

    def parse(self, text: str) -> frozenset[int]:
        return cpulist.parse(text)

    def render(self, value: frozenset[int]) -> str:
        return cpulist.render(value) or "\n"  # nothing is no write at all


class WordKind(KnobKind):
    """One of some words, to which the kernel adds a remark if it has no effect: ``root invalid (…)``."""

    __slots__ = ("_words",)

    is_remarked = True

    def __init__(self, *words: str) -> None:
        super().__init__(f"one of {', '.join(map(repr, words))}")
        self._words = words

    def accepts(self, value: Any) -> bool:
        return value in self._words

    def parse(self, text: str) -> str:
        if text.partition(" ")[0] not in self._words:
            raise ValueError(text)
        return text


class QuotaKind(KnobKind):
    """A CFS quota and its period, as a :class:`nri.cgroups.Quota`. Files: :mod:`nri.cgroups.quota`."""

    __slots__ = ()
    MIN_US, MAX_PERIOD_US = 1000, 1_000_000  # min_cfs_quota_period, max_cfs_quota_period, kernel/sched/core.c
    MAX_QUOTA_US = 2**44 - 1  # max_cfs_runtime

    def __init__(self) -> None:
        super().__init__("a Quota of 1000 µs or more, or of None for no limit, in a period of 1000 to 1000000 µs")

    def accepts(self, value: Any) -> bool:
        return (
            isinstance(value, Quota)
            and type(value.period_us) is int
            and self.MIN_US <= value.period_us <= self.MAX_PERIOD_US
            and (
                value.quota_us is None
                or (type(value.quota_us) is int and self.MIN_US <= value.quota_us <= self.MAX_QUOTA_US)
            )
        )

    def least(self, one: Quota, other: Quota) -> Quota:
        return other if other.is_tighter_than(one) else one

    def is_kept(self, now: Quota, value: Quota) -> bool:
        if now.quota_us is None or value.quota_us is None:
            return now.quota_us is value.quota_us
        # systemd may have written the same share of another period, rounded to microseconds.
        difference = now.quota_us * value.period_us - value.quota_us * now.period_us
        return abs(difference) <= now.period_us + value.period_us
