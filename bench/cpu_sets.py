"""How near the exclusive CPUs of a container are to each other: konfine beside the kubelet, on made-up machines.

The kubelet's is that of its static policy without options (``takeByTopologyNUMAPacked``), written anew here from what
its documentation says: whole NUMA nodes or sockets, then whole cores of the socket with the fewest free ones, then
threads of the cores that are in use already. Both get the same sequences of pods; what share of their sets crosses a
cache, a node, a package although it need not. Once all CPUs but one may be given out, and once the isolated ones: all
but the first quarter of each node's cores, as on nodes with ``isolcpus=``.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from bench.report import Row
from harness.machines import topology
from nri.plugins.konfine.placement import NoRoomError, choose

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nri.cgroups.topology import Topology

    Set = frozenset[int]

SEQUENCES, PODS = 10, 400
SIZES = (1, 2, 2, 2, 4, 4, 6, 8, 8, 12, 16)
MACHINES_COMPARED = ("two-sockets", "many-caches", "arm64")


def kubelets(machine: Topology, free: Set, count: int) -> Set:
    """Return the CPUs that the kubelet's static policy gives."""
    taken: Set = frozenset()
    nodes, sockets = list(machine.nodes.values()), machine.packages
    for domains in (nodes, sockets) if len(nodes) >= len(sockets) else (sockets, nodes):
        for domain in domains:
            if domain and domain <= free - taken and len(domain) <= count - len(taken):
                taken |= domain

    def by_socket(which: Callable[[Set], bool]) -> list[Set]:
        left = free - taken
        order = sorted(sockets, key=lambda socket: (len(socket & left), min(socket)))
        return [
            core for socket in order for core in machine.cores if core <= socket and which(core)
        ]

    for core in by_socket(lambda core: core <= free):
        if core <= free - taken and len(core) <= count - len(taken):
            taken |= core
    rest = [
        cpu
        for core in sorted(
            by_socket(lambda core: bool(core & free - taken)),
            key=lambda core: (
                not any(core <= socket and socket & taken for socket in sockets),
                len(core & free),
            ),
        )
        for cpu in sorted(core & free - taken)
    ]
    return taken | frozenset(rest[: count - len(taken)])


def measure(scratch: Path) -> list[Row]:
    """Return the rows of the table."""
    rows = []
    for name, is_isolated in [(name, flag) for flag in (False, True) for name in MACHINES_COMPARED]:
        machine = topology(scratch, name)
        begin = _isolated(machine) if is_isolated else machine.online - {0}
        ours, theirs = _crossing(machine, begin, _ours), _crossing(machine, begin, kubelets)
        for level in ("L3", "node", "package"):
            if (
                len(
                    getattr(
                        machine, {"L3": "caches", "node": "nodes", "package": "packages"}[level]
                    )
                )
                == 1
            ):
                continue
            if level == "L3" and len(machine.caches) == len(machine.cores):
                continue  # no cache is shared
            rows.append(
                Row(
                    name=f"{name}{', isolated' if is_isolated else ''}: sets that cross a {level} and need not",
                    figure=100 * ours[level],
                    unit="%",
                    reference=100 * theirs[level] or None,
                    of="kubelet",
                    goal=1.0,
                )
            )
    return rows


def _isolated(machine: Topology) -> Set:
    """Return the CPUs of all cores but the first quarter of each node's."""
    kept: Set = frozenset()
    for node in machine.nodes.values():
        cores = [core for core in machine.cores if core <= node]
        kept = kept.union(*cores[: len(cores) // 4])
    return machine.online - kept


def _ours(machine: Topology, free: Set, count: int) -> Set:
    return choose(machine, free, count, spread=True)


def _crossing(
    machine: Topology, begin: Set, give: Callable[[Topology, Set, int], Set]
) -> dict[str, float]:
    """Return the share of the sets of all sequences that lie in several domains of a kind, and would fit in one."""
    domains = {
        "L3": machine.caches,
        "node": list(machine.nodes.values()),
        "package": machine.packages,
    }
    crossing, made = dict.fromkeys(domains, 0), 0
    for seed in range(SEQUENCES):
        chance = random.Random(seed)
        free, running = begin, list[frozenset[int]]()
        for _ in range(PODS):
            count = chance.choice(SIZES)
            leaves = chance.random()
            try:
                if count > len(free) - 1:
                    raise NoRoomError("full")
                cpus = give(machine, free, count)
            except NoRoomError:
                leaves = 0.0
            else:
                assert len(cpus) == count
                assert cpus <= free
                made += 1
                for level, parts in domains.items():
                    could = any(len(part) >= count for part in parts)
                    crossing[level] += could and not any(cpus <= part for part in parts)
                free -= cpus
                running.append(cpus)
            if running and leaves < 0.45:
                free |= running.pop(chance.randrange(len(running)))
    return {level: number / made for level, number in crossing.items()}
