"""The cpuset: the CPUs on which a cgroup's processes may run, and the memory nodes that they may use.

Sources: the kernel's ``Documentation/admin-guide/cgroup-v1/cpusets.rst`` (section 1.4: a child's CPUs are a
subset of its parent's; a cpuset with processes cannot be empty) and ``admin-guide/cgroup-v2.rst`` ("Cpuset
Interface Files": empty means the parent's; CPUs that the parent does not grant have no effect, without an error).
"""

# ruff: noqa: D102 -- the base class describes the methods

from __future__ import annotations

import errno
import os

from . import cpulist, knobs
from .errors import CgroupError, CpuListError, GoneError, quoted
from .knob import SETS, File, Knob, Values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .units import Unit

KNOB = "cpuset.cpus"
"""The file that holds a cgroup's own CPUs, in both versions."""

MEMORY_NODES = "cpuset.mems"
"""The file that holds a cgroup's own memory nodes, in both versions."""

EFFECTIVE = {1: "cpuset.effective_cpus", 2: "cpuset.cpus.effective"}
"""The file that holds the CPUs in effect."""

MAX_NODE = 1023
"""The greatest memory node: MAX_NUMNODES is at most 1024 (CONFIG_NODES_SHIFT)."""

NEEDS = "CONFIG_CPUSETS"

MAX_NESTED = 2000
"""Cgroups below a container's that are read to be narrowed with it; a kubelet in a container has some hundred."""

_ABSENT = {
    1: "this is no cpuset cgroup",
    2: "the cgroup.subtree_control of the parent lacks cpuset; '+cpuset' written there enables it "
    "(under systemd: AllowedCPUs= in the unit, or Delegate=cpuset in its slice)",
}
# The reasons behind the errors of kernel/cgroup/cpuset.c and cpuset-v1.c (validate_change, update_cpumask).
_HINTS = {
    KNOB: {
        errno.EBUSY: "a child cgroup has CPUs that the new set lacks, and in v1 it must not",
        errno.EACCES: "the parent cgroup lacks some of these CPUs, and in v1 it must not",
        errno.ENOSPC: "processes in the cgroup would be left without a CPU",
        errno.ERANGE: "there are CPUs in it that this machine cannot have",
        errno.EINVAL: "this machine lacks some of these CPUs, or another cgroup has them for itself",
    },
    MEMORY_NODES: {
        errno.EBUSY: "a child cgroup has memory nodes that the new set lacks, and in v1 it must not",
        errno.EACCES: "the parent cgroup lacks some of these memory nodes, and in v1 it must not",
        errno.ENOSPC: "processes in the cgroup would be left without a memory node",
        errno.ERANGE: "there are memory nodes in it that this kernel cannot have",
        errno.EINVAL: "this machine lacks some of these memory nodes",
    },
}


def own(directory: str, version: int, knob: str = KNOB) -> frozenset[int]:
    """Return the CPUs, or with another *knob* the memory nodes, that the cgroup was given, possibly none.

    In v2 a cgroup without the controller is one that was given none.
    """
    path = f"{directory}/{knob}"
    if version == 2:
        return _parse(knobs.read_optional(path) or "", path)
    return _parse(knobs.read(path, _ABSENT[version]), path)


def effective(directory: str, version: int) -> frozenset[int]:
    """Return the CPUs that are in effect; in v1 none when the cgroup was given none.

    v1 kernels before 3.17 have no such file; then these are the cgroup's own CPUs. In v2 a cgroup without the
    controller has none.
    """
    path = f"{directory}/{EFFECTIVE[version]}"
    text = knobs.read_optional(path)
    if text is None:
        return own(directory, version)
    return _parse(text, path)


def assign(directory: str, version: int, cpus: frozenset[int], knob: str = KNOB) -> None:
    """Give the cgroup these CPUs, or with another *knob* these memory nodes."""
    text = cpulist.render(cpus) or "\n"  # nothing is no write at all
    knobs.write(f"{directory}/{knob}", text, _ABSENT[version], _HINTS[knob])


