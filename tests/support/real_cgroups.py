"""Cgroups on this machine's own v1 hierarchies, for tests of the kernel's answers."""

from __future__ import annotations

import os
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from nri.cgroups import Mounts

if TYPE_CHECKING:
    from collections.abc import Iterator


class Real:
    """Cgroups below one of a unique name, in the v1 hierarchies of cpu and cpuset."""

    def __init__(self, cpu: str, cpuset: str) -> None:
        self.points = {"cpu": cpu, "cpuset": cpuset}
        self.top = f"/nri-test-{uuid.uuid4().hex[:12]}"
        self.made: list[str] = []
        self.cpus = self.get("", "cpuset.cpus")
        self.mems = self.get("", "cpuset.mems")

    def make(self, path: str = "", cpus: str | None = None) -> str:
        """Make a cgroup with these CPUs (by default all) below the top; return its path."""
        for point in self.points.values():
            os.mkdir(point + self.top + path)
            self.made.append(point + self.top + path)
        self.put(self.top + path, "cpuset.mems", self.mems)
        self.put(self.top + path, "cpuset.cpus", self.cpus if cpus is None else cpus)
        return self.top + path

    def remove(self) -> None:
        while self.made:
            directory = self.made.pop()
            if os.path.isdir(directory):
                os.rmdir(directory)

    def put(self, path: str, knob: str, value: str) -> None:
        with open(f"{self.points[knob.partition('.')[0]]}{path}/{knob}", "w", encoding="ascii") as file:
            file.write(value)

    def enter(self, path: str, pid: int) -> None:
        """Move a process into a cgroup; the test's own CPU affinity (taskset) has no effect on it."""
        os.sched_setaffinity(pid, range(os.cpu_count() or 1))
        for point in self.points.values():
            with open(f"{point}{path}/cgroup.procs", "w", encoding="ascii") as file:
                file.write(str(pid))

    def get(self, path: str, knob: str) -> str:
        with open(f"{self.points[knob.partition('.')[0]]}{path}/{knob}", encoding="ascii") as file:
            return file.read().strip()


@contextmanager
def real_cgroups() -> Iterator[Real]:
    """A cgroup to work in, removed with all below it; the test is skipped where none can be made."""
    if os.geteuid() != 0:
        pytest.skip("needs root to make cgroups")
    v1 = Mounts.read().v1
    for controller in ("cpu", "cpuset"):
        if controller not in v1 or v1[controller].root != "/":
            pytest.skip(f"needs the whole v1 hierarchy of {controller}, which is not mounted here")
        if not os.access(v1[controller].point, os.W_OK):
            pytest.skip(f"needs to write to {v1[controller].point}, which is mounted read-only here")
    real = Real(v1["cpu"].point, v1["cpuset"].point)
    if not real.cpus.startswith("0-"):
        pytest.skip(f"needs the CPUs 0 and 1, has {real.cpus}")
    real.cpus = "0-1"  # tests narrow and widen these two, on a machine with any number of CPUs
    try:
        real.make()
        yield real
    finally:
        real.remove()
