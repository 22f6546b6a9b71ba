"""The values of knobs: what a plugin reads and writes, and the kernel's words for it. No file is touched here.

A value is handled as its items: one, with the key ``""``; or one for each device, with the key ``MAJOR:MINOR``,
``default`` for all others, or ``MAJOR:MINOR KEY`` where a device has several. An item None is no limit, or nothing
of a device's own.

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

    Items = dict[str, Any]

MOST = 2**63 - 1
"""LONG_MAX: v1 shows "no limit" as the greatest multiple of a page that is not above."""


def number(word: str) -> int:
    """Return a decimal number of the kernel's, which may be negative. Raise ValueError for any other text."""
    digits = word.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 20:  # 64 bits have at most 20 digits
        raise ValueError(word)
    return int(word)


def is_device(text: object) -> bool:
    """Return whether a text is a block device's number as the kernel writes it, ``MAJOR:MINOR``."""
    if not isinstance(text, str):
        return False
    parts = text.split(":")
    return len(parts) == 2 and all(
        part.isascii() and part.isdigit() and len(part) <= 7 and str(int(part)) == part for part in parts
    )


class Values:
    """The values of a knob; this one has any whole number from *low* to *high*, or None if *none* is a word.

    :param none: the kernel's word for no limit.
    :param step: of how many the kernel stores whole multiples, rounded down.
    :param convert: from the file's number to the value, and back: for v1.
    :ivar expected: what a plugin may write, for people.
    :ivar told: the key of the item that a unit of systemd's has.
    """

    __slots__ = ("_from_file", "_high", "_low", "_none", "_step", "_to_file", "expected")

    told = ""

    def __init__(
        self,
        low: int = 0,
        high: int = MOST,
        none: str = "",
        unit: str = "a number",
        *,
        step: int = 1,
        convert: tuple[Callable[[int], int], Callable[[int], int]] = (int, int),
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

    def items(self, value: Any) -> Items:
        """Return the items of a value."""
        return {"": value}

    def value(self, items: Items) -> Any:
        """Return the value of some items."""
        return items[""]

    def parse(self, text: str) -> Items:
        """Return the items in the text of a file; raise ValueError if it has anything else."""
        return {"": self.item(text)}

    def item(self, word: str) -> Any:
        """Return the item of the kernel's word for it; raise ValueError if it is none."""
        if self._none and word == self._none:
            return None
        found = number(word)
        if found < min(self._low, 0):
            raise ValueError(word)
        if self._none and found // self._step >= MOST // self._step:
            return None
        return self._from_file(found)

    def word(self, item: Any) -> str:
        """Return what is written for an item."""
        return self._none if item is None else str(self._to_file(item))

    def stored(self, item: Any) -> Any:
        """Return the item that the kernel makes of one."""
        return None if item is None else self._from_file(self._to_file(item)) // self._step * self._step

    def in_file(self, item: int) -> int:
        """Return the number that is written for an item."""
        return self._to_file(item)

    def same(self, now: Any, item: Any) -> bool:
        """Return whether the kernel would store the same for both items."""
        return bool(self.stored(now) == self.stored(item))

    def kept(self, now: Any, item: Any) -> bool:
        """Return whether *now* is what became of an item that was written, and told systemd."""
        return self.same(now, item)

    def limits(self, item: Any) -> bool:
        """Return whether an item is a limit."""
        return item is not None

    def tightest(self, one: Any, other: Any) -> Any:
        """Return the one of two items that limits more."""
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

    def item(self, word: str) -> bool:
        if word not in ("0", "1"):
            raise ValueError(word)
        return word == "1"

    def word(self, item: bool) -> str:
        return "1" if item else "0"

    def stored(self, item: bool) -> bool:
        return item


class Numbers(Values):
    """CPUs or memory nodes, as a frozenset of their numbers; the kernel's text is a list such as ``0-3,8``."""

    __slots__ = ()

    def __init__(self, what: str, high: int) -> None:
        super().__init__(0, high)
        self.expected = f"a frozenset of {what}, 0 to {high}"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, frozenset) and all(map(super().accepts, value))

    def item(self, word: str) -> frozenset[int]:
        return cpulist.parse(word)

    def stored(self, item: frozenset[int]) -> frozenset[int]:
        return item


