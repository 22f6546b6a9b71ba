"""A container for the demonstration: a process in a real cgroup where that may be made, else a made-up tree."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path
from typing import Self

from nri.cgroups import CgroupError, Mounts
from tests.cgroup_tree import Tree

QUOTA, PERIOD = "50000", "100000"


class Container:
    """A container-like process in a pod's cgroup of its own; gone at the end of the ``with`` block.

    :ivar pid: 0 where the cgroups are made up, and so no process can be in them.
    :ivar mountinfo: the file that says where its cgroups are mounted.
    """

    def __init__(self, scratch: Path) -> None:
        self.pod = f"/nri-demo-{os.getpid()}/kubepods/pod0d9c5a4e"
        self.cgroups_path = f"{self.pod}/web"
        self.pid = 0
        self.mountinfo = "/proc/self/mountinfo"
        self._process: subprocess.Popen[bytes] | None = None
        self._made: list[Path] = []
        self._scratch = scratch

    def __enter__(self) -> Self:
        try:
            self.where = self._make_real()
        except (OSError, CgroupError, _CannotError) as error:
            self._remove_real()
            self.where = self._make_up(str(error))
        return self

    def __exit__(self, *_: object) -> None:
        self._remove_real()

    def knobs(self) -> dict[str, str]:
        """What the kernel (or the made-up tree) holds now, for the pod and its container."""
        shown = {}
        for name in self.knob_names:
            shown[f"container {name}"] = self._file(self.cgroups_path, name).read_text().strip()
        for name in self.knob_names:
            if name != "cpuset.cpus":
                shown[f"pod       {name}"] = self._file(self.pod, name).read_text().strip()
        return shown

    def limit(self, quota: str, cpus: str) -> None:
        """Do what a runtime does at the container's start, and when its resources are updated."""
        for path in (self.pod, self.cgroups_path):
            if self.version == 2:
                self._file(path, "cpu.max").write_text(f"{quota} {PERIOD}")
            else:
                self._file(path, "cpu.cfs_period_us").write_text(PERIOD)
                self._file(path, "cpu.cfs_quota_us").write_text(quota)
        self._file(self.cgroups_path, "cpuset.cpus").write_text(cpus)

    def _file(self, path: str, knob: str) -> Path:
        return Path(self._points[knob.partition(".")[0]] + path) / knob

    def _make_real(self) -> str:
        mounts = Mounts.read()
        serving = {controller: mounts.serving(controller) for controller in ("cpu", "cpuset")}
        if os.geteuid() != 0:
            raise _CannotError("only root may make cgroups")
        if None in serving.values():
            raise _CannotError("the machine has no cgroup hierarchy with cpu and cpuset")
        self._points = {controller: mount.point for controller, mount in serving.items() if mount}
        self.version = max(mount.version for mount in serving.values() if mount)
        self._describe()
        for point in dict.fromkeys(self._points.values()):
            directory = Path(point)
            if self.version == 2 and not {"cpu", "cpuset"} <= set(
                (directory / "cgroup.subtree_control").read_text().split()
            ):
                raise _CannotError(f"{directory}/cgroup.subtree_control lacks cpu or cpuset")
            for part in self.cgroups_path.strip("/").split("/"):
                parent, directory = directory, directory / part
                directory.mkdir()
                self._made.append(directory)
                self._inherit(parent, directory, leaf=str(directory) == point + self.cgroups_path)
        self.cpus = self._file(self.cgroups_path, "cpuset.cpus").read_text().strip() or self._effective()
        if self.cpus == "0":
            raise _CannotError("the machine has only one CPU, and konfine needs one to keep and one to give")
        self._process = subprocess.Popen(["sleep", "infinity"], stdin=subprocess.DEVNULL)
        self.pid = self._process.pid
        for point in dict.fromkeys(self._points.values()):
            Path(point + self.cgroups_path, "cgroup.procs").write_text(str(self.pid))
        return f"a real cgroup (v{self.version}) with a real process, {self.pid}"

    def _inherit(self, parent: Path, directory: Path, *, leaf: bool) -> None:
        if self.version == 2:
            if not leaf:
                (directory / "cgroup.subtree_control").write_text("+cpu +cpuset")
            return
        for knob in ("cpuset.cpus", "cpuset.mems"):  # v1: a new cpuset has nothing, and no process may enter it
            if (directory / knob).exists():
                (directory / knob).write_text((parent / knob).read_text().strip())

    def _effective(self) -> str:
        return self._file(self.cgroups_path, "cpuset.cpus.effective").read_text().strip()

    def _make_up(self, why: str) -> str:
        tree = Tree(self._scratch / "cgroup", "v2")
        tree.make(self.cgroups_path)
        mountinfo = self._scratch / "mountinfo"
        mountinfo.write_text(tree.mountinfo)
        self.mountinfo = str(mountinfo)
        self._points = dict.fromkeys(("cpu", "cpuset"), tree.root)
        self.version, self.cpus, self.pid = 2, "0-3", 0
        self._describe()
        return f"a made-up cgroup tree of plain files ({why})"

    def _describe(self) -> None:
        self.knob_names = ("cpu.max" if self.version == 2 else "cpu.cfs_quota_us", "cpuset.cpus")

    def _remove_real(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        while self._made:
            directory = self._made.pop()
            until = time.monotonic() + 5
            while directory.exists() and time.monotonic() < until:  # the kernel lets go of a dead process in a moment
                with contextlib.suppress(OSError):
                    directory.rmdir()


class _CannotError(Exception):
    """Why a real cgroup can't be had."""
