"""Which CPUs konfine chooses on made-up machines, and what its refusals say."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.machines import MACHINES, make, topology
from nri.cgroups import parse_cpus, render_cpus
from nri.cgroups.topology import Topology
from nri.plugins.konfine.placement import NoRoomError, NotWholeError, choose

NOWHERE = "16 on node 0, 16 on node 1, 16 on node 2, 16 on node 3 are free; `spread` would take two of them"


@pytest.fixture(scope="session")
def machines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Topology]:
    folder = tmp_path_factory.mktemp("machines")
    return {name: topology(folder, name) for name in MACHINES}


@pytest.mark.parametrize(
    ("machine", "free", "count", "cpus"),
    [
        ("two-sockets", "0-255", 2, "0,128"),  # a core
        ("two-sockets", "0-255", 16, "0-7,128-135"),  # a cache
        ("two-sockets", "1-255", 16, "8-15,136-143"),  # not the one that is in use
        (
            "two-sockets",
            "2-255",
            13,
            "2-7,128,130-135",
        ),  # the one that is in use, with its odd CPUs
        ("two-sockets", "1-255", 1, "128"),  # the rest of a core in use
        ("two-sockets", "0-255", 128, "0-63,128-191"),  # a node
        ("two-sockets", "20-255", 128, "64-127,192-255"),
        ("two-sockets", "0-255", 20, "0-9,128-137"),  # a cache, and the least of another one
        ("many-caches", "0-255", 64, "0-31,128-159"),
        ("laptop", "0-19", 4, "0-1,6-7"),
        ("laptop", "2-19", 8, "2-5,8-11"),  # of one core type, fast ones first
        ("laptop", "5-19", 8, "12-19"),
        ("arm64", "0-79", 3, "0-2"),
        ("small", "0-3", 4, "0-3"),
    ],
)
def test_chosen_cpus_are_near_each_other(
    machines: dict[str, Topology], machine: str, free: str, count: int, cpus: str
) -> None:
    assert render_cpus(choose(machines[machine], parse_cpus(free), count)) == cpus


def test_pool_grows_beside_the_cpus_that_it_has(machines: dict[str, Topology]) -> None:
    have = parse_cpus("40-43,168-171")
    free = frozenset(range(256)) - have
    assert (
        render_cpus(choose(machines["two-sockets"], free, 4, near=have, spread=True))
        == "44-45,172-173"
    )
    more = choose(machines["two-sockets"], free, 12, near=have, spread=True)
    assert parse_cpus("44-47,172-175") <= more
    assert machines["two-sockets"].nodes_of(more) == [0]


def test_spread_set_takes_the_nearest_node_next(machines: dict[str, Topology]) -> None:
    chosen = choose(machines["many-caches"], parse_cpus("0-255"), 80, spread=True)
    assert machines["many-caches"].nodes_of(chosen) == [0, 1]
    with pytest.raises(NoRoomError):
        choose(machines["many-caches"], parse_cpus("0-255"), 80)


@pytest.mark.parametrize(
    ("machine", "free", "count", "whole", "message"),
    [
        ("small", "", 1, False, "none is free"),
        ("many-caches", "0-15,32-47,64-79,96-111", 20, False, NOWHERE),
        (
            *("many-caches", "0-2,32-34", 5, False),
            "3 on node 0, 3 on node 1 are free; `spread` would take two of them",
        ),
        (
            *("many-caches", "0-2,32-34,64-66", 8, False),
            "3 on node 0, 3 on node 1, 3 on node 2 are free; `spread` would take more than one node",
        ),
        (
            *("two-sockets", "0-255", 3, True),
            "expected whole cores, which have 2 threads each: ask for 2 or 4",
        ),
        ("two-sockets", "0-3,128", 4, True, "2 are free on whole cores"),
    ],
)
def test_refusal_says_what_is_free_and_where(
    machines: dict[str, Topology], machine: str, free: str, count: int, whole: bool, message: str
) -> None:
    with pytest.raises(NoRoomError) as error:
        choose(machines[machine], parse_cpus(free), count, whole=whole)
    assert str(error.value) == message


def test_cpus_of_no_numa_node_are_not_chosen(tmp_path: Path) -> None:
    sys = make(tmp_path, cores=4)
    (Path(sys) / "devices/system/node/node0/cpulist").write_text("\n")
    machine = Topology.read(sys)
    with pytest.raises(NoRoomError, match=r"^none on a NUMA node are free; "):
        choose(machine, machine.online, 2)
    assert len(choose(machine, machine.online, 2, spread=True)) == 2


@settings(max_examples=150, deadline=None)
@given(
    machine=st.sampled_from(sorted(MACHINES)),
    busy=st.frozensets(st.integers(0, 255), max_size=120),
    count=st.integers(1, 70),
    near=st.frozensets(st.integers(0, 255), max_size=4),
    whole=st.booleans(),
    spread=st.booleans(),
)
def test_chosen_cpus_are_free_and_as_many_as_asked_for(
    machines: dict[str, Topology],
    machine: str,
    busy: frozenset[int],
    count: int,
    near: frozenset[int],
    whole: bool,
    spread: bool,
) -> None:
    found = machines[machine]
    free = found.online - busy
    on_node = max((len(cpus & free) for cpus in found.nodes.values()), default=0)
    try:
        chosen = choose(found, free, count, near=near & found.online, whole=whole, spread=spread)
    except NoRoomError:
        assert whole or count > (len(free) if spread else on_node)
        return
    assert len(chosen) == count
    assert chosen <= free
    assert spread or len(found.nodes_of(chosen)) == 1
    if whole:
        assert all(core <= chosen or not core & chosen for core in found.cores)
    elif any(len(cache & free) >= count for cache in found.caches) and not near:
        assert any(chosen <= cache for cache in found.caches)


@pytest.mark.parametrize(
    ("count", "free", "expected"),
    [
        (2, "0-11", "0,4"),
        (3, "0-11", "0,4,8"),
        (5, "0-1,4-5,8-9", "0-1,4-5,8"),
        (1, "0-11", "8"),
        (4, "0,4-5,8-11", "0,4,8-9"),
        (3, "0-2,4,9", "0,4,9"),
    ],
)
def test_whole_cores_have_as_many_threads_as_each_has(
    tmp_path: Path, count: int, free: str, expected: str
) -> None:
    """Fast cores of two threads and slow ones of one: no core is split, and odd numbers are whole, too."""
    machine = Topology.read(make(tmp_path, cores=4, threads=2, atoms=4))
    chosen = choose(machine, parse_cpus(free), count, whole=True)
    assert render_cpus(chosen) == expected


def test_numbers_that_are_not_of_whole_cores_are_refused_with_those_that_are(
    tmp_path: Path,
) -> None:
    mixed = Topology.read(make(tmp_path / "mixed", cores=4, threads=2, atoms=4))
    with pytest.raises(NoRoomError, match="on node 0 are free on whole cores"):
        choose(mixed, parse_cpus("0-1,4-5"), 3, whole=True)
    plain = Topology.read(make(tmp_path / "plain", cores=4, threads=2))
    with pytest.raises(NotWholeError, match="which have 2 threads each: ask for 2 or 4"):
        choose(plain, plain.online, 3, whole=True)
    few = Topology.read(make(tmp_path / "few", cores=2, threads=4, atoms=1))
    with pytest.raises(NotWholeError, match="which have 1 or 4 threads: ask for 1 or 4"):
        choose(few, few.online, 3, whole=True)
    with pytest.raises(NoRoomError, match=r"^8 are free on whole cores$"):
        choose(plain, plain.online, 4000, whole=True)
