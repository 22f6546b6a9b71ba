"""Pressure stall information (PSI): how long the tasks of a cgroup waited for a resource.

Source: the kernel's ``Documentation/accounting/psi.rst`` and ``admin-guide/cgroup-v2.rst`` (``cpu.pressure``).
"""

from __future__ import annotations

from . import knobs
from .errors import CgroupError, quoted

RESOURCES = ("cpu", "memory", "io", "irq")

_ABSENT = "the kernel has no PSI (CONFIG_PSI, and psi=1 if CONFIG_PSI_DEFAULT_DISABLED), or cgroup.pressure is 0 here"
_NO_IRQ = "the kernel has no PSI of interrupts (Linux 6.1 with CONFIG_IRQ_TIME_ACCOUNTING), or none at all"
_EXPECTED = "lines such as 'some avg10=0.00 avg60=0.00 avg300=0.00 total=0'"


class Stall:
    """The time in which tasks waited: percentages of the last seconds, and the sum.

    :ivar avg10: per cent of the last 10 seconds, a float; likewise ``avg60`` and ``avg300``.
    :ivar total: all of it, in microseconds.
    """

    __slots__ = ("avg10", "avg60", "avg300", "total")

    def __init__(self, avg10: float, avg60: float, avg300: float, total: int) -> None:
        self.avg10, self.avg60, self.avg300, self.total = avg10, avg60, avg300, total

    def __repr__(self) -> str:
        return f"Stall(avg10={self.avg10}, avg60={self.avg60}, avg300={self.avg300}, total={self.total})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stall):
            return NotImplemented
        return repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


class Pressure:
    """The pressure on one resource.

    :ivar some: the time in which at least one task waited; None where the kernel does not count it (``irq``).
    :ivar full: the time in which all tasks waited at once; None where it is not counted (``cpu`` before Linux 5.13).
    """

    __slots__ = ("full", "some")

    def __init__(self, some: Stall | None, full: Stall | None) -> None:
        self.some, self.full = some, full

    def __repr__(self) -> str:
        return f"Pressure(some={self.some}, full={self.full})"


def check(resource: str) -> None:
    """Raise CgroupError unless this is one of :data:`RESOURCES`."""
    if resource not in RESOURCES:
        raise CgroupError(
            f"the resource {quoted(str(resource))} has no pressure: expected one of {', '.join(RESOURCES)}"
        )


def read(directory: str, resource: str) -> Pressure:
    """Return the pressure on a resource in the cgroup of v2 in *directory*."""
    path = f"{directory}/{resource}.pressure"
    text = knobs.read(path, _NO_IRQ if resource == "irq" else _ABSENT)
    try:
        return parse(text)
    except ValueError as error:
        raise CgroupError(f"{path} holds {quoted(text)}: expected {_EXPECTED}") from error


def parse(text: str) -> Pressure:
    """Return the pressure in the kernel's text; raise ValueError if it is none."""
    found: dict[str, Stall] = {}
    for line in text.splitlines():
        kind, *pairs = line.split(" ")
        words = dict(pair.partition("=")[::2] for pair in pairs)
        if kind not in ("some", "full") or kind in found or list(words) != ["avg10", "avg60", "avg300", "total"]:
            raise ValueError(line)
        averages = [_percent(words[name]) for name in ("avg10", "avg60", "avg300")]
        found[kind] = Stall(averages[0], averages[1], averages[2], _whole(words["total"]))
    if not found:
        raise ValueError("empty")
    return Pressure(found.get("some"), found.get("full"))


def _percent(word: str) -> float:
    whole, _, rest = word.partition(".")
    if len(rest) != 2:
        raise ValueError(word)
    return _whole(whole) + _whole(rest) / 100


def _whole(word: str) -> int:
    if not (word.isascii() and word.isdigit()) or len(word) > 20:  # 64 bits have at most 20 digits
        raise ValueError(word)
    return int(word)
