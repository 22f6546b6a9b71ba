"""The kernel's parsers of cgroup files: what a write makes of a file, or the error with which it is refused.

A rule takes the text that is written and the file's :class:`KnobSurroundings`; it returns the file's new content, or
raises OSError. Sources: the kernel's ``Documentation/admin-guide/cgroup-v2.rst`` and ``cgroup-v1``, and the errors of
``kernel/cgroup/cpuset.c`` and ``cpuset-v1.c``, ``kernel/sched/core.c`` (weights, quotas, clamps), ``mm/memcontrol.c``
with ``page_counter_memparse``, ``kernel/cgroup/pids.c`` and ``block/blk-iocost.c``.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, NoReturn

from nri.cgroups import cpulist
from nri.cgroups.errors import CpuListError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Rule = Callable[[str, "KnobSurroundings"], str]

PAGE = 4096
UNLIMITED = 2**63 - PAGE
"""What a file of v1's memory controller shows for no limit."""

_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50, "e": 1 << 60}


class KnobSurroundings:
    """The cgroup of a file that is written: its directory, and what the parsers look at beside the file.

    :param top: the mount of the hierarchy.
    :param cpus: the CPUs of the machine; the memory nodes are 0 only.
    :param has_tasks: whether a process is in the cgroup.
    """

    def __init__(self, directory: str, top: str, version: int, cpus: frozenset[int], *, has_tasks: bool) -> None:
        self.directory, self.top, self.version, self.cpus, self.has_tasks = directory, top, version, cpus, has_tasks

    def read(self, knob: str, directory: str = "") -> str:
        """Return the text of a file in this cgroup, or in another *directory*; "" if there is none."""
        try:
            with open(f"{directory or self.directory}/{knob}", encoding="ascii") as file:
                return file.read().strip()
        except OSError:
            return ""

    @property
    def parent(self) -> str:
        """The directory of the parent; "" for a child of the root, which limits nothing."""
        above = os.path.dirname(self.directory)
        return above if len(above) > len(self.top) else ""

    def children(self) -> Iterator[str]:
        """The directories of the cgroups in this one."""
        for name in sorted(os.listdir(self.directory)):
            if os.path.isdir(f"{self.directory}/{name}"):
                yield f"{self.directory}/{name}"


def refuse(number: int) -> NoReturn:
    """Raise the error of a system call."""
    raise OSError(number, os.strerror(number))


def anything(text: str, _: KnobSurroundings) -> str:
    """Take any text."""
    return text


def read_only(_text: str, _: KnobSurroundings) -> str:
    """Refuse a write to a file that can only be read: it has no function for it."""
    refuse(errno.EINVAL)


def whole(low: int, high: int, *, beyond: int = errno.ERANGE) -> Rule:
    """Return the rule of a number from *low* to *high*; *beyond* is the error for any other, if not for its sign."""

    def rule(text: str, _: KnobSurroundings) -> str:
        number = _integer(text)
        if not low <= number <= high:
            refuse(errno.EINVAL if number < 0 <= low else beyond)
        return str(number)

    return rule


def words(*known: str) -> Rule:
    """Return the rule of one of some words."""
    return lambda text, _: text.strip() if text.strip() in known else refuse(errno.EINVAL)


def shares(text: str, _: KnobSurroundings) -> str:
    """``cpu.shares``: any number, which is clamped."""
    number = _integer(text)
    if number < 0:
        refuse(errno.EINVAL)
    return str(min(max(number, 2), 262_144))


def io_weight(text: str, _: KnobSurroundings) -> str:
    """``io.weight``: a number for all devices; for one device, ``MAJOR:MINOR N``."""
    device, _blank, weight = text.strip().rpartition(" ")
    if not 1 <= _integer(weight) <= 10_000:
        refuse(errno.EINVAL)
    if device not in ("", "default") and not _is_device(device):
        refuse(errno.EINVAL)
    return f"{device or 'default'} {int(weight)}"


def for_device(text: str, _: KnobSurroundings) -> str:
    """A line that begins with ``MAJOR:MINOR``."""
    return text if _is_device(text.strip().partition(" ")[0]) else refuse(errno.EINVAL)


