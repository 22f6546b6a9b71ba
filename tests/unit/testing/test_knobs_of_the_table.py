"""Each knob that `nri.cgroups` writes is a file of the tree that answers as the kernel, and the tree takes it."""

from __future__ import annotations

from typing import Any

import pytest

from nri.cgroups import CgroupError, Quota, find
from nri.cgroups.knob_table import TABLE
from nri.testing import CgroupTree, Pod

MIB = 1 << 20
VALUES: dict[str, Any] = {
    "cpu.weight": 50,
    "cpu.max": Quota(20000, 50000),
    "cpu.max.burst": 1000,
    "cpu.idle": True,
    "cpuset.cpus": frozenset({1, 2}),
    "cpuset.mems": frozenset({0}),
    "memory.min": 4 * MIB,
    "memory.low": 8 * MIB,
    "memory.high": 16 * MIB,
    "memory.max": 32 * MIB,
    "memory.swap.max": 4 * MIB,
    "memory.oom.group": True,
    "io.weight": 10000,
    "pids.max": 100,
}
WITHOUT = {"cpu.bvt_warp_ns"}  # of other kernels


def test_the_table_here_has_every_knob_that_can_be_written() -> None:
    written = {name for name, knob in TABLE.items() if knob.can_be_written}
    assert VALUES.keys() == written - WITHOUT


@pytest.mark.parametrize("kind", ["v1", "v2"])
def test_each_knob_is_written_and_read_again(kind: str) -> None:
    web = Pod(cgroup_version=int(kind[1])).container("web", resources={"cpu": {}})
    with CgroupTree(kind) as tree:
        tree.add(web)
        cgroup = find(web.cgroups_path, web.pid, web.id)
        for name, value in VALUES.items():
            tree.forget()
            try:
                before = cgroup.read(name)
            except CgroupError as error:
                assert kind == "v1" and "cgroup v1 has nothing that does the same" in str(error)
                continue
            assert cgroup.write(name, value) == before, name
            assert cgroup.read(name) == value
            assert (tree.written != {}) == (before != value), name
