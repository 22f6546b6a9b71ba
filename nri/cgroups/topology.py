"""The machine's CPUs: packages, NUMA nodes, last-level caches, core types, cores and threads.

Sources: the kernel's ``Documentation/admin-guide/cputopology.rst``; ``ABI/stable/sysfs-devices-node`` (cpulist,
distance); ``ABI/testing/sysfs-devices-system-cpu`` (cache/index*, cpu_capacity, isolated); for core types of hybrid
x86 machines ``/sys/devices/cpu_core`` and ``cpu_atom`` (perf's PMUs), and on arm64 ``cpu_capacity``.

A file that is missing means one domain for all CPUs: without NUMA there is one node, without a shared cache one for
each core. One CPU of each domain is asked about it, so a machine of 256 CPUs takes some 300 reads.
"""

from __future__ import annotations

from . import cpulist, knobs
from .errors import CgroupError, CpuListError, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Self

    Set = frozenset[int]

SYS = "/sys"

_PMUS = ("cpu_core", "cpu_atom", "cpu_lowpower")
"""The PMUs of hybrid x86 machines, those of the fast cores first."""

SLOWER = 0.85
"""A core that has less than this share of the next faster one's speed is of a slower type."""

MAX_CACHES = 9
"""The highest index of a cache that is looked for: most CPUs have 0 to 3."""

# distances of ACPI's SLIT: to the node itself, and to another one if the machine has no table
_NEAR = 10
_FAR = 20


class Topology:
    """The CPUs that are online, in domains, which are read when they are asked for. Immutable by convention.

    :ivar online: the CPUs that run; all others are left out of everything else.
    :ivar isolated: those that the scheduler leaves alone (``isolcpus=``).
    :ivar cores: the threads of each core, by the lowest of them; likewise *caches* (last level) and *packages*.
    :ivar kinds: the CPUs of each core type, fast ones first; one if all are alike.
    :ivar nodes: the CPUs of each NUMA node by its number, also of those without CPUs.
    :ivar memory: the numbers of the nodes that have memory.
    :ivar distances: from each node to each, by their numbers.
    """

    cores: list[Set]
    caches: list[Set]
    packages: list[Set]
    kinds: list[Set]
    nodes: dict[int, Set]
    memory: Set
    distances: dict[int, dict[int, int]]

    def __init__(self, sys: str = SYS) -> None:
        self._sys = sys
        self.online = online_cpus(sys)
        self.isolated = isolated_cpus(sys) & self.online

    @classmethod
    def read(cls, sys: str = SYS) -> Self:
        """Return the topology of this machine.

        :param sys: where sysfs is mounted.
        :raises CgroupError: the CPUs that are online cannot be read, or a file holds no CPU list; for the domains
            when they are asked for.
        """
        return cls(sys)

    def __getattr__(self, name: str) -> Any:
        """Read a kind of domains when it is asked for first: most requests need none."""
        if name not in _DOMAINS:
            raise AttributeError(name)
        value = _DOMAINS[name](self, self._sys)
        setattr(self, name, value)
        return value

    def cores_of(self, cpus: Set) -> list[Set]:
        """Return the cores that have some of these CPUs."""
        return [core for core in self.cores if core & cpus]

    def whole_cores(self, cpus: Set) -> list[Set]:
        """Return the cores of which all CPUs are among these."""
        return [core for core in self.cores if core <= cpus]

    def nodes_of(self, cpus: Iterable[int]) -> list[int]:
        """Return the numbers of the nodes that have some of these CPUs."""
        wanted = frozenset(cpus)
        return [number for number, own in self.nodes.items() if own & wanted]

    def memory_of(self, cpus: Iterable[int]) -> frozenset[int]:
        """Return the memory nodes of these CPUs; for a node without memory the nearest one that has some."""
        return frozenset(map(self._nearest_memory, self.nodes_of(cpus)))

    def _nearest_memory(self, number: int) -> int:
        distances = self.distances[number]
        return min(self.memory, key=lambda other: (distances[other], other))

    def distance(self, one: Iterable[int], other: Iterable[int]) -> int:
        """Return the distance between the nearest nodes of two sets of CPUs; 0 if one has no node."""
        ends = self.nodes_of(other)
        distances = []
        for start in self.nodes_of(one):
            for end in ends:
                distances.append(self.distances[start][end])
        return min(distances, default=0)


def isolated_cpus(sys: str = SYS) -> frozenset[int]:
    """Return the CPUs that the scheduler leaves alone (``isolcpus=``).

    :raises CgroupError: they cannot be read.
    """
    return _list(f"{sys}/devices/system/cpu/isolated")


def _read_cores(topology: Topology, sys: str) -> list[Set]:
    files = ("topology/core_cpus_list", "topology/thread_siblings_list")
    return _domains(topology.online, f"{sys}/devices/system/cpu", *files)


def _read_packages(topology: Topology, sys: str) -> list[Set]:
    files = ("topology/package_cpus_list", "topology/core_siblings_list")
    return _domains(topology.online, f"{sys}/devices/system/cpu", *files, is_one=True)


def _read_nodes(topology: Topology, sys: str) -> dict[int, Set]:
    node = f"{sys}/devices/system/node"
    nodes = {}
    for number in sorted(_list(f"{node}/online")):
        nodes[number] = _list(f"{node}/node{number}/cpulist") & topology.online
    return nodes or {0: topology.online}


def _read_distances(topology: Topology, sys: str) -> dict[int, dict[int, int]]:
    numbers = list(topology.nodes)
    node = f"{sys}/devices/system/node"
    distances: dict[int, dict[int, int]] = {}
    for number in numbers:
        distances[number] = _distances(f"{node}/node{number}/distance", number, numbers)
    return distances


