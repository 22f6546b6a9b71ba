"""Which of the free CPUs a set takes: CPUs that are near each other.

They are of one last-level cache if possible, else of one NUMA node, else of one package. Of all domains that have
enough free CPUs the one with the fewest is taken, so large gaps stay for large sets; where none has enough, the
fullest ones first. Within a domain the same is done with the next smaller ones, down to cores: so a set takes whole
cores, and its odd CPU that of a core which is in use already.
"""

from __future__ import annotations

from nri.errors import NRIError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.cgroups.topology import Topology

    Set = frozenset[int]


class NoRoomError(NRIError):
    """There are not enough free CPUs; the message says how many there are, and where."""


class NotWholeError(NoRoomError):
    """A number of CPUs is not one of whole cores; the message says what would be right."""


def counted(count: int) -> str:
    """Return a number of CPUs with its verb: ``none is``, ``1 is``, ``2 are``."""
    return f"{count or 'none'} {'is' if count < 2 else 'are'}"


def choose(
    topology: Topology,
    free: Set,
    count: int,
    *,
    near: Set = frozenset(),
    whole: bool = False,
    spread: bool = False,
) -> Set:
    """Return *count* of the free CPUs.

    :param near: CPUs that they should be near, such as those that a pool has already.
    :param whole: take whole cores only, all of whose threads are free.
    :param spread: they may be of several NUMA nodes.
    :raises NoRoomError: there are not enough, or not on one node.
    :raises NotWholeError: it is no number of whole cores.
    """
    where = ""
    if whole:
        where = " on whole cores"
        free = frozenset().union(*[core for core in topology.cores if core <= free])
        if count <= len(topology.online) and not _parts(topology.cores, count):
            raise NotWholeError(_not_whole(topology, count))
    if len(free) < count:
        raise NoRoomError(f"{counted(len(free))} free{where}")
    levels = [
        topology.packages,
        list(topology.nodes.values()),
        topology.caches,
        _kinds(topology),
        topology.cores,
    ]
    if not spread:
        free = _one_node(topology, free, count, near, where, whole=whole)
        levels = levels[2:]
    if not whole:
        return _take(topology, levels, free, count, near)
    cores = topology.cores_of(free)
    parts = _parts(cores, count)
    if not parts:
        raise NoRoomError(f"{counted(len(free))} free{where}, and no {count} of them")
    taken: Set = frozenset()
    for size, number in parts:
        alike = frozenset().union(*[core for core in cores if len(core) == size])
        taken |= _take(topology, levels, alike, size * number, near | taken)
    return taken


def _one_node(
    topology: Topology, free: Set, count: int, near: Set, where: str, *, whole: bool
) -> Set:
    """Return the free CPUs of the best NUMA node that has enough.

    :raises NoRoomError: none has.
    """
    on = {number: cpus & free for number, cpus in topology.nodes.items()}
    fits = [cpus for cpus in on.values() if _has_room(topology, cpus, count, whole=whole)]
    if not fits:
        raise NoRoomError(_not_on_one_node(on, count, where))
    return min(fits, key=lambda cpus: _order(topology, cpus, near))


def _has_room(topology: Topology, cpus: Set, count: int, *, whole: bool) -> bool:
    if len(cpus) < count:
        return False
    return not whole or bool(_parts(topology.cores_of(cpus), count))


def _parts(cores: list[Set], count: int) -> list[tuple[int, int]]:
    """Return how many cores of each size are *count* CPUs together, as many large ones as possible; [] if none are.

    A machine may have cores of two threads and cores of one.
    """
    numbers: dict[int, int] = {}
    for core in cores:
        numbers[len(core)] = numbers.get(len(core), 0) + 1
    return _fill(sorted(numbers.items(), reverse=True), count) or []


def _fill(numbers: list[tuple[int, int]], count: int) -> list[tuple[int, int]] | None:
    if count == 0:
        return []
    if not numbers:
        return None
    (size, most), *smaller = numbers
    for number in range(min(most, count // size), -1, -1):
        rest = _fill(smaller, count - number * size)
        if rest is not None:
            return [(size, number), *rest] if number else rest
    return None


def _not_whole(topology: Topology, count: int) -> str:
    """Return that a number of CPUs is not one of whole cores, and which numbers near it are."""
    sizes = sorted({len(core) for core in topology.cores})
    threads = " or ".join(map(str, sizes)) + " threads"
    each = " each" if len(sizes) == 1 else ""
    largest = sizes[-1]
    below = range(count - 1, max(0, count - 1 - largest), -1)
    above = range(count + 1, count + 1 + largest)
    asks: list[int] = []
    for numbers in (below, above):
        whole = [number for number in numbers if _parts(topology.cores, number)]
        asks += whole[:1]
    return (
        f"expected whole cores, which have {threads}{each}: ask for {' or '.join(map(str, asks))}"
    )


def _not_on_one_node(on: dict[int, Set], count: int, where: str) -> str:
    """Return why no NUMA node has so many CPUs free, and what would help."""
    listed = [f"{len(cpus)} on node {number}" for number, cpus in on.items() if cpus]
    are = " and ".join([", ".join(listed[:-1]), listed[-1]] if listed[1:] else listed)
    most = "`spread` would take more than one node"
    if sum(sorted(map(len, on.values()))[-2:]) >= count:
        most = "`spread` would take two of them"
        if len(listed) == 2:
            most = "`spread` would take both"
    return f"{are} are free{where}; {most}"


def _kinds(topology: Topology) -> list[Set]:
    """Return the CPUs of one core type within each cache: a set should not mix fast cores with slow ones."""
    parts: list[Set] = []
    for cache in topology.caches:
        parts += [cache & kind for kind in topology.kinds.values()]
    return [part for part in parts if part]


def _order(topology: Topology, cpus: Set, near: Set) -> tuple[int, int, int, int]:
    """Return what the best of several domains with enough free CPUs has least of; slow cores come last."""
    slow = next((rank for rank, kind in enumerate(topology.kinds.values()) if cpus <= kind), 0)
    return slow, topology.distance(cpus, near), len(cpus), min(cpus)


def _take(topology: Topology, levels: list[list[Set]], free: Set, count: int, near: Set) -> Set:
    """Return *count* of the free CPUs, by the domains of each level, the largest ones first."""
    if not levels or len(free) == count:
        return frozenset(sorted(free)[:count])
    taken: Set = frozenset()
    parts = [(domain, domain & free) for domain in levels[0] if domain & free]
    if rest := free.difference(*levels[0]):
        parts.append((rest, rest))
    while len(taken) < count:
        left = count - len(taken)
        anchor = near | taken
        nearest = [part for part in parts if part[0] & anchor] or parts
        if fits := [part for part in nearest if len(part[1]) >= left]:
            best = min(fits, key=lambda part: _order(topology, part[1], anchor))
        else:
            best = min(
                nearest,
                key=lambda part: (topology.distance(part[1], anchor), -len(part[1]), min(part[1])),
            )
        parts.remove(best)
        taken |= _take(topology, levels[1:], best[1], min(left, len(best[1])), anchor)
    return taken
