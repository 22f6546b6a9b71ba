"""The topology of machines, read from made-up files of sysfs."""

from pathlib import Path

import pytest

from harness.machines import MACHINES, make, topology
from nri.cgroups import CgroupError, render_cpus
from nri.cgroups.topology import Topology


@pytest.mark.parametrize(
    ("name", "cpus", "cores", "caches", "nodes", "packages"),
    [
        ("small", "0-3", 4, 1, 1, 1),
        ("laptop", "0-19", 14, 1, 1, 1),
        ("two-sockets", "0-255", 128, 16, 2, 2),
        ("many-caches", "0-255", 128, 16, 4, 1),
        ("bare-node", "0-31", 16, 2, 2, 2),
        ("arm64", "0-79", 80, 80, 2, 2),
    ],
)
def test_domains_of_machines(
    tmp_path: Path, name: str, cpus: str, cores: int, caches: int, nodes: int, packages: int
) -> None:
    found = topology(tmp_path, name)
    assert render_cpus(found.online) == cpus
    assert [len(found.cores), len(found.caches), len(found.nodes), len(found.packages)] == [
        *(cores, caches, nodes, packages)
    ]
    for domains in (found.cores, found.caches, list(found.nodes.values()), found.packages):
        assert sorted(cpu for domain in domains for cpu in domain) == sorted(found.online)
    assert Topology.from_value(found.to_value()).to_value() == found.to_value()


def test_core_types_of_a_laptop_and_of_arm64(tmp_path: Path) -> None:
    laptop = topology(tmp_path, "laptop")
    assert {kind: render_cpus(cpus) for kind, cpus in laptop.kinds.items()} == {"core": "0-11", "atom": "12-19"}
    arm = Topology.read(make(tmp_path / "arm", cores=4, capacities=[446, 446, 1024, 1024]))
    assert [(kind, render_cpus(cpus)) for kind, cpus in arm.kinds.items()] == [("1024", "2-3"), ("446", "0-1")]
    alike = Topology.read(make(tmp_path / "alike", cores=2, capacities=[1024, 1024]))
    assert {kind: render_cpus(cpus) for kind, cpus in alike.kinds.items()} == {"": "0-1"}


def test_cpus_that_are_offline_are_in_no_domain(tmp_path: Path) -> None:
    found = Topology.read(make(tmp_path, caches=2, cores=2, threads=2, offline=[1, 4], isolated="3,7"))
    assert (render_cpus(found.online), render_cpus(found.isolated)) == ("0,2-3,5-7", "3,7")
    assert [render_cpus(core) for core in found.cores] == ["0", "2,6", "3,7", "5"]
    assert [render_cpus(cache) for cache in found.caches] == ["0,5", "2-3,6-7"]


def test_memory_of_a_node_without_memory_is_that_of_the_nearest(tmp_path: Path) -> None:
    found = Topology.read(make(tmp_path, packages=2, nodes=2, cores=2, without_memory=[1], bare_nodes=1))
    assert [len(cpus) for cpus in found.nodes.values()] == [2, 2, 2, 2, 0]
    assert [sorted(found.memory_of({cpu})) for cpu in (0, 2, 4)] == [[0], [0], [2]]
    assert found.memory_of({0, 4}) == {0, 2}
    assert [found.distance({0}, cpus) for cpus in ({1}, {2}, {4}, set[int]())] == [10, 12, 32, 0]


def test_machine_without_numa_and_caches_is_one_node(tmp_path: Path) -> None:
    cpu = tmp_path / "devices/system/cpu"
    cpu.mkdir(parents=True)
    (cpu / "online").write_text("0-1\n")
    found = Topology.read(str(tmp_path))
    value = found.to_value()
    assert [value[key] for key in ("nodes", "memory", "distances")] == [{"0": "0-1"}, "0", {"0": {"0": 10}}]
    assert [value[key] for key in ("cores", "caches", "packages")] == [["0", "1"], ["0", "1"], ["0-1"]]


def test_missing_or_wrong_files_are_errors_with_their_path(tmp_path: Path) -> None:
    with pytest.raises(CgroupError, match=r"cpu/online names no CPU: expected those that are online; is sysfs"):
        Topology.read(str(tmp_path))
    make(tmp_path)
    (tmp_path / "devices/system/cpu/cpu2/topology/core_cpus_list").write_text("x")
    with pytest.raises(CgroupError, match=r"core_cpus_list holds 'x': expected a list such as '0-3,8'"):
        Topology.read(str(tmp_path))


@pytest.mark.parametrize("value", [None, {}, [], {"cores": 1}, {**MACHINES, "cores": ["x"]}])
def test_a_value_that_is_no_topology_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"topology|CPU"):
        Topology.from_value(value)
