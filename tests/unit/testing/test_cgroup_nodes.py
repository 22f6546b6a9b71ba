"""A CgroupTree of a machine with several NUMA nodes."""

import pytest

from nri.cgroups import KnobValueError, find
from nri.cgroups.errors import CgroupError
from nri.cgroups.topology import Topology, online_cpus
from nri.testing import CgroupTree, Pod


@pytest.mark.parametrize("kind", ["v1", "v2", "hybrid"])
def test_a_machine_has_nodes_with_cpus_and_memory(kind: str) -> None:
    web = Pod("shop", cgroup_version=2 if kind == "v2" else 1).container("web")
    with CgroupTree(kind, nodes=2) as tree:
        tree.add(web)
        topology = Topology.read()
        assert topology.nodes == {0: frozenset(range(4)), 1: frozenset(range(4, 8))}
        assert (online_cpus(), topology.memory_of({5})) == (frozenset(range(8)), frozenset({1}))
        cgroup = find(web.cgroup)
        assert cgroup.read("cpuset.mems.effective") == {0, 1}
        cgroup.write("cpuset.mems", frozenset({1}))
        assert cgroup.read("cpuset.mems.effective") == {1}
        with pytest.raises((CgroupError, KnobValueError)):
            cgroup.write("cpuset.mems", frozenset({2}))
        assert tree.written == {"web/cpuset.mems": "1"}


def test_without_nodes_the_machine_is_the_real_one() -> None:
    with CgroupTree() as tree:
        assert (tree.sys, Topology.read().online) == ("/sys", online_cpus())


@pytest.mark.parametrize("cpus", ["0-6", "1-8", "0,2"])
def test_cpus_that_nodes_cannot_have_evenly_are_refused(cpus: str) -> None:
    with pytest.raises(ValueError, match="expected a number that divides"):
        CgroupTree(cpus=cpus, nodes=4)
