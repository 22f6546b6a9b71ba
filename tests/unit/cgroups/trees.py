"""A container's cgroup in a tree of plain files with all controllers of the table of knobs, of v1, v2 or hybrid."""

import os
from pathlib import Path

from nri.cgroups import Cgroup, Mounts, Systemd, find
from nri.testing.cgroup_files import KNOBS, CgroupFiles, write

POD = "/kubepods/burstable/pod1-2"
PATH = f"{POD}/abc"
SCOPE = "/system.slice/crun-abc.scope"
SCOPED = "system.slice:crun:abc"
INNER = f"{SCOPE}/container"
"""crun's child, which counts as one with its scope."""

MORE: dict[str, dict[str, str]] = {
    "": {
        "cpu.bvt_warp_ns": "0",
        "cpuset.cpus.effective": "0-3",
        "memory.stat": "anon 0\npgfault 0",
    },
    "cpu": {"cpu.bvt_warp_ns": "0"},
    "cpuset": {"cpuset.mems": ""},
    "memory": {"memory.stat": "rss 0"},
    "blkio": {},
    "pids": {},
}
"""Files of some kernels only. There is no ``cgroup.controllers``: no controller counts as enabled."""


class Tree(CgroupFiles):
    """A tree of kind ``v1``, ``v2`` or ``hybrid`` with these cgroups, by default ``PATH``."""

    knobs = {
        controller: {
            name: text
            for name, text in ({**KNOBS[controller], **more}).items()
            if not name.startswith("cgroup.")
        }
        for controller, more in MORE.items()
    }

    def __init__(self, root: Path, kind: str, *paths: str) -> None:
        super().__init__(root / "cgroup tree", kind)  # with a blank: mountinfo escapes it
        for path in paths or (PATH,):
            self.make(path)

    def cgroup(
        self,
        path: str = PATH,
        pid: int = 0,
        container: str = "abc",
        *,
        proc: object = "/nowhere",
        systemd: Systemd | None = None,
        subgroup: str = "",
    ) -> Cgroup:
        return find(
            path,
            pid,
            container,
            mounts=Mounts.parse(self.mountinfo),
            proc=str(proc),
            systemd=systemd,
            subgroup=subgroup,
        )

    def limit(self, path: str, quota: int, period: int = 100000) -> None:
        """Set a CPU quota."""
        if self.kind == "v2":
            self.put(path, "cpu.max", f"{quota} {period}\n")
        else:
            self.put(path, "cpu.cfs_quota_us", f"{quota}\n")
            self.put(path, "cpu.cfs_period_us", f"{period}\n")

    def quota(self, path: str) -> str:
        """Return the CPU quota: a number, or ``none``."""
        text = self.get(path, self.v1_or_v2("cpu.cfs_quota_us", "cpu.max")).split()[0]
        return "none" if text in ("-1", "max") else text

    def v1_or_v2(self, v1: str, v2: str) -> str:
        return v2 if self.kind == "v2" else v1

    def state(self) -> dict[str, str]:
        """Return the content of all files."""
        found = {}
        for directory, _, names in os.walk(self.root):
            for name in names:
                with open(f"{directory}/{name}", encoding="ascii") as file:
                    found[f"{directory}/{name}"] = file.read()
        return found


def make_process(proc: object, pid: int, memberships: str) -> None:
    """Write ``PID/cgroup`` below *proc*, a directory in place of /proc."""
    os.makedirs(f"{proc}/{pid}")
    write(f"{proc}/{pid}/cgroup", memberships)
