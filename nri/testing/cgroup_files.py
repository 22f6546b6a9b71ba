"""Cgroups of plain files that look like v1, v2 or hybrid, with a matching mountinfo.

For tests, and for a demonstration on a machine whose own cgroups must not be touched. Unlike the kernel, the files
accept every value; ``nri.testing.CgroupTree`` refuses what the kernel would.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from nri.cgroups import CpuListError, cpulist
from nri.cgroups.knob import MOST
from nri.cgroups.knob_table import PAGE
from nri.cgroups.knob_values import weight_of_shares

UNLIMITED = str(MOST // PAGE * PAGE)
"""The text of a file of v1 without a limit, in bytes."""

MEMS = "MEMS"
"""Stands for the machine's memory nodes."""

KNOBS: Mapping[str, Mapping[str, str]] = {
    "": {
        "cgroup.controllers": "cpuset cpu io memory pids",
        "cgroup.events": "populated 0\nfrozen 0",
        "cgroup.procs": "",
        "cgroup.type": "domain",
        "cpu.idle": "0",
        "cpu.max": "max 100000",
        "cpu.max.burst": "0",
        "cpu.weight": "100",
        "cpuset.cpus": "",
        "cpuset.cpus.effective": "",
        "cpuset.mems": "",
        "cpuset.mems.effective": MEMS,
        "io.weight": "default 100",
        "memory.current": "0",
        "memory.high": "max",
        "memory.low": "0",
        "memory.max": "max",
        "memory.min": "0",
        "memory.oom.group": "0",
        "memory.peak": "0",
        "memory.swap.current": "0",
        "memory.swap.max": "max",
        "pids.current": "0",
        "pids.max": "max",
    },
    "cpu": {
        "cpu.cfs_burst_us": "0",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "-1",
        "cpu.idle": "0",
        "cpu.shares": "1024",
    },
    "cpuset": {
        "cpuset.cpus": "",
        "cpuset.effective_cpus": "",
        "cpuset.effective_mems": MEMS,
        "cpuset.mems": MEMS,
    },
    "memory": {
        "memory.limit_in_bytes": UNLIMITED,
        "memory.memsw.limit_in_bytes": UNLIMITED,
        "memory.soft_limit_in_bytes": UNLIMITED,
        "memory.usage_in_bytes": "0",
    },
    "blkio": {
        "blkio.bfq.weight": "100",
    },
    "pids": {"pids.current": "0", "pids.max": "max"},
}
"""The files of a new cgroup and their text, by v1 controller, and for v2 under ""."""


_ESCAPES = str.maketrans({"\\": "\\134", " ": "\\040", "\t": "\\011", "\n": "\\012", "#": "\\043"})

_NO_QUOTA = {1: "-1", 2: "max"}
"""The text of a CPU quota that is no limit, by version of the hierarchy."""

_EFFECTIVE = {1: "cpuset.effective_{}", 2: "cpuset.{}.effective"}
"""The file with the CPUs, or memory nodes, in effect, by version."""

_OF_ROOT = {1: ("cpuset.{}", _EFFECTIVE[1]), 2: (_EFFECTIVE[2],)}
"""The files with all of the machine's."""


