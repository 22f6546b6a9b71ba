"""The I/O knobs, whose values are by block device: ``MAJOR:MINOR``, as the kernel writes it.

A plugin names the devices to change, and the others stay; None removes a device's own value. The kernel takes one
device a write(2).

Sources: the kernel's ``Documentation/admin-guide/cgroup-v2.rst`` ("IO Interface Files", "IO Latency Interface
Files"), ``block/blk-throttle.c`` (the keys of io.max and their bounds), ``block/blk-iolatency.c``,
``block/bfq-cgroup.c``.
"""

# ruff: noqa: D102 -- the base class describes the methods

from __future__ import annotations

import errno

from .knob_forms import UNCHANGED, KnobForm, parsed, put
from .knob_kinds import KnobKind, number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Weights = Mapping[str, int | None]
    Limits = Mapping[str, Mapping[str, int | None] | None]
    Flat = dict[tuple[str, str], int | None]

_OPERATIONS = 2**32 - 2  # one more is UINT_MAX, which the kernel takes for no limit
LIMITS = {"rbps": 2**64 - 2, "wbps": 2**64 - 2, "riops": _OPERATIONS, "wiops": _OPERATIONS}
"""The keys of io.max, with the greatest limit of each."""

HINTS = {
    errno.ENODEV: "there is no such block device",
    errno.EOPNOTSUPP: "the I/O scheduler of this device, or this kernel, does not support it",
    errno.ERANGE: "the kernel does not accept this number",
    errno.EINVAL: "the kernel does not accept this value, or not for this device",
}


def is_device(text: object) -> bool:
    """Return whether a text is a block device's number, ``MAJOR:MINOR``."""
    if not isinstance(text, str):
        return False
    parts = text.split(":")
    return len(parts) == 2 and all(
        part.isascii() and part.isdigit() and len(part) <= 7 and str(int(part)) == part for part in parts
    )


class DeviceKind(KnobKind):
    """Numbers by device, None for none of its own. With *default* there is one for all other devices."""

    __slots__ = ("_default", "_high", "_low")

    def __init__(self, what: str, low: int, high: int, *, default: bool = False) -> None:
        example = "{'default': 100, '8:0': 200}" if default else "{'8:0': 75000}"
        super().__init__(f"a dict such as {example}, {what} from {low} to {high}, or None for none of a device's own")
        self._low, self._high, self._default = low, high, default

    def accepts(self, value: Any) -> bool:
        return isinstance(value, dict) and bool(value) and all(map(self._is_item, value, value.values()))

    def _is_item(self, key: Any, value: Any) -> bool:
        if value is None:
            return is_device(key)
        is_key = is_device(key) or (self._default and key == "default")
        return is_key and type(value) is int and self._low <= value <= self._high


class LimitsKind(KnobKind):
    """Limits by device, each a dict with some of :data:`LIMITS`. None is no limit, and for a device none at all."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(
            "a dict such as {'8:0': {'rbps': 1048576, 'wiops': None}}, with limits from 1 "
            f"({', '.join(f'{key} to {high}' for key, high in LIMITS.items())}) or None for no limit"
        )

    def accepts(self, value: Any) -> bool:
        return isinstance(value, dict) and bool(value) and all(map(self._is_item, value, value.values()))

    def _is_item(self, device: Any, limits: Any) -> bool:
        if limits is None:
            return is_device(device)
        is_item = is_device(device) and isinstance(limits, dict) and bool(limits)
        return is_item and all(
            key in LIMITS and (limit is None or (type(limit) is int and 1 <= limit <= LIMITS[key]))
            for key, limit in limits.items()
        )

    def least(self, one: Limits, other: Limits) -> dict[str, dict[str, int | None]]:
        ones, others = flat(one), flat(other)
        return nested(
            {item: super(LimitsKind, self).least(ones.get(item), others.get(item)) for item in ones | others}
        )


class PerDevice(KnobForm):
    """A file with a value for each device; those that a plugin does not name stay."""

    __slots__ = ()

    def changed(self, before: Weights, value: Weights) -> Any:
        changes = {key: new for key, new in value.items() if not self.same(before.get(key), new)}
        return changes or UNCHANGED

    def is_kept(self, now: Weights, value: Weights) -> bool:
        return self.changed(now, value) is UNCHANGED

    def previous(self, before: Weights, value: Weights) -> dict[str, int | None]:
        return {key: before.get(key) for key in value}


class DeviceWeights(PerDevice):
    """Weights by device, and the one of all others: ``io.weight``."""

    __slots__ = ()

    def read(self, directory: str) -> Any:
        return parsed(directory, self.file, parse_weights, "lines of 'default WEIGHT' and 'MAJOR:MINOR WEIGHT'")

    def write(self, directory: str, value: Weights, before: Any) -> None:
        words = {key: "default" if weight is None else str(weight) for key, weight in value.items()}
        lines = [word if key == "default" else f"{key} {word}" for key, word in words.items()]
        put(directory, HINTS, *((self.file, line) for line in lines))


class DeviceLatency(PerDevice):
    """The latency that the cgroup's I/O is to have, in microseconds by device: ``io.latency``."""

    __slots__ = ()

    def read(self, directory: str) -> Any:
        return parsed(directory, self.file, parse_latency, "lines such as '8:0 target=75000'")

    def write(self, directory: str, value: Weights, before: Any) -> None:
        lines = [f"{device} target={'max' if target is None else target}" for device, target in value.items()]
        put(directory, HINTS, *((self.file, line) for line in lines))


