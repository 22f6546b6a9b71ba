"""Cgroups of plain files that look like v1, v2 or hybrid, with a matching mountinfo.

For tests, and for a demonstration on a machine whose own cgroups must not be touched. Unlike the kernel, the files
accept every value; :class:`nri.testing.CgroupTree` refuses what the kernel would.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

KNOBS: Mapping[str, Mapping[str, str]] = {
    "cpu": {"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n", "cpu.shares": "1024\n"},
    "cpuset": {"cpuset.cpus": "\n", "cpuset.effective_cpus": "\n", "cpuset.mems": "\n"},
    "": {"cpu.max": "max 100000\n", "cpuset.cpus": "\n", "cpuset.cpus.effective": "0-3\n"},
}
"""The knobs of a new cgroup and their values, by v1 controller, and for v2 under "": those of two controllers."""


class CgroupFiles:
    """A tree below *root*.

    :param kind: ``v1``, ``v2`` or ``hybrid``.
    :param cpus: the machine's.
    :param knobs: those of a new cgroup, as :data:`KNOBS` has them; its controllers are v1's hierarchies.
    """

    def __init__(
        self, root: object, kind: str, cpus: str = "0-3", knobs: Mapping[str, Mapping[str, str]] = KNOBS
    ) -> None:
        self.root, self.knobs = str(root), knobs
        self.points: dict[str, str] = {}
        if kind != "v2":
            self.points |= {name: f"{self.root}/{name}" for name in knobs if name}
        if kind != "v1":
            self.points[""] = f"{self.root}/unified" if kind == "hybrid" else self.root
        for point in self.points.values():
            os.makedirs(point, exist_ok=True)
        self.kind = kind
        if kind == "v2":
            write(f"{self.root}/cpuset.cpus.effective", f"{cpus}\n")
        else:
            for knob in ("cpuset.cpus", "cpuset.effective_cpus"):
                write(f"{self.points['cpuset']}/{knob}", f"{cpus}\n")

    @property
    def mountinfo(self) -> str:
        """The text of a mountinfo file with the mounts of this tree."""
        lines = []
        for number, (controller, point) in enumerate(self.points.items(), start=40):
            kind = f"cgroup cgroup rw,{controller}" if controller else "cgroup2 cgroup2 rw,nsdelegate"
            lines.append(f"{number} 31 0:{number} / {escape(point)} rw,nosuid,nodev shared:9 - {kind}\n")
        return "".join(lines)

    def make(self, path: str, **values: str) -> None:
        """Make the cgroup *path* in all hierarchies; *values* are values of knobs, with "__" for the dot."""
        for controller, point in self.points.items():
            directory = point
            for part in path.strip("/").split("/"):
                directory += "/" + part
                if not os.path.isdir(directory):
                    os.mkdir(directory)
                    knobs = self.knobs[controller] if controller or self.kind == "v2" else {}
                    for name, value in knobs.items():
                        write(f"{directory}/{name}", value)
        for name, value in values.items():
            self.put(path, name.replace("__", "."), value)

    def file(self, path: str, knob: str) -> str:
        """Return the file of a knob."""
        return self.points["" if self.kind == "v2" else knob.partition(".")[0]] + path + "/" + knob

    def put(self, path: str, knob: str, value: str) -> None:
        """Set a knob."""
        write(self.file(path, knob), value)

    def get(self, path: str, knob: str) -> str:
        """Return the value of a knob."""
        with open(self.file(path, knob), encoding="ascii") as file:
            return file.read().strip()


def make_process(proc: object, pid: int, memberships: str) -> None:
    """Write ``PID/cgroup`` below *proc*, a directory in place of /proc."""
    os.makedirs(f"{proc}/{pid}")
    write(f"{proc}/{pid}/cgroup", memberships)


def escape(point: str) -> str:
    """Escape a path as mountinfo does."""
    for sign in "\\ \t\n#":
        point = point.replace(sign, f"\\{ord(sign):03o}")
    return point


def write(path: str, value: str) -> None:
    """Make or replace a file."""
    with open(path, "w", encoding="ascii") as file:
        file.write(value)