def _with_memory(node: str, nodes: Set) -> Set:
    """Return the nodes whose memory can carry a process alone: not those that only have movable pages."""
    return _list(f"{node}/has_normal_memory") & nodes or nodes


def online_cpus(sys: str = SYS) -> frozenset[int]:
    """Return the CPUs that are online.

    :raises CgroupError: they cannot be read.
    """
    path = f"{sys}/devices/system/cpu/online"
    if not (online := _list(path)):
        raise CgroupError(
            f"{path} names no CPU: expected those that are online; is sysfs mounted at {sys}?"
        )
    return online


def present_cpus(sys: str = SYS) -> frozenset[int]:
    """Return the CPUs that the machine has, also those that are offline.

    :raises CgroupError: they cannot be read.
    """
    return _list(f"{sys}/devices/system/cpu/present") | online_cpus(sys)


def _list(path: str) -> frozenset[int]:
    """Return the CPUs, or nodes, in a file; none if there is no such file."""
    text = _text(path)
    try:
        return cpulist.parse(text)
    except CpuListError as error:
        raise CgroupError(
            f"{path} holds {quoted(text)}: expected a list such as '0-3,8'"
        ) from error


def _text(path: str) -> str:
    try:
        return knobs.slurp(path, knobs.MAX_KNOB).decode("ascii", "replace").strip()
    except OSError:
        return ""


def _domains(online: Set, cpu: str, *files: str, is_one: bool = False) -> list[Set]:
    """Return the sets in the first of the files that a CPU has.

    :param is_one: a CPU without such a file is with all others, and not alone.
    """
    domains = []
    left = set(online)
    while left:
        first = min(left)
        cpus: Set = frozenset()
        for file in files:
            cpus = cpus or _list(f"{cpu}/cpu{first}/{file}")
        if not cpus and is_one:
            cpus = frozenset(left)
        own = cpus & left | {first}
        domains.append(own)
        left -= own
    return domains


def _caches(online: Set, cores: list[Set], cpu: str) -> list[Set]:
    """Return the CPUs that share each last-level cache: that of the highest index, if it is shared by cores."""
    for index in range(MAX_CACHES, -1, -1):
        file = f"cache/index{index}/shared_cpu_list"
        if _list(f"{cpu}/cpu{min(online)}/{file}"):
            return _domains(online, cpu, file)
    return list(cores)


def _kinds(online: Set, cores: list[Set], sys: str) -> list[Set]:
    """Return the CPUs of each core type: those of each PMU, and in them those that differ clearly in speed."""
    speeds = _speeds(cores, f"{sys}/devices/system/cpu")
    kinds: list[tuple[float, Set]] = []
    left = online
    groups = []
    for pmu in _PMUS:
        group = _list(f"{sys}/devices/{pmu}/cpus") & left
        groups.append(group)
        left -= group
    for group in (*groups, left):
        of_pmu = [core for core in cores if min(core) in group]
        for alike in _by_speed(of_pmu, speeds):
            kinds.append((speeds[min(alike[0])], frozenset[int]().union(*alike)))
    # Where nothing tells their speeds, they stay in the order of the PMUs.
    kinds.sort(key=lambda kind: -kind[0])
    return [cpus for _, cpus in kinds]


def _by_speed(cores: list[Set], speeds: dict[int, float]) -> list[list[Set]]:
    """Return the cores in groups of the same type, the fastest first: each clear drop in speed begins a group."""
    groups: list[list[Set]] = []
    before = float("inf")  # the first core begins a group
    for core in sorted(cores, key=lambda core: (-speeds[min(core)], min(core))):
        speed = speeds[min(core)]
        if speed < SLOWER * before:
            groups.append([])
        groups[-1].append(core)
        before = speed
    return groups


def _speeds(cores: list[Set], cpu: str) -> dict[int, float]:
    """Return how fast each core is, by its lowest CPU, as the first of these files says that all have; else 0."""
    for file in ("cpu_capacity", "cpufreq/cpuinfo_max_freq", "acpi_cppc/highest_perf"):
        speeds = {min(core): _number(f"{cpu}/cpu{min(core)}/{file}") for core in cores}
        if all(speeds.values()):
            return speeds
    return dict.fromkeys(map(min, cores), 0.0)


def _number(path: str) -> float:
    """Return the number in a file; 0 if it has none."""
    text = _text(path)
    return float(text[:18]) if text.isdigit() else 0.0


def _distances(path: str, own: int, nodes: list[int]) -> dict[int, int]:
    """Return the distances from a node: one for each node, in the order of their numbers."""
    words = _text(path).split()
    if len(words) == len(nodes) and "".join(words).isdigit():
        return dict(zip(nodes, map(int, words), strict=True))
    distances = dict.fromkeys(nodes, _FAR)
    distances[own] = _NEAR
    return distances


_DOMAINS: dict[str, Callable[[Topology, str], Any]] = {
    "cores": _read_cores,
    "caches": lambda topology, sys: _caches(
        topology.online, topology.cores, f"{sys}/devices/system/cpu"
    ),
    "packages": _read_packages,
    "kinds": lambda topology, sys: _kinds(topology.online, topology.cores, sys),
    "nodes": _read_nodes,
    "memory": lambda topology, sys: _with_memory(
        f"{sys}/devices/system/node", frozenset(topology.nodes)
    ),
    "distances": _read_distances,
}
"""The function that reads each kind of domains."""
