"""The cgroups of the demonstration's pods: real ones with processes where possible, else a tree of plain files."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path
from typing import Self

from nri.cgroups import CgroupError, Mounts
from nri.testing.cgroup_files import CgroupFiles

PERIOD = "100000"


class PodCgroups:
    """The cgroups of pods and containers; the end of the ``with`` block removes them.

    :param machine: the CPUs of a made-up machine; "" for this one.
    :ivar where: a description of the kind of cgroups.
    :ivar mountinfo: the file that lists their mounts.
    :ivar parent: the cgroup above those of all pods.
    :ivar version: of the cgroup hierarchies, 1 or 2.
    """

    def __init__(self, scratch: Path, machine: str = "") -> None:
        self._machine = machine
        self.parent = f"/nri-demo-{os.getpid()}/kubepods"
        self.mountinfo = "/proc/self/mountinfo"
        self._scratch = scratch
        self._processes: list[subprocess.Popen[bytes]] = []
        self._made: list[Path] = []
        self._tree: CgroupFiles | None = None

    def __enter__(self) -> Self:
        try:
            if self._machine:
                raise _CannotError("the machine is made up, too")
            self._use_real()
            self.where = f"real cgroups (v{self.version}), with real processes"
        except (OSError, CgroupError, _CannotError) as error:
            self._remove()
            self._use_plain_files()
            self.where = f"a made-up cgroup tree of plain files ({error})"
        self.quota_knob = "cpu.max" if self.version == 2 else "cpu.cfs_quota_us"
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def make(self, path: str, quota: str) -> None:
        """Make a cgroup below ``parent`` with a CPU quota, as a runtime does."""
        if self._tree is not None:
            self._tree.make(path)
        else:
            self._make_real(path)
        self.limit(path, quota)

    def run(self, path: str) -> int:
        """Start a process in a cgroup; return its pid, or 0 when the tree is of plain files."""
        if self._tree is not None:
            return 0
        process = subprocess.Popen(["/bin/sleep", "infinity"], stdin=subprocess.DEVNULL)
        self._processes.append(process)
        for point in dict.fromkeys(self._points.values()):
            Path(point + path, "cgroup.procs").write_text(str(process.pid))
        return process.pid

    def limit(self, path: str, quota: str) -> None:
        """Write a CPU limit as a runtime does."""
        if self.version == 2:
            self._file(path, "cpu.max").write_text(f"{quota} {PERIOD}")
        else:
            self._file(path, "cpu.cfs_period_us").write_text(PERIOD)
            self._file(path, "cpu.cfs_quota_us").write_text(quota)

    def knobs(self, path: str) -> dict[str, str]:
        """Return the present values of quota and CPUs; an empty dictionary for a missing cgroup."""
        if not self._file(path, "cpuset.cpus").exists():
            return {}
        cpus = self._file(path, "cpuset.cpus").read_text().strip()
        return {
            self.quota_knob: self._file(path, self.quota_knob).read_text().strip(),
            "cpuset.cpus": cpus or "-",
        }

    @property
    def machine(self) -> str:
        """The CPUs of the cgroup above all pods; in a tree of plain files those of the root."""
        knob = "cpuset.cpus.effective" if self.version == 2 else "cpuset.cpus"
        return self._file(self.parent if self._tree is None else "", knob).read_text().strip()

    def shown(self, text: str) -> str:
        """Return a text in which the directories of ``parent`` are cut to ``…``."""
        for point in sorted(set(self._points.values()), key=len, reverse=True):
            text = text.replace(f"{point}{self.parent}/", "…/")
        return text

    def _file(self, path: str, knob: str) -> Path:
        return Path(self._points[knob.partition(".")[0]] + path) / knob

    def _use_real(self) -> None:
        mounts = Mounts.read()
        serving = {controller: mounts.serving(controller) for controller in ("cpu", "cpuset")}
        if os.geteuid() != 0:
            raise _CannotError("only root may make cgroups")
        if None in serving.values():
            raise _CannotError("the machine has no cgroup hierarchy with cpu and cpuset")
        self._points = {controller: mount.point for controller, mount in serving.items() if mount}
        self.version = max(mount.version for mount in serving.values() if mount)
        for point in dict.fromkeys(self._points.values()):
            control = Path(point) / "cgroup.subtree_control"
            if self.version == 2 and not {"cpu", "cpuset"} <= set(control.read_text().split()):
                raise _CannotError(f"{control} lacks cpu or cpuset")
        self._make_real(self.parent)
        if self.machine == "0":
            raise _CannotError(
                "the machine has only one CPU, and konfine needs one to keep and one to give"
            )

    def _make_real(self, path: str) -> None:
        for point in dict.fromkeys(self._points.values()):
            directory = Path(point)
            for part in path.strip("/").split("/"):
                above, directory = directory, directory / part
                if directory.exists():
                    continue
                if self.version == 2 and above != Path(point):
                    (above / "cgroup.subtree_control").write_text("+cpu +cpuset")
                directory.mkdir()
                self._made.append(directory)
                # v1: a new cpuset is empty and accepts no process.
                for knob in ("cpuset.cpus", "cpuset.mems"):
                    if self.version == 1 and (directory / knob).exists():
                        (directory / knob).write_text((above / knob).read_text().strip())

    def _use_plain_files(self) -> None:
        self._tree = CgroupFiles(
            self._scratch / "cgroup", "v2", *[self._machine] if self._machine else []
        )
        self._tree.make(self.parent)
        mountinfo = self._scratch / "mountinfo"
        mountinfo.write_text(self._tree.mountinfo)
        self.mountinfo = str(mountinfo)
        self._points = dict.fromkeys(("cpu", "cpuset"), self._tree.root)
        self.version = 2

    def _remove(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        self._processes.clear()
        while self._made:
            directory = self._made.pop()
            until = time.monotonic() + 5
            # The kernel needs a moment after a process has ended.
            while directory.exists() and time.monotonic() < until:
                with contextlib.suppress(OSError):
                    directory.rmdir()


class _CannotError(Exception):
    """The reason why real cgroups cannot be used."""
