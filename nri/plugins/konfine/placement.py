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
    verb = "is" if count < 2 else "are"
    return f"{count or 'none'} {verb}"


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
        free = frozenset().union(*topology.whole_cores(free))
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
    on = {}
    fits = []
    for number, cpus in topology.nodes.items():
        on[number] = cpus & free
        if _has_room(topology, cpus & free, count, whole=whole):
            fits.append(cpus & free)
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
    asks = []
    for numbers in (below, above):
        for number in numbers:
            if _parts(topology.cores, number):
                asks.append(str(number))
                break
    return f"expected whole cores, which have {threads}{each}: ask for {' or '.join(asks)}"


def _not_on_one_node(on: dict[int, Set], count: int, where: str) -> str:
    """Return why no NUMA node has so many CPUs free, and what would help."""
    listed = []
    for number, cpus in on.items():
        if cpus:
            listed.append(f"{len(cpus)} on node {number}")
    are = ", ".join(listed) or "none on a NUMA node"
    most = "`spread` would take more than one node"
    if sum(sorted(map(len, on.values()))[-2:]) >= count:
        most = "`spread` would take two of them"
    return f"{are} are free{where}; {most}"


def _kinds(topology: Topology) -> list[Set]:
    """Return the CPUs of one core type within each cache: a set should not mix fast cores with slow ones."""
    parts = []
    for cache in topology.caches:
        for kind in topology.kinds:
            parts.append(cache & kind)
    return parts


def _order(topology: Topology, cpus: Set, near: Set) -> tuple[int, int, int, int]:
    """Return what the best of several domains with enough free CPUs has least of; slow cores come last."""
    slow = 0
    for rank, kind in enumerate(topology.kinds):
        if cpus <= kind:
            slow = rank
            break
    return slow, topology.distance(cpus, near), len(cpus), min(cpus)


class _Part:
    """A domain, and the free CPUs in it."""

    __slots__ = ("domain", "free")

    def __init__(self, domain: Set, free: Set) -> None:
        self.domain = domain
        self.free = free


def _take(topology: Topology, levels: list[list[Set]], free: Set, count: int, near: Set) -> Set:
    """Return *count* of the free CPUs, by the domains of each level, the largest ones first."""
    if not levels or len(free) == count:
        return frozenset(sorted(free)[:count])
    parts = _split(levels[0], free)
    taken: Set = frozenset()
    while len(taken) < count:
        left = count - len(taken)
        anchor = near | taken
        best = _best(topology, parts, left, anchor)
        parts.remove(best)
        taken |= _take(topology, levels[1:], best.free, min(left, len(best.free)), anchor)
    return taken


def _split(domains: list[Set], free: Set) -> list[_Part]:
    """Return the domains that have free CPUs, and as one of their own those that are in none."""
    parts = []
    for domain in [*domains, free.difference(*domains)]:
        if domain & free:
            parts.append(_Part(domain, domain & free))
    return parts


def _best(topology: Topology, parts: list[_Part], count: int, anchor: Set) -> _Part:
    """Return the domain to take CPUs of next: the smallest that has enough, else the fullest."""
    nearest = [part for part in parts if part.domain & anchor] or parts
    fits = [part for part in nearest if len(part.free) >= count]
    if fits:
        return min(fits, key=lambda part: _order(topology, part.free, anchor))

    def fullest(part: _Part) -> tuple[int, int, int]:
        return topology.distance(part.free, anchor), -len(part.free), min(part.free)

    return min(nearest, key=fullest)