class CgroupFiles:
    """A tree below *root*.

    :param kind: ``v1``, ``v2`` or ``hybrid``.
    :param cpus: the machine's; likewise *mems*, its NUMA nodes with memory.
    :ivar version: of the hierarchies with controllers, 1 or 2.
    :ivar new: the files of a new cgroup, as in ``KNOBS``.
    """

    knobs = KNOBS

    def __init__(self, root: object, kind: str, cpus: str = "0-3", mems: str = "0") -> None:
        self.root = str(root)
        self._mems = mems
        self.new = dict(self.knobs)
        if kind == "v2":
            self.version = 2
            self.points = {"": self.root}
        else:
            self.version = 1
            self.points = {name: f"{self.root}/{name}" for name in self.knobs if name}
        if kind == "hybrid":  # v2 has no controllers there
            self.points[""] = f"{self.root}/unified"
            self.new[""] = {}
        for point in self.points.values():
            os.makedirs(point, exist_ok=True)
        self.kind = kind
        for knob in _OF_ROOT[self.version]:
            self.put("", knob.format("cpus"), f"{cpus}\n")
            self.put("", knob.format("mems"), f"{mems}\n")

    @property
    def mountinfo(self) -> str:
        """The text of a mountinfo file with the mounts of this tree."""
        lines = []
        for number, (controller, point) in enumerate(self.points.items(), start=40):
            if controller:
                kind = f"cgroup cgroup rw,{controller}"
            else:
                kind = "cgroup2 cgroup2 rw,nsdelegate"
            lines.append(
                f"{number} 31 0:{number} / {escape(point)} rw,nosuid,nodev shared:9 - {kind}\n"
            )
        return "".join(lines)

    def make(self, path: str, **values: str) -> None:
        """Make the cgroup *path* in all hierarchies; *values* are values of knobs, with "__" for the dot."""
        for controller, point in self.points.items():
            directory = point
            for part in path.strip("/").split("/"):
                directory += "/" + part
                if not os.path.isdir(directory):
                    os.mkdir(directory)
                    for name, text in self.new[controller].items():
                        write(f"{directory}/{name}", f"{text}\n".replace(MEMS, self._mems))
        for name, value in values.items():
            self.put(path, name.replace("__", "."), value)

    def file(self, path: str, knob: str) -> str:
        """Return the file of a knob."""
        hierarchy = "" if self.kind == "v2" else knob.partition(".")[0]
        return f"{self.points[hierarchy]}{path}/{knob}"

    def put(self, path: str, knob: str, value: str) -> None:
        """Set a knob."""
        write(self.file(path, knob), value)

    def settle(self, machine: frozenset[int]) -> None:
        """Write the CPUs and memory nodes in effect: in v2 a cgroup without usable ones has its parent's.

        :param machine: the CPUs of the root.
        """
        self._settle("cpus", machine)
        self._settle("mems", cpulist.parse(self._mems))

    def _settle(self, kind: str, whole: frozenset[int]) -> None:
        knob = _EFFECTIVE[self.version].format(kind)
        top = os.path.dirname(self.file("", knob))
        above = {top: whole}
        for directory, names, _ in os.walk(top):
            for inner in [f"{directory}/{name}" for name in names]:
                own = _own(f"{inner}/cpuset.{kind}")
                of_parent = above[directory]
                above[inner] = (own & of_parent or of_parent) if self.kind == "v2" else own
                if os.path.exists(f"{inner}/{knob}"):
                    write(f"{inner}/{knob}", f"{cpulist.render(above[inner])}\n")

    def get(self, path: str, knob: str) -> str:
        """Return the value of a knob."""
        with open(self.file(path, knob), encoding="ascii") as file:
            return file.read().strip()


def escape(point: str) -> str:
    """Escape a path as mountinfo does."""
    return point.translate(_ESCAPES)


def write(path: str, value: str) -> None:
    """Make or replace a file."""
    with open(path, "w", encoding="ascii") as file:
        file.write(value)


# The contents of a cgroup's files: the limits that a runtime and a kubelet set, and the CPUs that are in effect.


def part_of(resources: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return one of the objects in ``linux.resources``; empty if there is none."""
    return resources.get(name) or {}


def files_of(resources: Mapping[str, Any], version: int) -> dict[str, str]:
    """Return the files that a runtime sets for ``linux.resources``, in OCI's words, with their texts.

    :param version: of the hierarchy, 1 or 2.
    """
    cpu = part_of(resources, "cpu")
    memory = part_of(resources, "memory")
    pids = part_of(resources, "pids")
    quota = cpu.get("quota", 0)
    period = cpu.get("period", 100_000)
    limit = quota if quota > 0 else _NO_QUOTA[version]
    values: dict[str, object] = {"cpuset.cpus": cpu.get("cpus"), "cpuset.mems": cpu.get("mems")}
    if version == 2:
        values["cpu.max"] = f"{limit} {period}"
        values["cpu.weight"] = weight_of_shares(cpu["shares"]) if cpu.get("shares") else None
        values["memory.max"] = "max" if memory.get("limit") == -1 else memory.get("limit")
        values["memory.low"] = memory.get("reservation")
    else:
        values["cpu.cfs_quota_us"] = limit
        values["cpu.cfs_period_us"] = period
        values["cpu.shares"] = cpu.get("shares")
        values["memory.limit_in_bytes"] = memory.get("limit")
    values["pids.max"] = pids.get("limit")
    return {knob: str(value) for knob, value in values.items() if value}


def _own(file: str) -> frozenset[int]:
    try:
        with open(file, encoding="ascii") as stream:
            return cpulist.parse(stream.read())
    except (FileNotFoundError, CpuListError):
        return frozenset()
