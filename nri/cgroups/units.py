"""Cgroups that are units of systemd. systemd must know a value, or it takes it back.

For systemd the properties of a unit are what its cgroup should be. Whenever one of them changes (a kubelet sets a
slice's CPUWeight), it may write the others of that controller again, and it takes a controller away from a slice when
no unit below needs it. So a value of ours is made a property of the unit, for as long as the unit exists.

Sources: ``org.freedesktop.systemd1(5)`` (GetUnitByControlGroup, SetProperties), ``systemd.resource-control(5)``
(CPUQuota, AllowedCPUs, which is for cgroup v2 only), ``sd_booted(3)``. The table of knobs names their properties.
"""

from __future__ import annotations

import os

from .errors import UntoldError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from .systemd_bus import Bus

    Answer = TypeVar("Answer")

RUN = "/run"
"""The directory that has systemd's files, by default."""

INFINITY = 2**64 - 1
"""The number that stands for no limit in systemd's properties."""

_INTERFACES = {".scope": "Scope", ".slice": "Slice"}


class Systemd:
    """The node's systemd, which is asked only about cgroups that look like a unit's.

    :param run: where the node's ``/run`` is.
    :ivar untold: why it could not be asked or told; "" if it could, or if no unit was involved.
    """

    __slots__ = ("_bus", "_run", "_units", "untold")

    def __init__(self, run: str = RUN) -> None:
        self._run = run
        self.untold = ""
        self._bus: Bus | None = None
        self._units: dict[str, Unit | None] = {}

    def tell(self, cgroup: str, change: Callable[[Unit], Answer]) -> Answer | None:
        """Ask or change the unit that a cgroup is; return what *change* returns.

        :param cgroup: the path from the root of the node's hierarchy.
        :returns: None if the cgroup is no unit, or if systemd cannot be told; ``untold`` then has the reason.
        """
        if self.untold or not looks_like_unit(cgroup):
            return None
        try:
            if cgroup not in self._units:
                self._units[cgroup] = self._find(cgroup)
            unit = self._units[cgroup]
            return None if unit is None else change(unit)
        except UntoldError as error:
            self.untold = str(error)
            return None

    def _find(self, cgroup: str) -> Unit | None:
        if not os.path.isdir(f"{self._run}/systemd/system"):
            raise UntoldError(f"systemd does not run here: there is no {self._run}/systemd/system")
        from . import systemd_bus

        if self._bus is None:
            self._bus = systemd_bus.connect(self._run)
        name = cgroup.rpartition("/")[2]
        # systemd answers with the unit that owns the cgroup, which may be one above it.
        path = systemd_bus.object_path(name)
        if self._bus.unit_of(cgroup) == path:
            return Unit(name, path, self._bus)
        return None


class NoSystemd(Systemd):
    """Stands for a systemd where there is none: it is told nothing, and ``untold`` stays empty."""

    __slots__ = ()

    def tell(self, cgroup: str, change: Callable[[Unit], Answer]) -> Answer | None:  # noqa: D102
        return None


class Unit:
    """A scope or a slice of systemd. All methods raise UntoldError."""

    __slots__ = ("_bus", "_interface", "_path", "name")

    def __init__(self, name: str, path: str, bus: Bus) -> None:
        self.name = name
        self._path = path
        self._bus = bus
        self._interface = f"org.freedesktop.systemd1.{_INTERFACES[os.path.splitext(name)[1]]}"

    def set_number(self, name: str, value: int) -> bool:
        """Give the unit this number, if it has another; return whether it had another.

        ``INFINITY`` is no limit, or for a weight none of its own.
        """
        return self._set(name, self._get(name, int, "a number"), value)

    def set_numbers(self, name: str, numbers: frozenset[int]) -> bool:
        """Give the unit this set of CPUs or memory nodes, if it has another; return whether it had another."""
        mask = sum(1 << number for number in numbers)
        value = mask.to_bytes((mask.bit_length() + 7) // 8, "little")
        had = self._get(name, bytes, "bytes")
        return self._set(name, had.rstrip(b"\0"), value)

    def _set(self, name: str, had: int | bytes, value: int | bytes) -> bool:
        if had == value:
            return False
        self._bus.set(self._path, name, value)
        return True

    def _get(self, name: str, kind: type[Answer], expected: str) -> Answer:
        value = self._bus.get(self._path, self._interface, name)
        if not isinstance(value, kind):
            raise UntoldError(f"{self.name} has the {name} {value!r}, expected {expected}")
        return value


def looks_like_unit(cgroup: str) -> bool:
    """Return whether a cgroup's path is one that systemd gives to a unit: a scope or a slice below slices only."""
    *parents, name = cgroup.removeprefix("/").split("/")
    return name.endswith(tuple(_INTERFACES)) and all(
        parent.endswith(".slice") for parent in parents
    )
