"""A container's cgroup in a tree of plain files, of each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.cgroups import Cgroup, Mounts, find
from nri.testing.cgroup_files import CgroupFiles

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ("v1", "v2", "hybrid")
POD = "/kubepods/burstable/pod1-2"
PATH = f"{POD}/abc"
SCOPE = "/system.slice/crun-abc.scope"
SCOPED = "system.slice:crun:abc"


def make(tmp_path: Path, kind: str) -> CgroupFiles:
    tree = CgroupFiles(tmp_path / "cgroup tree", kind)  # with a blank: mountinfo escapes it
    tree.make(PATH)
    return tree


def look(
    tree: CgroupFiles, path: str = PATH, pid: int = 0, proc: object = "/nowhere", container: str = "abc"
) -> Cgroup:
    return find(path, pid, container, mounts=Mounts.parse(tree.mountinfo), proc=str(proc))


def limit(tree: CgroupFiles, path: str, quota: str, period: str = "100000") -> None:
    if tree.kind == "v2":
        tree.put(path, "cpu.max", f"{'max' if quota == '-1' else quota} {period}\n")
    else:
        tree.put(path, "cpu.cfs_quota_us", quota + "\n")
        tree.put(path, "cpu.cfs_period_us", period + "\n")


def quota_knob(tree: CgroupFiles, path: str) -> str:
    return tree.get(path, "cpu.max" if tree.kind == "v2" else "cpu.cfs_quota_us")
