"""Each knob that `nri.cgroups` writes is a file of the tree that answers as the kernel, and the tree takes it."""

from __future__ import annotations

import pytest

from nri.cgroups import CgroupError, find
from nri.testing import CgroupTree, Pod
from tests.unit.cgroups.test_knob import CASES

# Which is of other kernels.
VALUES = {name: value for name, _, value, *_ in CASES if name != "cpu.bvt_warp_ns"}


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
