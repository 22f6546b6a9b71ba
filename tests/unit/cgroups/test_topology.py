"""The topology of machines, read from made-up files of sysfs."""

from pathlib import Path

import pytest

from harness.machines import make, topology
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


def test_core_types_of_a_laptop_and_of_arm64(tmp_path: Path) -> None:
    laptop = topology(tmp_path, "laptop")
    assert [render_cpus(cpus) for cpus in laptop.kinds] == ["0-11", "12-19"]
    arm = Topology.read(make(tmp_path / "arm", cores=4, capacities=[446, 446, 1024, 1024]))
    assert [render_cpus(cpus) for cpus in arm.kinds] == ["2-3", "0-1"]
    alike = Topology.read(make(tmp_path / "alike", cores=2, capacities=[1024, 1024]))
    assert [render_cpus(cpus) for cpus in alike.kinds] == ["0-1"]


def with_speeds(sys: Path, file: str, **speeds: int) -> list[str]:
    """The core types of a machine whose CPUs have these speeds, ``cpuN``, in this file; the fastest first."""
    for cpu, speed in speeds.items():
        path = sys / f"devices/system/cpu/{cpu}/{file}"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{speed}\n")
    return [render_cpus(cpus) for cpus in Topology.read(str(sys)).kinds]


FREQUENCY, PERFORMANCE = "cpufreq/cpuinfo_max_freq", "acpi_cppc/highest_perf"


def test_core_types_are_ordered_by_speed_whatever_tells_them_apart(tmp_path: Path) -> None:
    """Two low-power cores have a PMU since Linux 6.13; before that they are among the small ones."""
    speeds = {f"cpu{cpu}": 5_100_000 for cpu in range(4)} | {
        f"cpu{cpu}": 3_800_000 for cpu in range(4, 8)
    }
    speeds |= {"cpu8": 2_500_000, "cpu9": 2_500_000}
    old, new, bare = (
        Path(make(tmp_path / name, cores=2, threads=2, atoms=6)) for name in ("old", "new", "bare")
    )
    for sys in (new, bare):
        (sys / "devices/cpu_atom/cpus").write_text("4-7\n")
        (sys / "devices/cpu_lowpower").mkdir()
        (sys / "devices/cpu_lowpower/cpus").write_text("8-9\n")
    assert (
        with_speeds(old, FREQUENCY, **speeds)
        == with_speeds(new, FREQUENCY, **speeds)
        == ["0-3", "4-7", "8-9"]
    )
    assert with_speeds(bare, FREQUENCY) == ["0-3", "4-7", "8-9"]
    without = Path(make(tmp_path / "amd", cores=10))  # AMD's have no PMU of a kind
    assert with_speeds(without, FREQUENCY, **speeds) == ["0-3", "4-7", "8-9"]
    reverse = {f"cpu{cpu}": 132 if cpu < 4 else 196 for cpu in range(10)}
    assert with_speeds(Path(make(tmp_path / "perf", cores=10)), PERFORMANCE, **reverse) == [
        "4-9",
        "0-3",
    ]


@pytest.mark.parametrize("file", [FREQUENCY, PERFORMANCE])
def test_favoured_cores_are_no_type_of_their_own(tmp_path: Path, file: str) -> None:
    ranks = {f"cpu{cpu}": 236 - 5 * cpu for cpu in range(16)}
    assert with_speeds(Path(make(tmp_path, cores=16)), file, **ranks) == ["0-15"]


def test_speed_that_some_cores_do_not_tell_counts_for_none(tmp_path: Path) -> None:
    assert with_speeds(Path(make(tmp_path, cores=4)), FREQUENCY, cpu0=5000, cpu1=1000, cpu2=0) == [
        "0-3"
    ]


def test_node_with_movable_memory_alone_counts_as_without(tmp_path: Path) -> None:
    sys = make(tmp_path, packages=2, nodes=2, cores=2, without_memory=[3])
    (tmp_path / "devices/system/node/has_normal_memory").write_text("0,2\n")
    assert [sorted(Topology.read(sys).memory_of({cpu})) for cpu in (0, 2, 4, 6)] == [
        [0],
        [0],
        [2],
        [2],
    ]


def test_cpus_that_are_offline_are_in_no_domain(tmp_path: Path) -> None:
    found = Topology.read(
        make(tmp_path, caches=2, cores=2, threads=2, offline=[1, 4], isolated="3,7")
    )
    assert (render_cpus(found.online), render_cpus(found.isolated)) == ("0,2-3,5-7", "3,7")
    assert [render_cpus(core) for core in found.cores] == ["0", "2,6", "3,7", "5"]
    assert [render_cpus(cache) for cache in found.caches] == ["0,5", "2-3,6-7"]


def test_memory_of_a_node_without_memory_is_that_of_the_nearest(tmp_path: Path) -> None:
    found = Topology.read(
        make(tmp_path, packages=2, nodes=2, cores=2, without_memory=[1], bare_nodes=1)
    )
    assert [len(cpus) for cpus in found.nodes.values()] == [2, 2, 2, 2, 0]
    assert [sorted(found.memory_of({cpu})) for cpu in (0, 2, 4)] == [[0], [0], [2]]
    assert found.memory_of({0, 4}) == {0, 2}
    assert [found.distance({0}, cpus) for cpus in ({1}, {2}, {4}, set[int]())] == [10, 12, 32, 0]


def test_machine_without_numa_and_caches_is_one_node(tmp_path: Path) -> None:
    cpu = tmp_path / "devices/system/cpu"
    cpu.mkdir(parents=True)
    (cpu / "online").write_text("0-1\n")
    found = Topology.read(str(tmp_path))
    both, first, second = frozenset([0, 1]), frozenset([0]), frozenset([1])
    assert (found.nodes, found.memory, found.distances) == ({0: both}, first, {0: {0: 10}})
    assert (found.cores, found.caches) == ([first, second], [first, second])
    assert found.packages == [both]
    assert not hasattr(found, "sockets")


def test_missing_or_wrong_files_are_errors_with_their_path(tmp_path: Path) -> None:
    with pytest.raises(
        CgroupError, match=r"cpu/online names no CPU: expected those that are online; is sysfs"
    ):
        Topology.read(str(tmp_path))
    make(tmp_path)
    (tmp_path / "devices/system/cpu/cpu2/topology/core_cpus_list").write_text("x")
    with pytest.raises(
        CgroupError, match=r"core_cpus_list holds 'x': expected a list such as '0-3,8'"
    ):
        assert Topology.read(str(tmp_path)).cores
