"""Forms of knobs that cgroup v1 has and v2 has not: other numbers, other files, other rules.

Sources: the kernel's ``Documentation/admin-guide/cgroup-v1/memory.rst`` (2.4, memsw counts memory and swap),
``mm/memcontrol-v1.c`` (mem_cgroup_resize_max: the limit may not be above that of memsw), and ``blkio-controller.rst``
(weights and throttling; 0 removes a rule).
"""

# ruff: noqa: D102 -- the base class describes the methods

from __future__ import annotations

import errno

from . import knobs
from .errors import CgroupError
from .knob_devices import HINTS, LIMITS, DeviceLimits, PerDevice, flat, nested, parse_weights
from .knob_forms import AbsentFileError, OneFile, parsed, put, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .knob_devices import Limits, Weights
    from .knob_kinds import KnobKind

MEMORY, MEMORY_AND_SWAP = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"

MEMORY_HINTS = {
    errno.EBUSY: "the cgroup uses more than that, and the kernel could not reclaim enough",
    errno.EINVAL: f"in v1 {MEMORY} may not be above {MEMORY_AND_SWAP}",
}

_THROTTLES = {
    "rbps": "blkio.throttle.read_bps_device",
    "wbps": "blkio.throttle.write_bps_device",
    "riops": "blkio.throttle.read_iops_device",
    "wiops": "blkio.throttle.write_iops_device",
}


class Converted(OneFile):
    """A file whose number is converted to v2's, and back."""

    __slots__ = ("_from_v2", "_to_v2")

    def __init__(
        self,
        file: str,
        kind: KnobKind,
        to_v2: Callable[[int], int],
        from_v2: Callable[[int], int],
        hints: Mapping[int, str] | None = None,
    ) -> None:
        super().__init__(file, kind, hints)
        self._to_v2, self._from_v2 = to_v2, from_v2

    def read(self, directory: str) -> int:
        return self._to_v2(super().read(directory))

    def same(self, one: int, other: int) -> bool:
        return self._from_v2(one) == self._from_v2(other)

    def write(self, directory: str, value: int, before: Any) -> None:
        put(directory, self.hints, (self.file, str(self._from_v2(value))))


class MemoryLimit(OneFile):
    """The memory's limit. v1 limits memory and swap together, so that limit moves along: the swap's own stays."""

    __slots__ = ()

    def files(self) -> tuple[str, ...]:
        return (self.file, MEMORY_AND_SWAP)

    def write(self, directory: str, value: int | None, before: int | None) -> None:
        try:
            both = OneFile(MEMORY_AND_SWAP, self.kind).read(directory)
        except AbsentFileError:  # a kernel without swap accounting
            both = None
        steps = [(self.file, self.kind.render(value))]
        if both is not None:
            moved = None if value is None or before is None else value + max(both - before, 0)
            # The kernel refuses a limit of the memory above that of both, at any moment.
            is_raised = moved is None or moved > both
            steps.insert(0 if is_raised else 1, (MEMORY_AND_SWAP, self.kind.render(moved)))
        put(directory, MEMORY_HINTS, *steps)


class SwapLimit(OneFile):
    """The swap's limit: memory and swap together, less the memory. Without a limit of the memory there is none."""

    __slots__ = ()

    def files(self) -> tuple[str, ...]:
        return (f"{self.file} - {MEMORY}",)

    def read(self, directory: str) -> int | None:
        both, memory = super().read(directory), self._memory(directory)
        return None if both is None or memory is None else max(both - memory, 0)

    def write(self, directory: str, value: int | None, before: int | None) -> None:
        memory = self._memory(directory)
        if value is not None and memory is None:
            raise CgroupError(
                f"{directory}/{self.file} cannot limit swap to {value} bytes: in v1 it limits memory and swap "
                f"together, and {MEMORY} is unlimited; expected memory.max to be set before memory.swap.max"
            )
        super().write(directory, None if value is None or memory is None else memory + value, before)

    def _memory(self, directory: str) -> int | None:
        limit: int | None = OneFile(MEMORY, self.kind).read(directory)
        return limit


class BlkioWeights(PerDevice):
    """Weights in two files, for all devices and by device. The first of *names* that is there counts."""

    __slots__ = ("_from_v2", "_names", "_to_v2")

    def __init__(
        self, kind: KnobKind, to_v2: Callable[[int], int], from_v2: Callable[[int], int], *names: str
    ) -> None:
        super().__init__(names[0], kind)
        self._names, self._to_v2, self._from_v2 = names, to_v2, from_v2

    def files(self) -> tuple[str, ...]:
        return tuple(name + end for name in self._names for end in ("", "_device"))

    def read(self, directory: str) -> dict[str, int]:
        name, expected = self._name(directory), "lines of 'MAJOR:MINOR WEIGHT'"
        weights = {}
        if knobs.exists(f"{directory}/{name}_device"):
            weights = parsed(directory, f"{name}_device", parse_weights, expected)
        weights |= parsed(directory, name, parse_weights, "a weight")
        return {device: self._to_v2(weight) for device, weight in weights.items()}

    def same(self, one: int | None, other: int | None) -> bool:
        if one is None or other is None:
            return one is other
        return self._from_v2(one) == self._from_v2(other)

    def write(self, directory: str, value: Weights, before: Any) -> None:
        name = self._name(directory)
        words = {key: str(0 if weight is None else self._from_v2(weight)) for key, weight in value.items()}
        if words.keys() - {"default"}:
            text_of(directory, f"{name}_device")
        put(
            directory,
            HINTS,
            *(
                (name, word) if key == "default" else (f"{name}_device", f"{key} {word}")
                for key, word in words.items()
            ),
        )

    def _name(self, directory: str) -> str:
        for name in self._names:
            if knobs.exists(f"{directory}/{name}"):
                return name
        raise AbsentFileError(f"{directory}/{self._names[0]}")


class Throttles(DeviceLimits):
    """Limits by device, in a file for each of their keys."""

    __slots__ = ()

    def __init__(self, kind: KnobKind) -> None:
        super().__init__(_THROTTLES["rbps"], kind)

    def files(self) -> tuple[str, ...]:
        return tuple(_THROTTLES.values())

    def read(self, directory: str) -> Any:
        found = {
            (device, key): limit
            for key, file in _THROTTLES.items()
            for device, limit in parsed(directory, file, parse_weights, "lines of 'MAJOR:MINOR LIMIT'").items()
        }
        return {device: dict.fromkeys(LIMITS) | limits for device, limits in nested(found).items()}

    def write(self, directory: str, value: Limits, before: Any) -> None:
        limits = flat(value).items()
        put(directory, HINTS, *((_THROTTLES[key], f"{device} {limit or 0}") for (device, key), limit in limits))
