"""Made-up machines: the files of sysfs that tell about CPUs, as the kernel writes them for real ones."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nri.cgroups import render_cpus
from nri.cgroups.topology import Topology

Set = frozenset[int]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def make(  # noqa: PLR0913 - a key each
    sys: Path,
    *,
    packages: int = 1,
    nodes: int = 1,
    caches: int = 1,
    cores: int = 4,
    threads: int = 1,
    atoms: int = 0,
    has_l3: bool = True,
    offline: Iterable[int] = (),
    isolated: str = "",
    bare_nodes: int = 0,
    without_memory: Iterable[int] = (),
    capacities: Iterable[int] = (),
) -> str:
    """Make the files below *sys*; return its path.

    :param nodes: NUMA nodes in a package; *caches* in a node; *cores* on a cache; *threads* in a core, whose second
        ones come after all first ones, as on x86.
    :param atoms: small cores, without a second thread, on the one cache of a laptop.
    :param bare_nodes: nodes without CPUs, after the others.
    :param capacities: for each core, on arm64.
    """
    big = packages * nodes * caches * cores
    end = big * threads
    siblings: list[Set] = []
    for number in range(big):
        siblings.append(frozenset(range(number, end, big)))
    for atom in range(end, end + atoms):
        siblings.append(frozenset({atom}))
    every = frozenset[int]().union(*siblings)
    online = every - frozenset(offline)
    cpu = sys / "devices/system/cpu"
    _write(cpu / "online", render_cpus(online))
    _write(cpu / "present", render_cpus(every))
    _write(cpu / "isolated", isolated)
    groups = _joined(siblings[:big], cores)
    groups[-1] = groups[-1].union(*siblings[big:])
    per_node = _joined(groups, caches)
    _write_each(cpu, "topology/core_cpus_list", siblings, online)
    _write_each(cpu, "topology/package_cpus_list", _joined(per_node, nodes), online)
    _write_each(cpu, "cache/index2/shared_cpu_list", siblings, online)
    if has_l3:
        _write_each(cpu, "cache/index3/shared_cpu_list", groups, online)
    for number, capacity in enumerate(capacities):
        for member in online.intersection(siblings[number]):
            _write(cpu / f"cpu{member}/cpu_capacity", str(capacity))
    per_node += [frozenset()] * bare_nodes
    _write_nodes(sys / "devices/system/node", per_node, nodes, online, without_memory)
    if atoms:
        _write(sys / "devices/cpu_core/cpus", render_cpus(online.intersection(range(end))))
        _write(sys / "devices/cpu_atom/cpus", render_cpus(online.difference(range(end))))
    return str(sys)


def _joined(groups: list[Set], size: int) -> list[Set]:
    """Return the CPUs of each *size* groups together."""
    starts = range(0, len(groups), size)
    return [frozenset[int]().union(*groups[at : at + size]) for at in starts]


def _write_each(cpu: Path, file: str, domains: list[Set], online: Set) -> None:
    """Write a file of each CPU that is online, with the CPUs of its domain."""
    for domain in domains:
        own = domain & online
        for member in own:
            _write(cpu / f"cpu{member}/{file}", render_cpus(own))


def _write_nodes(
    node: Path, per_node: list[Set], in_package: int, online: Set, without_memory: Iterable[int]
) -> None:
    """Write the files of the NUMA nodes.

    :param in_package: nodes in a package.
    """
    numbers = range(len(per_node))
    _write(node / "online", render_cpus(numbers))
    _write(node / "has_normal_memory", render_cpus({*numbers} - {*without_memory}))
    for one, cpus in enumerate(per_node):
        _write(node / f"node{one}/cpulist", render_cpus(cpus & online))
        distances = [str(_distance(one, other, in_package)) for other in numbers]
        _write(node / f"node{one}/distance", " ".join(distances))


def _distance(one: int, other: int, in_package: int) -> int:
    """Return the distance of two nodes, as the firmware of most machines has it."""
    if one == other:
        return 10
    return 12 if one // in_package == other // in_package else 32


MACHINES: dict[str, dict[str, object]] = {
    "small": {"cores": 4},
    "laptop": {"cores": 6, "threads": 2, "atoms": 8},
    "two-sockets": {"packages": 2, "caches": 8, "cores": 8, "threads": 2},  # 2 x 64 cores, SMT
    "many-caches": {
        "nodes": 4,
        "caches": 4,
        "cores": 8,
        "threads": 2,
    },  # 16 L3 of 8 cores, four nodes
    "bare-node": {"packages": 2, "cores": 8, "threads": 2, "without_memory": [1]},
    "arm64": {"packages": 2, "cores": 40, "has_l3": False},
}
"""Machines by name, each with the arguments of ``make``."""


def topology(folder: Path, name: str) -> Topology:
    """Return the topology of a machine of ``MACHINES``, whose files are made in *folder*."""
    return Topology.read(make(folder / name, **MACHINES[name]))  # type: ignore[arg-type] # of one table
