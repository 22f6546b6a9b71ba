"""Cgroups in this machine's own hierarchies, v1 or v2, for tests of the kernel's answers.

A test on them has the marker ``kernel_cgroups``. It runs on any version, which each of the controllers ``cpu`` and
``cpuset`` has for itself. Where the kernel's behaviour depends on the version there is a test for each, marked with
``kernel_cgroups(cpuset=1)`` for example. On a machine with another version it is deselected: see ``cgroup_versions``.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from nri.cgroups import Mounts, parse_cpus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nri.cgroups.mounts import Mount

CONTROLLERS = ("cpu", "cpuset")
POSSIBLE_CPUS = "/sys/devices/system/cpu/possible"


class Real:
    """Cgroups below one of a unique name, in the hierarchies of cpu and cpuset.

    :ivar points: where the hierarchies are mounted, by controller; twice the same in v2.
    :ivar versions: their versions, by controller.
    :ivar top: the path of the uppermost cgroup.
    """

    def __init__(self, serving: Mapping[str, Mount], cpus: str) -> None:
        self.points = {controller: serving[controller].point for controller in CONTROLLERS}
        self.versions = {controller: serving[controller].version for controller in CONTROLLERS}
        self.top = f"/nri-test-{uuid.uuid4().hex[:12]}"
        self.made: list[str] = []
        self.cpus = cpus

    def make(
        self, path: str = "", cpus: str | None = None, *, controllers: tuple[str, ...] = CONTROLLERS
    ) -> str:
        """Make a cgroup with these CPUs (by default all) below the top; return its path.

        :param controllers: the controllers that it gets; in v1 it has all of them anyway.
        """
        for controller, point in self.points.items():
            directory = point + self.top + path
            if not os.path.isdir(directory):
                os.mkdir(directory)
                self.made.append(directory)
            if self.versions[controller] == 2 and controller in controllers:
                self.enable(os.path.dirname(self.top + path).rstrip("/"), controller)
        if self.versions["cpuset"] == 1:
            self.put(self.top + path, "cpuset.mems", self.get("", "cpuset.mems"))
        if self.versions["cpuset"] == 1 or "cpuset" in controllers:
            self.put(self.top + path, "cpuset.cpus", self.cpus if cpus is None else cpus)
        return self.top + path

    def enable(self, path: str, controller: str) -> None:
        """Enable a controller in the children of a v2 cgroup that has no processes."""
        file = f"{self.points[controller]}{path}/cgroup.subtree_control"
        if controller not in _words(file):
            _write(file, f"+{controller}")

    def remove(self) -> None:
        while self.made:
            directory = self.made.pop()
            if os.path.isdir(directory):
                os.rmdir(directory)

    def put(self, path: str, knob: str, value: str) -> None:
        """Write a knob of ``cpu``, of ``cpuset``, or of v2 itself (``cgroup.type``), where that serves ``cpuset``."""
        _write(self._file(path, knob), value)

    def get(self, path: str, knob: str) -> str:
        return _read(self._file(path, knob))

    def limit(self, path: str, quota_us: int, period_us: int = 100000) -> None:
        """Set a CFS quota."""
        if self.versions["cpu"] == 2:
            self.put(path, "cpu.max", f"{quota_us} {period_us}")
        else:
            self.put(path, "cpu.cfs_period_us", str(period_us))
            self.put(path, "cpu.cfs_quota_us", str(quota_us))

    def quota(self, path: str) -> str:
        """Return the CFS quota as plugins show it: ``50000/100000``, or ``max/100000`` for none."""
        if self.versions["cpu"] == 2:
            return self.get(path, "cpu.max").replace(" ", "/")
        quota = self.get(path, "cpu.cfs_quota_us")
        return f"{'max' if quota == '-1' else quota}/{self.get(path, 'cpu.cfs_period_us')}"

    def enter(self, path: str, pid: int) -> None:
        """Move a process into a cgroup; the test's own CPU affinity (taskset) has no effect on it."""
        os.sched_setaffinity(pid, range(first_missing_cpu()))
        for file in self.procs(path):
            _write(file, str(pid))

    @contextmanager
    def process(self, path: str) -> Iterator[int]:
        """A process in a cgroup; its number."""
        with subprocess.Popen(["sleep", "60"]) as process:
            try:
                self.enter(path, process.pid)
                yield process.pid
            finally:
                process.kill()

    def procs(self, path: str) -> list[str]:
        """Return the files that a process's number is written to, so that it enters a cgroup."""
        return [f"{point}{path}/cgroup.procs" for point in dict.fromkeys(self.points.values())]

    def _file(self, path: str, knob: str) -> str:
        controller = knob.partition(".")[0]
        return f"{self.points['cpuset' if controller == 'cgroup' else controller]}{path}/{knob}"


def serving() -> dict[str, Mount] | str:
    """Return the mounts of the hierarchies that serve cpu and cpuset, by controller; or what is missing."""
    mounts = Mounts.read()
    found = {}
    for controller in CONTROLLERS:
        mount = mounts.serving(controller)
        if mount is None or (
            mount.version == 2 and controller not in _words(f"{mount.point}/cgroup.controllers")
        ):
            return f"a hierarchy of {controller}, v1 or v2, and none is mounted here"
        found[controller] = mount
    return found


@contextmanager
def one_gives_out_cpus() -> Iterator[None]:
    """One test at a time gives out the machine's CPUs: konfine reads the cpusets of other tests' containers, too."""
    lock = os.open("/run", os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(lock)


@contextmanager
def real_cgroups(cpus: str = "0-1") -> Iterator[Real]:
    """A cgroup to work in, removed with all below it; the test is skipped where none can be made.

    :param cpus: the CPUs that it has, on a machine with any number of CPUs.
    """
    if os.geteuid() != 0:
        pytest.skip("needs root to make cgroups")
    mounts = serving()
    if isinstance(mounts, str):
        pytest.skip(f"needs {mounts}")
    for controller, mount in mounts.items():
        if mount.root != "/":
            pytest.skip(
                f"needs the whole hierarchy of {controller}, and only {mount.root} is mounted here"
            )
        if not os.access(mount.point, os.W_OK):
            pytest.skip(f"needs to write to {mount.point}, which is mounted read-only here")
        control = f"{mount.point}/cgroup.subtree_control"  # systemd's, or the administrator's; not ours to change
        if mount.version == 2 and controller not in _words(control):
            pytest.skip(
                f"needs {controller} in {control}: systemd enables it for a unit with Delegate=yes"
            )
    with one_gives_out_cpus():
        yield from _below_top(Real(mounts, cpus))


def _below_top(real: Real) -> Iterator[Real]:
    cpus = real.cpus
    has = real.get("", "cpuset.cpus" if real.versions["cpuset"] == 1 else "cpuset.cpus.effective")
    if not parse_cpus(cpus) <= parse_cpus(has):
        pytest.skip(f"needs the CPUs {cpus}, has {has}")
    try:
        real.make()
        yield real
    finally:
        real.remove()


def first_missing_cpu() -> int:
    """Return the number of the first CPU that this machine cannot have."""
    return int(_read(POSSIBLE_CPUS).rpartition(",")[2].rpartition("-")[2]) + 1


def _read(file: str) -> str:
    with open(file, encoding="ascii") as opened:
        return opened.read().strip()


def _words(file: str) -> list[str]:
    return _read(file).split()


def _write(file: str, value: str) -> None:
    with open(file, "w", encoding="ascii") as opened:
        opened.write(value or "\n")  # nothing is no write at all
