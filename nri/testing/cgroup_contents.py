"""The contents of a cgroup's files: the limits that a runtime and a kubelet set, and the CPUs that are in effect."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from nri.cgroups import CpuListError, cpulist
from nri.cgroups.conversion import weight_of_shares
from nri.testing.pods import Pod
from nri.testing.request_templates import resources_of, share_of_pod

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nri.testing.cgroup_files import CgroupFiles
    from nri.testing.pods import Container


def limits_of(owner: Pod | Container, kind: str) -> dict[str, str]:
    """Return the files that are set for a container by its resources, or for a pod by those of its containers."""
    if isinstance(owner, Pod):
        share = share_of_pod(owner)
        cpu = {"shares": share["cpu-shares"], "quota": share["cpu-quota"], "period": share["cpu-period"]}
        resources: dict[str, Any] = {"cpu": cpu, "memory": {"limit": share["memory"]}}
    else:
        resources = resources_of(owner)
    return files_of(resources, kind)


def files_of(resources: Mapping[str, Any], kind: str) -> dict[str, str]:
    """Return the files that are set by ``linux.resources``, in OCI's words."""
    cpu, memory = resources.get("cpu") or {}, resources.get("memory") or {}
    pids = resources.get("pids") or {}
    quota, period = cpu.get("quota", 0), cpu.get("period", 100_000)
    found: dict[str, object] = {"cpuset.cpus": cpu.get("cpus"), "cpuset.mems": cpu.get("mems")}
    if kind == "v2":
        found["cpu.max"] = f"{quota if quota > 0 else 'max'} {period}"
        found["cpu.weight"] = weight_of_shares(cpu["shares"]) if cpu.get("shares") else None
        found["memory.max"] = memory.get("limit")
        found["memory.low"] = memory.get("reservation")
    else:
        found["cpu.cfs_quota_us"] = quota if quota > 0 else -1
        found["cpu.cfs_period_us"] = period
        found["cpu.shares"] = cpu.get("shares")
        found["memory.limit_in_bytes"] = memory.get("limit")
    found["pids.max"] = pids.get("limit")
    return {knob: str(value) for knob, value in found.items() if value}


def effective_cpus(files: CgroupFiles, kind: str, machine: frozenset[int]) -> Iterator[tuple[str, frozenset[int]]]:
    """Yield each file with the CPUs in effect, and the CPUs: in v2 a cgroup without usable ones has its parent's."""
    if kind == "v2":
        yield from _below(files.points[""], machine, "cpuset.cpus.effective")
    else:
        yield from _below(files.points["cpuset"], machine, "cpuset.effective_cpus")


def _below(directory: str, above: frozenset[int], knob: str) -> Iterator[tuple[str, frozenset[int]]]:
    for name in os.listdir(directory):
        inner = f"{directory}/{name}"
        if not os.path.isdir(inner):
            continue
        own = _own(f"{inner}/cpuset.cpus")
        cpus = (own & above or above) if knob == "cpuset.cpus.effective" else own
        if os.path.exists(f"{inner}/{knob}"):
            yield f"{inner}/{knob}", cpus
        yield from _below(inner, cpus, knob)


def _own(file: str) -> frozenset[int]:
    try:
        with open(file, encoding="ascii") as stream:
            return cpulist.parse(stream.read())
    except (FileNotFoundError, CpuListError):
        return frozenset()
