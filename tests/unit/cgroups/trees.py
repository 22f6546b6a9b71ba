"""A container's cgroup in a tree of plain files with all controllers of the table of knobs, of v1, v2 or hybrid."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nri.cgroups import Cgroup, Mounts, Systemd, find
from nri.testing.cgroup_files import CgroupFiles

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

POD = "/kubepods/burstable/pod1-2"
PATH = f"{POD}/abc"
SCOPE = "/system.slice/crun-abc.scope"
SCOPED = "system.slice:crun:abc"
INNER = f"{SCOPE}/container"
"""crun's child, which counts as one with its scope."""

NO_LIMIT = "9223372036854771712"

V1 = {
    "cpu": {
        "cpu.shares": "1024",
        "cpu.cfs_quota_us": "-1",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_burst_us": "0",
        "cpu.idle": "0",
        "cpu.bvt_warp_ns": "0",
    },
    "cpuset": {"cpuset.cpus": "", "cpuset.effective_cpus": "", "cpuset.mems": "", "cpuset.effective_mems": ""},
    "memory": {
        "memory.limit_in_bytes": NO_LIMIT,
        "memory.memsw.limit_in_bytes": NO_LIMIT,
        "memory.usage_in_bytes": "4096",
        "memory.max_usage_in_bytes": "8192",
        "memory.stat": "cache 1\nrss 2",
    },
    "blkio": {
        "blkio.bfq.weight": "100",
        "blkio.bfq.weight_device": "default 100",
        **{f"blkio.throttle.{way}_{unit}_device": "" for way in ("read", "write") for unit in ("bps", "iops")},
        "blkio.throttle.io_service_bytes_recursive": "8:0 Read 10\n8:0 Write 20\n8:0 Sync 5\n8:0 Total 30\nTotal 30",
        "blkio.throttle.io_serviced_recursive": "8:0 Read 1\n8:0 Write 2\nTotal 3",
    },
    "pids": {"pids.max": "max", "pids.current": "1", "pids.peak": "2"},
}
V2 = {
    "cpu.weight": "100",
    "cpu.weight.nice": "0",
    "cpu.max": "max 100000",
    "cpu.max.burst": "0",
    "cpu.idle": "0",
    "cpu.bvt_warp_ns": "0",
    "cpuset.cpus": "",
    "cpuset.cpus.effective": "0-3",
    "cpuset.mems": "",
    "cpuset.mems.effective": "0",
    "memory.min": "0",
    "memory.low": "0",
    "memory.high": "max",
    "memory.max": "max",
    "memory.swap.max": "max",
    "memory.oom.group": "0",
    "memory.current": "4096",
    "memory.peak": "8192",
    "memory.swap.current": "0",
    "memory.stat": "anon 1\nfile 2",
    "io.weight": "default 100",
    "io.bfq.weight": "default 100",
    "io.max": "",
    "io.latency": "",
    "pids.max": "max",
    "pids.current": "1",
    "pids.peak": "2",
}


class Tree(CgroupFiles):
    """A tree of kind ``v1``, ``v2`` or ``hybrid`` with these cgroups, by default :data:`PATH`."""

    def __init__(self, root: Path, kind: str, *paths: str) -> None:
        knobs = {
            controller: {name: f"{value}\n" for name, value in files.items()}
            for controller, files in {**V1, "": V2}.items()
        }
        super().__init__(root / "cgroup tree", kind, knobs=knobs)  # with a blank: mountinfo escapes it
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
    ) -> Cgroup:
        return find(path, pid, container, mounts=Mounts.parse(self.mountinfo), proc=str(proc), systemd=systemd)

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


def record(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets ``CGROUP/FILE TEXT`` for each write, in order."""
    from nri.cgroups import knobs

    written: list[str] = []
    real = knobs.write

    def write_and_note(path: str, value: str, *rest: object) -> None:
        real(path, value, *rest)  # type: ignore[arg-type]
        written.append(f"{'/'.join(path.rsplit('/', 2)[1:])} {value}")

    monkeypatch.setattr(knobs, "write", write_and_note)
    return written