def assign_all(version: int, levels: list[str], numbers: frozenset[int], knob: str = KNOB) -> None:
    """Give the scope, and crun's child if there is one, these CPUs, or with another *knob* these memory nodes.

    In v1 those of a child must always be a subset of its parent's. So what a container has made below its own cgroup
    (docker in a pod, systemd) is narrowed with it: outer cgroups are widened to the old and new ones first, then all
    are narrowed from the innermost one up. Unnecessary steps are skipped. If a step fails, an outer one keeps the old
    and new ones at most. A child in v2 that was given none has its parent's, and stays so.
    """
    scope = levels[0]
    inner = levels[-1]  # the scope itself without crun's child
    below = []
    if version == 1:
        below = _nested(scope, inner, numbers, knob)
    elif inner != scope:
        old = own(inner, version, knob)
        if old:
            below = [(inner, old, numbers)]
    if not below:
        assign(scope, version, numbers, knob)
        return
    had = own(scope, version, knob)
    now = had | numbers  # the scope is the outermost one, and stays so until the end
    outer = {os.path.dirname(directory) for directory, _, _ in below}
    done = ""
    for directory, old, new in [(scope, had, numbers), *below]:
        if directory in outer and not new <= old:
            knobs.after(done, assign, directory, version, old | new, knob)
            done = (
                f"; {directory} was given {cpulist.render(old | new)} before that, it had "
                f"{_rendered(old)}"
            )
    for directory, _, new in reversed(below):
        try:
            knobs.after(done, assign, directory, version, new, knob)
        except GoneError:
            continue  # the container lives, or else its own cgroup is gone, too
        done = f"; {directory} was given {_rendered(new)} before that, and {scope} has {_rendered(now)}"
    if now != numbers:
        knobs.after(done, assign, scope, version, numbers, knob)


def _nested(
    scope: str, inner: str, numbers: frozenset[int], knob: str
) -> list[tuple[str, frozenset[int], frozenset[int]]]:
    """Return the cgroups below a scope that must change with it in v1, outer ones first: each, what it has, and gets.

    Each keeps what it has of its parent's new ones, or else gets all of these; *inner* gets the same as the scope.
    """
    below: list[tuple[str, frozenset[int], frozenset[int]]] = []
    above = [(scope, numbers)]
    seen = 0
    while above:
        directory, of_parent = above.pop()
        children = knobs.children(directory)
        seen += len(children)
        if seen > MAX_NESTED:
            raise CgroupError(
                f"{scope} has more than {MAX_NESTED} cgroups below it, which would have to change "
                "with it"
            )
        for child in children:
            try:
                old = own(child, 1, knob)
            except GoneError:
                continue
            if child == inner:
                new = of_parent
            else:
                new = (old & of_parent) or of_parent
            if old and new != old:
                below.append((child, old, new))
                above.append((child, new))
    return sorted(below, key=lambda change: change[0].count("/"))


def _rendered(numbers: frozenset[int]) -> str:
    return cpulist.render(numbers) or "none"


def _parse(text: str, path: str) -> frozenset[int]:
    try:
        return cpulist.parse(text)
    except CpuListError as error:
        raise CgroupError(
            f"{path} holds {quoted(text)}: expected a CPU list such as '0-3,8'"
        ) from error


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

    def shown(self, value: frozenset[int]) -> str:
        return _rendered(value)


class SetFiles(File):
    """The file of a cpuset's own CPUs or memory nodes."""

    __slots__ = ("_version",)

    def __init__(self, version: int, name: str, values: Numbers, told: str) -> None:
        super().__init__(name, values, told)
        self._version = version

    def read(self, directory: str) -> frozenset[int]:
        return own(directory, self._version, self.name)

    def tell(self, unit: Unit, value: frozenset[int]) -> bool:
        return unit.set_numbers(self.told, value)

    def write(
        self, knob: Knob, levels: list[str], before: list[Any], value: frozenset[int], done: str
    ) -> None:
        # A child that was given none has its parent's in v2, and is not used in v1.
        if before[0] != value or before[-1] not in (value, frozenset()):
            knobs.after(done, assign_all, self._version, levels, value, self.name)


def _sets(name: str, kind: str, high: int, told: str) -> Knob:
    values = Numbers(kind, high)
    return Knob(
        name,
        SETS,
        values,
        NEEDS,
        v2=SetFiles(2, name, values, told),
        v1=SetFiles(1, name, values, ""),  # systemd leaves these alone
    )


CPUS = _sets(KNOB, "CPUs", cpulist.MAX_CPU, "AllowedCPUs")
"""The knob of a cgroup's own CPUs."""

MEMS = _sets(MEMORY_NODES, "memory nodes", MAX_NODE, "AllowedMemoryNodes")
"""The knob of its own memory nodes."""
