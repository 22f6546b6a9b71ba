"""The cpuset: the CPUs on which a cgroup's processes may run.

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

_EFFECTIVE = {1: "cpuset.effective_cpus", 2: "cpuset.cpus.effective"}
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


def own(directory: str, version: int) -> frozenset[int]:
    """Return the CPUs that the cgroup was given, possibly none.

    In v2 a cgroup without the controller is one that was given none.
    """
    path = f"{directory}/{KNOB}"
    if version == 2:
        return _parse(knobs.read_optional(path) or "", path)
    return _parse(knobs.read(path, _ABSENT[version]), path)


def effective(directory: str, version: int) -> frozenset[int]:
    """Return the CPUs that are in effect; in v1 none when the cgroup was given none.

    v1 kernels before 3.17 have no such file; then these are the cgroup's own CPUs. In v2 a cgroup without the
    controller has none.
    """
    path = f"{directory}/{_EFFECTIVE[version]}"
    text = knobs.read_optional(path)
    return own(directory, version) if text is None else _parse(text, path)


def assign(directory: str, version: int, cpus: frozenset[int]) -> None:
    """Give the cgroup these CPUs."""
    knobs.write(f"{directory}/{KNOB}", cpulist.render(cpus), _ABSENT[version], _HINTS)


def _parse(text: str, path: str) -> frozenset[int]:
    try:
        return cpulist.parse(text)
    except CpuListError as error:
        raise CgroupError(f"{path} holds {quoted(text)}: expected a CPU list such as '0-3,8'") from error