class Quotas(Values):
    """A CFS quota and its period, as a :class:`nri.cgroups.Quota`; :mod:`nri.cgroups.quota` has its files."""

    __slots__ = ("_period",)

    def __init__(self) -> None:
        super().__init__(1000, MAX_QUOTA_US, "max")
        self._period = Values(1000, 1_000_000)  # min_cfs_quota_period, max_cfs_quota_period, kernel/sched/core.c
        self.expected = "a Quota of 1000 µs or more, or of None for no limit, in a period of 1000 to 1000000 µs"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, Quota) and self._period.accepts(value.period_us) and super().accepts(value.quota_us)

    def stored(self, item: Quota | None) -> Quota | None:
        return item

    def limits(self, item: Quota) -> bool:
        return item.quota_us is not None

    def kept(self, now: Quota, item: Quota) -> bool:
        if now.quota_us is None or item.quota_us is None:
            return now.quota_us is item.quota_us
        # systemd may have written the same share of another period, rounded to microseconds.
        difference = now.quota_us * item.period_us - item.quota_us * now.period_us
        return abs(difference) <= now.period_us + item.period_us

    def tightest(self, one: Quota, other: Quota) -> Quota:
        return other if other.is_tighter_than(one) else one


class ByDevice(Values):
    """A dict with a number for each device, or with a dict of some numbers for each.

    A plugin names the devices to change, and the others stay.

    :param numbers: by the key of ``KEY=NUMBER`` in a device's line; "" if the line has a number alone.
    :param default: whether there is one for all devices without their own, which no plugin can remove.
    """

    __slots__ = ("_default", "_first", "_removed", "numbers")

    told = "default"

    def __init__(self, numbers: dict[str, Values], expected: str, *, default: bool = False) -> None:
        super().__init__()
        self.numbers, self.expected, self._default = numbers, expected, default
        self._removed = "default" if default else "max"
        self._first = next(iter(numbers.values()))

    @property
    def has_one(self) -> bool:
        """Whether a device has one number, and not a dict of them."""
        return len(self.numbers) == 1

    def of(self, item: str) -> Values:
        """Return the numbers of an item, by its key."""
        return self._first if self.has_one else self.numbers[item.partition(" ")[2]]

    def accepts(self, value: Any) -> bool:
        return isinstance(value, dict) and bool(value) and all(map(self._accepts, value, value.values()))

    def _accepts(self, device: Any, own: Any) -> bool:
        if own is None:
            return is_device(device)
        if self.has_one:
            return (is_device(device) or (self._default and device == "default")) and self.of("").accepts(own)
        return (
            is_device(device)
            and isinstance(own, dict)
            and bool(own)
            and all(
                key in self.numbers and (each is None or self.numbers[key].accepts(each)) for key, each in own.items()
            )
        )

    def stored(self, item: Any) -> Any:
        return self._first.stored(item)

    def in_file(self, item: int) -> int:
        return self._first.in_file(item)

    def items(self, value: Any) -> Items:
        if self.has_one:
            return dict(value)
        return {
            f"{device} {key}": limit
            for device, own in value.items()
            for key, limit in (dict.fromkeys(self.numbers) if own is None else own).items()
        }

    def value(self, items: Items) -> Any:
        if self.has_one:
            return items
        found: dict[str, dict[str, int | None]] = {}
        for item, limit in items.items():
            device, _, key = item.partition(" ")
            found.setdefault(device, {})[key] = limit
        return found

    def parse(self, text: str) -> Items:
        found: Items = {}
        for line in text.splitlines():
            device, *words = line.split()
            if self._default and not words:  # a number alone is the default
                device, words = "default", [device]
            if not is_device(device) and not (self._default and device == "default"):
                raise ValueError(line)
            pairs = dict(word.rpartition("=")[::2] for word in words)
            if "" in pairs and "" not in self.numbers:
                raise ValueError(line)
            for key, numbers in self.numbers.items():
                if key in pairs:
                    item = device if self.has_one else f"{device} {key}"
                    found[item] = None if pairs[key] == "max" else numbers.item(pairs[key])
                elif self.has_one:
                    raise ValueError(line)
        return found

    def lines(self, items: Items) -> list[str]:
        """Return what is written for some items: a line for each device."""
        lines: dict[str, str] = {}
        for item, limit in items.items():
            device, key = item, next(iter(self.numbers))
            if not self.has_one:
                device, _, key = item.partition(" ")
            word = self._removed if limit is None else self.of(item).word(limit)
            line = lines.get(device) or ("" if device == "default" else device)
            lines[device] = f"{line} {key and f'{key}='}{word}".lstrip()
        return list(lines.values())
