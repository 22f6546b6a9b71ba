"""Computes which CPUs each container should have, from the topology, the conf and the record.

``Wanted.enter`` puts the request's container into the record, with the CPUs that it asks for, and ``Wanted.plan``
computes what each container is to have. Nothing here reads or writes a cgroup.

The shared CPUs are those that are online, neither isolated nor reserved, and in no exclusive set or pool, or the
reserved ones if all others are isolated. CPUs that a container gives back are shared again in the same request.
"""

from __future__ import annotations

import os

from nri.cgroups import render_cpus
from nri.errors import NRIError
from nri.plugins.konfine.asked import Wish
from nri.plugins.konfine.placement import NoRoomError, NotWholeError, choose, counted
from nri.plugins.konfine.record import now
from nri.skel.plugin import Refusal
from nri.types.gojson import shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.cgroups.topology import Topology
    from nri.plugins.konfine import KonfineConf
    from nri.plugins.konfine.record import Entry, Record

    Set = frozenset[int]

NONE: Entry = {
    "id": "",
    "pod": "",
    "name": "",
    "cgroup": "",
    "kind": "shared",
    "cpus": "",
    "within": "",
}
"""The entry of a container that has none: it has no CPUs of konfine's."""

_AGAIN = "delete the pod to have it scheduled again"


