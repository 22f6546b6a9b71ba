"""Made-up machines: the files of sysfs that tell about CPUs, as the kernel writes them for real ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nri.cgroups import render_cpus
from nri.cgroups.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Iterable


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def make(
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
    siblings = [[core + big * thread for thread in range(threads)] for core in range(big)]
    siblings += [[big * threads + atom] for atom in range(atoms)]
    off, every = frozenset(offline), frozenset(cpu for core in siblings for cpu in core)
    online = every - off
    cpu = sys / "devices/system/cpu"
    _write(cpu / "online", render_cpus(online))
    _write(cpu / "present", render_cpus(every))
    _write(cpu / "isolated", isolated)
    on_cache = [siblings[at : at + cores] for at in range(0, big, cores)]
    on_cache[-1] = on_cache[-1] + siblings[big:]
    groups = [frozenset(cpu for core in group for cpu in core) for group in on_cache]
    per_node, per_package = [
        [frozenset[int]().union(*groups[at : at + size]) for at in range(0, len(groups), size)]
        for size in (caches, caches * nodes)
    ]
    given = list(capacities)
    for number, core in enumerate(siblings):
        for member in online.intersection(core):
            place = cpu / f"cpu{member}"
            _write(place / "topology/core_cpus_list", render_cpus(online.intersection(core)))
            _write(place / "cache/index2/shared_cpu_list", render_cpus(online.intersection(core)))
            if given:
                _write(place / "cpu_capacity", str(given[number]))
            for name, sets in (
                ("topology/package_cpus_list", per_package),
                ("cache/index3/shared_cpu_list", groups if has_l3 else []),
            ):
                for cpus in sets:
                    if member in cpus:
                        _write(place / name, render_cpus(cpus & online))
    count = len(per_node) + bare_nodes
    node = sys / "devices/system/node"
    _write(node / "online", render_cpus(range(count)))
    _write(node / "has_memory", render_cpus(set(range(count)) - set(without_memory)))
    for one in range(count):
        _write(
            node / f"node{one}/cpulist",
            render_cpus(per_node[one] & online if one < len(per_node) else ()),
        )
        far = [
            10 if one == other else 12 if one // nodes == other // nodes else 32
            for other in range(count)
        ]
        _write(node / f"node{one}/distance", " ".join(map(str, far)))
    if atoms:
        _write(sys / "devices/cpu_core/cpus", render_cpus(online & set(range(big * threads))))
        _write(
            sys / "devices/cpu_atom/cpus",
            render_cpus(online & set(range(big * threads, big * threads + atoms))),
        )
    return str(sys)


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
