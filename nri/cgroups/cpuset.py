"""The cpuset: the CPUs on which a cgroup's processes may run, and the memory nodes that they may use.

Sources: the kernel's ``Documentation/admin-guide/cgroup-v1/cpusets.rst`` (section 1.4: a child's CPUs are a
subset of its parent's; a cpuset with processes cannot be empty) and ``admin-guide/cgroup-v2.rst`` ("Cpuset
Interface Files": empty means the parent's; CPUs that the parent does not grant have no effect, without an error).
"""

from __future__ import annotations

import errno

from . import cpulist, knobs
from .errors import CgroupError, CpuListError, quoted

KNOB = "cpuset.cpus"
"""The file that holds a cgroup's own CPUs, in both versions."""

MEMORY_NODES = "cpuset.mems"
"""The file that holds a cgroup's own memory nodes, in both versions."""

EFFECTIVE = {1: "cpuset.effective_cpus", 2: "cpuset.cpus.effective"}
"""The file that holds the CPUs in effect."""

_ABSENT = {
    1: "this is no cpuset cgroup",
    2: "the cgroup.subtree_control of the parent lacks cpuset; '+cpuset' written there enables it "
    "(under systemd: AllowedCPUs= in the unit, or Delegate=cpuset in its slice)",
}
# The reasons behind the errors of kernel/cgroup/cpuset.c and cpuset-v1.c (validate_change, update_cpumask).
_HINTS = {
    errno.EBUSY: "a child cgroup has CPUs that the new set lacks, and in v1 it must not",
    errno.EACCES: "the parent cgroup lacks some of these CPUs, and in v1 it must not",
    errno.ENOSPC: "processes in the cgroup would be left without a CPU",
    errno.ERANGE: "there are CPUs in it that this machine cannot have",
    errno.EINVAL: "this machine lacks some of these CPUs, or another cgroup has them for itself",
}
_MEMORY_HINTS = {
    errno.EBUSY: "a child cgroup has memory nodes that the new set lacks, and in v1 it must not",
    errno.EACCES: "the parent cgroup lacks some of these memory nodes, and in v1 it must not",
    errno.ENOSPC: "processes in the cgroup would be left without a memory node",
    errno.ERANGE: "there are memory nodes in it that this kernel cannot have",
    errno.EINVAL: "this machine lacks some of these memory nodes",
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
    return own(directory, version) if text is None else _parse(text, path)


def assign(directory: str, version: int, cpus: frozenset[int], knob: str = KNOB) -> None:
    """Give the cgroup these CPUs, or with another *knob* these memory nodes."""
    text = cpulist.render(cpus) or "\n"  # nothing is no write at all
    knobs.write(f"{directory}/{knob}", text, _ABSENT[version], _HINTS if knob == KNOB else _MEMORY_HINTS)


def assign_all(version: int, levels: list[str], numbers: frozenset[int], knob: str = KNOB) -> None:
    """Give the scope, and crun's child if there is one, these CPUs, or with another *knob* these memory nodes.

    In v1 those of a child must always be a subset of its parent's. So the scope is widened to the old and new ones,
    the child is set, and the scope is narrowed; unnecessary steps are skipped. If a step fails, the scope keeps the
    old and new ones at most. A child in v2 that was given none has its parent's, and stays so.
    """
    scope, *children = levels
    if not children or (version == 2 and not own(children[0], version, knob)):
        assign(scope, version, numbers, knob)
        return
    old = own(scope, version, knob)
    wide = old | numbers
    done = ""
    if wide != old:
        assign(scope, version, wide, knob)
        done = f"{scope} was given {cpulist.render(wide)} before that, it had {cpulist.render(old) or 'none'}"
    knobs.after(done, assign, children[0], version, numbers, knob)
    if wide != numbers:
        given = cpulist.render(numbers) or "none"
        done = f"{children[0]} was given {given} before that, and {scope} has {cpulist.render(wide)}"
        knobs.after(done, assign, scope, version, numbers, knob)


def _parse(text: str, path: str) -> frozenset[int]:
    try:
        return cpulist.parse(text)
    except CpuListError as error:
        raise CgroupError(f"{path} holds {quoted(text)}: expected a CPU list such as '0-3,8'") from error