class Wanted:
    """The CPUs that the containers of the record are to have.

    :ivar own: the key of the request's container.
    :ivar path: the path of its cgroup below the mount; "" if it is not known.
    :ivar before: its entry as it was; ``NONE`` if there was none.
    :ivar usable: the CPUs that can be shared.
    :ivar isolated: those that only containers which ask for CPUs alone get.
    :ivar fixed: the CPUs of the pools that name them.
    """

    def __init__(self, record: Record, conf: KonfineConf) -> None:
        topology = record.topology
        self.record = record
        self.conf = conf
        self.usable = topology.online - topology.isolated - conf.system_reserved
        self.isolated = topology.isolated - conf.system_reserved
        self.fixed = conf.fixed_pools(topology.online)
        self._pools = {pool.name: pool for pool in conf.pools}
        self.own = ""
        self.path = ""
        self.before = NONE
        self._was: dict[str, Entry] = {}
        """The entries as they were before the request, which may be refused."""
        self._kept: Set = frozenset()
        """The CPUs that containers keep which are not theirs any more. No other gets those that the kernel does not
        take from them, nor those of another conf's pool; one whom the conf leaves none hinders no other."""
        self.reasons: dict[str, str] = {}
        """The reason for each of these containers."""

    @property
    def containers(self) -> dict[str, Entry]:
        """The entries of the record."""
        return self.record.containers

    @property
    def topology(self) -> Topology:
        """The CPUs of the machine."""
        return self.record.topology

    def alone(self, entry: Entry) -> Set:
        """Return the CPUs that a container has alone."""
        return self.record.lists.cpus(entry["cpus"])

    def taken(self, *but: str) -> Set:
        """Return the CPUs that are not shared, without those of the containers or pools *but*."""
        holders = [(key, entry["cpus"]) for key, entry in self.containers.items()]
        holders += self.record.pools.items()
        holders += self.record.conf["fixed"].items()
        lists = self.record.lists
        return frozenset().union(*[lists.cpus(cpus) for name, cpus in holders if name not in but])

    # What each container is to have

    def plan(self) -> tuple[dict[str, Set], dict[str, NRIError]]:
        """Return the CPUs that each other container with a cgroup is to have, and why the conf leaves some none."""
        taken = self.taken()
        plan: dict[str, Set] = {}
        without: dict[str, NRIError] = {}
        alike: dict[tuple[object, ...], Set] = {}
        others = self.record.running()
        others.pop(self.own, None)
        for key, entry in others.items():
            kind = entry["kind"], entry.get("pool"), entry["cpus"], entry.get("plus")
            facts = (*kind, entry["within"])
            try:
                if facts not in alike:
                    alike[facts] = self._cpus_of(entry, taken)
                plan[key] = alike[facts]
            except NRIError as error:  # its own requests report it
                without[key] = error
        return plan, without

    def cpus_of(self, entry: Entry) -> Set:
        """Return the CPUs that a container is to have.

        :raises NRIError: the conf leaves it none.
        """
        return self._cpus_of(entry, self.taken())

    def _cpus_of(self, entry: Entry, taken: Set) -> Set:
        if entry["kind"] == "pool":
            return self._of_pool(entry["pool"])
        if entry["kind"] == "shared":
            cpus = self._shared(entry, taken)
            if not cpus:
                others = render_cpus(taken) or "none"
                who = f"the containers that share CPUs, beside {others} of pools and single ones"
                raise self._none_left(who)
            return cpus
        alone = self.alone(entry)
        alone = alone & self.topology.online or alone
        if entry.get("plus"):
            alone |= self._shared(entry, taken)
        return alone

    def _shared(self, entry: Entry, taken: Set) -> Set:
        """Return the CPUs that a container shares."""
        online = self.topology.online
        whole = self.usable
        if entry["within"]:
            whole = self.record.lists.cpus(entry["within"]) & online
        within = whole - taken
        rest = self.usable or online - self.topology.isolated
        return (within - self.isolated) or within or (rest - taken)

    def _of_pool(self, name: str) -> Set:
        cpus = self._pool(name)
        if cpus:
            return cpus
        pool = self._pools.get(name)
        if pool is None:
            raise NRIError(f"the conf has no pool {name}")
        named = ""
        if pool.cpus:
            named = f", which names {render_cpus(pool.cpus)}"
        raise self._none_left(f"the pool {name}{named}")

    def _none_left(self, who: str) -> NRIError:
        fix = "expected conf.pools and conf.systemReserved to leave some"
        if any(other["cpus"] and not other["id"] for other in self.containers.values()):
            fix += "; others are of containers without a request since the record was made: see `nri reapply`"
        has = render_cpus(self.topology.online)
        return NRIError(f"no CPU is left for {who}: the node has {has}; {fix}")

    # What the request's container asks for

    def enter(
        self, entry: Entry, wish: Wish, within: Set, *, is_first: bool, is_running: bool
    ) -> Refusal | None:
        """Put the request's container into the record, with the CPUs that it asks for.

        :param entry: its entry, as that of one that shares CPUs, or is in a pool.
        :param within: the CPUs that it may have alone.
        :param is_first: it requests CPUs, and was not started before in this pod.
        :param is_running: it runs already: if it is refused, it keeps what it has, or shares CPUs as without asking.
        :returns: the refusal; the record is then without it, unless it is running.
        """
        self._restore()
        entry = entry.copy()
        before = self.before
        left = self._left_by(entry)
        spent = self._spent(entry, is_first=is_first and not left)
        waiting = self.record.waiting(wish.listed)
        had = self._had({*left, *waiting})
        alone: Set = frozenset()
        is_plus = wish.plus
        refusal = None
        if wish.count:
            try:
                alone = self._get(wish, within, had, left, spent, waiting)
            except Refusal as error:
                if not is_running:
                    return error
                refusal = error
                alone = had
                is_plus = before.get("plus", False)
        if alone:
            _have_alone(entry, alone, wish.listed, is_plus=is_plus)
        self._replace(entry)
        for key in left:
            self.containers.pop(key, None)
        self._spend(spent, alone)
        if before is NONE and not left:
            self.containers.pop(self.record.promised(wish.listed), None)
        return self.fit_pools(within, is_running=is_running) or refusal

    def _had(self, others: set[str]) -> Set:
        """Return the CPUs that the request's container had alone, without those that another one has got since.

        :param others: the keys of what has CPUs for it.
        """
        return self.alone(self.before) - self.taken(self.own, self.path, *others)

    def _get(
        self,
        wish: Wish,
        within: Set,
        had: Set,
        left: list[str],
        spent: list[str],
        waiting: set[str],
    ) -> Set:
        """Return the CPUs that the request's container gets alone.

        :param had: those that it has.
        :param left: the keys of what its pod has left for it.
        :param spent: the keys of what containers have left that may not come again.
        :param waiting: the keys of what waits for its devices.
        :raises Refusal: as ``_choose``.
        """
        kept = had & self.topology.online
        if kept and len(had) == wish.count:
            return had  # those that are offline may come back
        if kept:
            # A resized container keeps its CPUs, whatever devices it has.
            wish = Wish(wish.asker, wish.count, wish.plus)
        free = {self.own, *waiting}
        tries = self._tries(kept, left, free)
        # Without room, what spent containers have left counts as free, too.
        tries += self._tries(kept, left or spent, {*free, *spent})
        refusals = []
        for near, but in tries:
            try:
                return self._choose(wish, within, near, but)
            except Refusal as error:
                refusals.append(error)
        # The first one says what the node has, before what is kept for others counts as free.
        raise refusals[0]

    def _tries(self, kept: Set, left: list[str], free: set[str]) -> list[tuple[Set, set[str]]]:
        """Return the CPUs that the set should be near, and the keys whose CPUs count as free; the best first.

        A container that runs keeps what it has. One that starts takes what its last start has left, or others, such
        as those of another NUMA node.
        """
        but = {*free, *left}
        return [(kept or self._left(left, but), but), (kept, free)]

    def _left(self, keys: list[str], but: set[str]) -> Set:
        """Return the CPUs that containers have left; none if they are offline, reserved or a pool's since."""
        cpus: Set = frozenset()
        for key in keys:
            cpus |= self.alone(self.containers[key])
        free = (self.usable | self.isolated) - self.taken(*but)
        return cpus if cpus <= free else frozenset()

    def _choose(self, wish: Wish, within: Set, kept: Set, but: set[str]) -> Set:
        """Return CPUs of *within* that the request's container can have alone: those that are allocated, if it can.

        :param kept: those that it has: a resized one grows around them and shrinks within them, since its threads and
            its memory are there.
        :param but: the keys of the containers whose CPUs count as free.
        :raises Refusal: too few CPUs are free, or too few would stay shared; with who has the others.
        """
        count = wish.count
        if wish.listed and self._has_room(wish.listed, within, but):
            return wish.listed
        if count == len(kept):
            return kept
        try:
            return self._find_room(count, within, kept, but)
        except NotWholeError as error:
            raise Refusal(f"{wish.asker}: found {count}, {error}") from None
        except NoRoomError as error:
            asked = "1 CPU alone" if count == 1 else f"{count} CPUs alone"
            on = f"on the node {os.uname().nodename} {error}{self._holders()}"
            raise Refusal(f"{wish.asker}: asks for {asked}, and {on}; {_AGAIN}") from None

    def _has_room(self, listed: Set, within: Set, but: set[str]) -> bool:
        """Return whether the request's container can have just the CPUs that the device plugin has allocated."""
        given = self.conf.exclusive
        free = (self.usable | self.isolated) - self.taken(*but) - self._kept
        if not listed <= within & free:
            return False
        if given.whole_cores and listed.union(*self.topology.cores_of(listed)) != listed:
            return False
        shared = self.usable - self.taken(self.own) - listed
        return len(shared) >= self._least_shared()

    def _least_shared(self) -> int:
        """Return how many CPUs must stay shared: not more than can be."""
        return min(self.conf.exclusive.min_shared, len(self.usable))

    def _find_room(self, count: int, within: Set, kept: Set, but: set[str]) -> Set:
        given = self.conf.exclusive
        if count < len(kept):
            return choose(self.topology, kept, count, whole=given.whole_cores, spread=True)
        held = self._kept
        taken = self.taken(*but)
        isolated = (self.isolated & within) - taken - held
        if isolated and kept <= self.isolated:
            try:
                return self._pick(isolated, count, kept)
            except NoRoomError:
                pass  # of the others, then
        usable = self.usable - taken
        spare = max(min(len(usable) - given.min_shared, len(usable - held)), 0)
        if count > spare:
            beside = f"beside the {given.min_shared} that must stay shared"
            raise NoRoomError(f"{counted(spare)} free, {beside}")
        return self._pick((usable & within) - held, count, kept)

    def _pick(self, free: Set, count: int, kept: Set) -> Set:
        """Return *count* of the free CPUs and of those that are kept."""
        given = self.conf.exclusive
        topology = self.topology
        whole = given.whole_cores
        spread = given.spread
        chosen = choose(topology, free | kept, count, whole=whole, spread=spread)
        if not kept:
            return chosen
        if not spread:
            nodes = map(topology.nodes.__getitem__, topology.nodes_of(kept))
            free &= frozenset().union(*nodes)
        more = count - len(kept)
        return kept | choose(topology, free - kept, more, near=kept, whole=whole, spread=spread)

    def _holders(self) -> str:
        """Return who has the CPUs that are not shared, as the end of a sentence; "" if there are none."""
        listed = list(self.reasons.values())
        for key, entry in self.containers.items():
            if entry["cpus"] and key != self.own:
                listed.append(f"{entry['name']} has {entry['cpus']}")
        pools = self.record.pools | self.record.conf["fixed"]
        listed += [f"the pool {name} has {cpus}" for name, cpus in pools.items() if cpus]
        return f"; {shorten(', '.join(listed), 500)}" if listed else ""

    # What others have left

    def _left_by(self, entry: Entry) -> list[str]:
        """Return the keys of what a container has left for its next start.

        It has ended, or its last start has failed, of which no ``delete`` comes, perhaps in an earlier sandbox.
        """
        is_of_kubernetes = entry["name"].count("/") == 2
        keys = []
        for key, other in self._others_coming().items():
            if other["name"] != entry["name"]:
                continue
            has_failed = is_of_kubernetes and not other.get("ended")
            if has_failed or _is_of_pod(other, entry):
                keys.append(key)
        return keys

    def _others_coming(self) -> dict[str, Entry]:
        others = self.record.coming()
        others.pop(self.own, None)
        return others

    def _spent(self, entry: Entry, *, is_first: bool) -> list[str]:
        """Return the keys of containers that have ended and may have been init containers.

        Nothing tells an init container from one that has crashed before the others of its pod were started. So what
        it had stays its own for a while. Without room others get it: one of its pod that is started for the first
        time, and any other after such a start.
        """
        keys = []
        for key, other in self._others_coming().items():
            if not other.get("ended") or other["name"] == entry["name"]:
                continue
            is_spent = is_first and _is_of_pod(other, entry)
            if is_spent or "since" in other:
                keys.append(key)
        return keys

    def _spend(self, keys: list[str], taken: Set) -> None:
        """Take CPUs from containers that have ended; the rest waits a while for them, if enough are shared without.

        Where CPUs were counted as free, those that must stay shared may be among them.
        """
        for key in keys:
            entry = self.containers[key].copy()
            rest = self.alone(entry) - taken
            if len(self.usable - self.taken()) < self._least_shared():
                rest -= self.usable
            if not rest:
                del self.containers[key]
                continue
            entry["cpus"] = render_cpus(rest)
            if "counted" not in entry:  # else they are the pod's as long as it lives
                entry.setdefault("since", now())
            self.containers[key] = entry

    # Changes of the record that a refusal takes back

    def _replace(self, entry: Entry) -> None:
        """Put the request's container into the record, in place of what its cgroup had under another path or none."""
        for key, other in self.record.running().items():
            if other["cgroup"] == entry["cgroup"]:
                del self.containers[key]
        self.containers[self.own] = entry

    def begin(self) -> None:
        """Note the record as it is before the request's container is put into it."""
        self._was = self.containers.copy()

    def _restore(self) -> None:
        """Make the record as it was before the request."""
        self.record.containers = self._was.copy()

    # Pools

    def knows(self, pool: str) -> bool:
        """Return whether a pool is one of the conf: it may be of an earlier conf, or of another entry."""
        return pool in self.record.pools or pool in self._pools

    def _growing(self, name: str) -> Set:
        return self.record.lists.cpus(self.record.pools.get(name, ""))

    def _pool(self, name: str) -> Set:
        """Return the CPUs of a pool; those of a fixed one without what containers had alone before."""
        if name in self.fixed:
            return self.fixed[name].difference(*map(self.alone, self.containers.values()))
        return self._growing(name)

    def fit_pools(self, within: Set, *, is_running: bool = True) -> Refusal | None:
        """Give each pool as many CPUs as its containers request, within its bounds; drop those without containers.

        :param within: the CPUs that it may grow by.
        :param is_running: as in ``enter``.
        :returns: the refusal of the request's container, whose pool has no CPU.
        """
        pools = self.record.pools
        asked: dict[str, int] = {}
        for entry in self.containers.values():
            if entry["kind"] == "pool" and entry["pool"] not in self.fixed:
                asked[entry["pool"]] = asked.get(entry["pool"], 0) + entry.get("milli", 0)
        for name in pools.keys() - asked.keys():
            del pools[name]
        for name, milli in asked.items():
            cpus = self._fitted(name, -(-milli // 1000), within)
            pools.pop(name, None)
            if cpus:
                pools[name] = render_cpus(cpus)
        own = self.containers.get(self.own, NONE)
        if own["kind"] != "pool":
            return None
        return self._refused_by_pool(own, is_running=is_running)

    def _fitted(self, name: str, asked: int, within: Set) -> Set:
        """Return the CPUs of a pool that grows, with as many as its containers ask for, or as there are."""
        held = self._kept
        have = self._growing(name) & self.topology.online - held
        want = len(have)  # of a pool that the conf does not have any more
        if name in self._pools:
            want = min(max(asked, self._pools[name].min), self._pools[name].max)
        if want < len(have):
            return choose(self.topology, have, want, spread=True)
        free = self.usable - self.taken(name) - have - held
        spare = len(free) - self.conf.exclusive.min_shared
        more = min(want - len(have), spare, len(free & within))
        if more > 0:
            have |= choose(self.topology, free & within, more, near=have, spread=True)
        return have

    def _refused_by_pool(self, own: Entry, *, is_running: bool) -> Refusal | None:
        """Return the refusal of a container whose pool has no CPU; None if it has some, or will again."""
        name = own["pool"]
        # One whose CPUs are all offline: `cpus_of` says so.
        is_away = name in self.fixed and not self.fixed[name]
        if is_away or self._pool(name):
            return None
        fault = f"the pool {name} has no CPU, and none is free on the node {os.uname().nodename}"
        refusal = Refusal(f"{fault}{self._holders()}; {_AGAIN}")
        if is_running:
            own["kind"] = "shared"
            own.pop("pool")
        else:
            self._restore()
        return refusal

    # CPUs that other containers keep

    def hold(self, key: str, kept: Set, lost: Set, reason: str) -> bool:
        """Note that a container keeps CPUs; return whether that is new, and the request was to get some of them.

        :param kept: those that no other gets.
        :param lost: those that are not its own any more.
        """
        is_new = key not in self.reasons
        self.reasons[key] = reason
        self._kept |= kept
        own = self.containers.get(self.own, NONE)
        if not is_new:
            return False
        return bool(lost & (self.alone(own) | self._growing(own.get("pool", ""))))


def _is_of_pod(one: Entry, other: Entry) -> bool:
    return other["pod"] != "" and one.get("pod") == other["pod"]


def _have_alone(entry: Entry, cpus: Set, listed: Set, *, is_plus: bool) -> None:
    """Make an entry that of a container that has CPUs alone.

    :param listed: those that the device plugin has allocated to it.
    :param is_plus: whether it has the shared ones as well.
    """
    entry["kind"] = "exclusive"
    entry["cpus"] = render_cpus(cpus)
    entry.pop("pool", None)
    if is_plus:
        entry["plus"] = True
    if listed:
        entry["counted"] = render_cpus(listed)