def size(*, none: str) -> Rule:
    """Return the rule of a number of bytes, with a unit or not; *none* is the word for no limit."""

    def rule(text: str, _: KnobSurroundings) -> str:
        text = text.strip().lower()
        if text == none:
            return none if none == "max" else str(UNLIMITED)
        number = _integer(text[:-1] or "?") * _UNITS[text[-1]] if text[-1:] in _UNITS else _integer(text)
        if number < 0:
            refuse(errno.EINVAL)
        return str(number // PAGE * PAGE)

    return rule


def number_or_max(text: str, _: KnobSurroundings) -> str:
    """``pids.max``: a number, or ``max``."""
    return "max" if text.strip() == "max" else whole(0, 1 << 22, beyond=errno.EINVAL)(text, _)


def clamp(text: str, _: KnobSurroundings) -> str:
    """``cpu.uclamp.*``: a percentage with two decimals at most, or ``max``."""
    text = text.strip()
    if text == "max":
        return text
    head, _point, decimals = text.partition(".")
    if not (head.isascii() and head.isdigit()) or len(decimals) > 2 or (decimals and not decimals.isdigit()):
        refuse(errno.EINVAL)
    if float(text) > 100:
        refuse(errno.ERANGE)
    return f"{float(text):.2f}"


def bandwidth(text: str, at: KnobSurroundings) -> str:
    """``cpu.max``: ``$MAX $PERIOD``; without a period the present one stays. sscanf reads no further than it must."""
    first, second, *_rest = [*text.split(), "", ""]
    quota = "max" if first == "max" else _leading_digits(first)
    period = _period(_leading_digits(second) or at.read("cpu.max").partition(" ")[2] or "100000")
    if quota != "max" and _integer(quota) < 1000:
        refuse(errno.EINVAL)
    return f"{quota} {period}"


def quota_v1(text: str, at: KnobSurroundings) -> str:
    """``cpu.cfs_quota_us``: a negative number for none; no child may have more than its parent."""
    quota = _integer(text)
    if 0 <= quota < 1000:
        refuse(errno.EINVAL)
    if quota < 0:
        return "-1"
    ratio = quota / _integer(at.read("cpu.cfs_period_us"))
    above, below = _ratio(at, at.parent) if at.parent else None, [_ratio(at, child) for child in at.children()]
    if (above is not None and ratio > above) or any(each is not None and each > ratio for each in below):
        refuse(errno.EINVAL)
    return str(quota)


def period_v1(text: str, _: KnobSurroundings) -> str:
    """``cpu.cfs_period_us``: from a millisecond to a second."""
    return str(_period(text))


def cpus(text: str, at: KnobSurroundings) -> str:
    """``cpuset.cpus``: CPUs of the machine; in v1 the parent's at most, and at least the children's."""
    wanted = _list(text)
    if not wanted <= at.cpus:  # one that the machine cannot have, or one that is offline
        refuse(errno.ERANGE if max(wanted) > max(at.cpus) else errno.EINVAL)
    if at.version == 1:
        if any(not _list(at.read("cpuset.cpus", child)) <= wanted for child in at.children()):
            refuse(errno.EBUSY)
        if at.parent and not wanted <= _list(at.read("cpuset.cpus", at.parent)):
            refuse(errno.EACCES)
        if not wanted and at.has_tasks:
            refuse(errno.ENOSPC)
    return cpulist.render(wanted)


def mems(text: str, at: KnobSurroundings) -> str:
    """``cpuset.mems``: memory nodes of the machine, which has one."""
    wanted = _list(text)
    if not wanted <= {0}:
        refuse(errno.EINVAL)
    if at.version == 1 and not wanted and at.has_tasks:
        refuse(errno.ENOSPC)
    return cpulist.render(wanted)


def _list(text: str) -> frozenset[int]:
    try:
        return cpulist.parse(text)
    except CpuListError:
        refuse(errno.EINVAL)


def _integer(text: str) -> int:
    text = text.strip()
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        refuse(errno.EINVAL)
    if abs(number := int(text)) >= 2**63:
        refuse(errno.ERANGE)
    return number


def _leading_digits(text: str) -> str:
    return text[: len(text) - len(text.lstrip("0123456789"))]


def _period(text: str) -> int:
    if not 1000 <= (period := _integer(text)) <= 1_000_000:
        refuse(errno.EINVAL)
    return period


def _ratio(at: KnobSurroundings, directory: str) -> float | None:
    quota = at.read("cpu.cfs_quota_us", directory)
    return None if quota in ("", "-1") else int(quota) / int(at.read("cpu.cfs_period_us", directory))


def _is_device(text: str) -> bool:
    numbers = text.split(":")
    return len(numbers) == 2 and all(number.isascii() and number.isdigit() for number in numbers)