class DeviceLimits(KnobForm):
    """Limits by device: ``io.max``."""

    __slots__ = ()

    def read(self, directory: str) -> Any:
        return parsed(
            directory, self.file, parse_limits, "lines such as '8:0 rbps=1048576 wbps=max riops=max wiops=max'"
        )

    def changed(self, before: Limits, value: Limits) -> Any:
        had = flat(before)
        return nested({item: limit for item, limit in flat(value).items() if had.get(item) != limit}) or UNCHANGED

    def previous(self, before: Limits, value: Limits) -> Any:
        had = flat(before)
        return nested({item: had.get(item) for item in flat(value)})

    def own(self, inner: Limits, value: Limits) -> Any:
        has = flat(inner)
        return nested({item: limit for item, limit in flat(value).items() if has.get(item)}) or UNCHANGED

    def write(self, directory: str, value: Limits, before: Any) -> None:
        lines = [
            " ".join([device, *(f"{key}={'max' if limit is None else limit}" for key, limit in limits.items())])
            for device, limits in nested(flat(value)).items()
        ]
        put(directory, HINTS, *((self.file, line) for line in lines))


def flat(value: Limits) -> Flat:
    """Return the limits by device and key; all keys for a device whose limits are None."""
    return {
        (device, key): limit
        for device, limits in value.items()
        for key, limit in (dict.fromkeys(LIMITS) if limits is None else limits).items()
    }


def nested(limits: Flat) -> dict[str, dict[str, int | None]]:
    """Return limits by device."""
    found: dict[str, dict[str, int | None]] = {}
    for (device, key), limit in limits.items():
        found.setdefault(device, {})[key] = limit
    return found


def parse_weights(text: str) -> dict[str, int]:
    """Return the weights in a text; raise ValueError if it has anything else.

    The lines are ``default N`` and ``MAJOR:MINOR N``, or a number alone, which is the default.
    """
    found: dict[str, int] = {}
    for line in text.splitlines():
        key, blank, word = line.partition(" ")
        if not blank:
            key, word = "default", line
        if key != "default" and not is_device(key):
            raise ValueError(line)
        found[key] = number(word)
    return found


def parse_limits(text: str) -> dict[str, dict[str, int | None]]:
    """Return the limits in the text of io.max, by device; raise ValueError if it is none."""
    return {
        device: {key: None if words[key] == "max" else number(words[key]) for key in LIMITS if key in words}
        for device, words in parse_nested(text).items()
    }


def parse_latency(text: str) -> dict[str, int]:
    """Return the targets in the text of io.latency, by device; raise ValueError if it is none."""
    return {device: number(words.get("target", "")) for device, words in parse_nested(text).items()}


def parse_nested(text: str) -> dict[str, dict[str, str]]:
    """Return the words of each line ``MAJOR:MINOR KEY=WORD …``, by device; raise ValueError for another one."""
    found: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        device, *pairs = line.split()
        if not is_device(device) or not all("=" in pair for pair in pairs):
            raise ValueError(line)
        found[device] = {key: word for key, _, word in (pair.partition("=") for pair in pairs)}
    return found
