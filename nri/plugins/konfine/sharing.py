"""The plan of a node: which containers have CPUs alone, which CPUs the others share, and which containers move.

One request in three steps. The record has what containers ask for; ``Sharing.plan`` computes of that, the conf
and the topology which CPUs each is to have; ``Sharing.move`` and ``Sharing.settle`` write the difference to
the cgroups: others first, so that no CPU is given before its holder has lost it.

The shared CPUs are those that are online, neither isolated nor reserved, and in no exclusive set or pool, or the
reserved ones if all others are isolated. CPUs that a container gives back are shared again in the same request.
"""

from __future__ import annotations

import os

from nri.cgroups import (
    CgroupError,
    CpuListError,
    GoneError,
    Mounts,
    Systemd,
    find,
    parse_cpus,
    render_cpus,
)
from nri.cgroups.paths import expand, is_pod, is_pods
from nri.cgroups.resolve import Place
from nri.errors import NRIError
from nri.plugins import shared
from nri.plugins.konfine.placement import NoRoomError, NotWholeError, choose, counted
from nri.plugins.konfine.record import SETUP_WITHIN, now, text_of
from nri.skel.plugin import Refusal
from nri.types.gojson import shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.cgroups import Cgroup
    from nri.plugins.konfine import KonfineConf
    from nri.plugins.konfine.record import Entry, Record
    from nri.types.v1 import Request

    Set = frozenset[int]

_KNOB = "cpuset.cpus"


class Wish:
    """The CPUs that a container asks for exclusively.

    :ivar asker: what asks for it, which begins a refusal.
    :ivar count: the number of CPUs; 0 for none.
    :ivar plus: whether it wants the shared ones as well.
    :ivar listed: those that the device plugin has allocated to it.
    """

    __slots__ = ("asker", "count", "listed", "plus")

    def __init__(
        self, asker: str = "", count: int = 0, plus: bool = False, listed: Set = frozenset()
    ) -> None:
        self.asker, self.count, self.plus, self.listed = asker, count, plus, listed


class Sharing:
    """The containers of the record, and what each of them is to have.

    :ivar own: the key of the request's container.
    """

    def __init__(self, record: Record, conf: KonfineConf, request: Request) -> None:
        self.record, self.conf, self.containers = record, conf, record.containers
        self.topology = topology = record.topology
        self.usable = topology.online - topology.isolated - conf.system_reserved
        self.isolated = topology.isolated - conf.system_reserved
        self.fixed = conf.fixed_pools(topology.online)
        fixed = {name: render_cpus(cpus) for name, cpus in self.fixed.items()}
        record.conf = {"reserved": render_cpus(conf.system_reserved), "fixed": fixed}
        self._mounts = Mounts.read(conf.mountinfo)
        mount = self._mounts.serving("cpuset")
        if mount is None:
            raise CgroupError("no cgroup hierarchy with the controller cpuset is mounted, v1 or v2")
        self._mount = mount
        self.systemd = Systemd(conf.run)
        """Gets the CPUs of the units of other containers."""
        self._parsed: dict[str, Set] = {}
        self._listed: dict[Set, str] = {}
        self._texts: dict[str, str] = {}  # the CPUs that each cgroup has, as its file says
        self.rebuilt = self._survey(request)
        """Why the record was made again; "" if it was not, or nothing was found."""
        self.own = self._key(request)
        self.before: Entry | None = self.containers.get(self.own)
        self._undo: dict[
            str, Entry | None
        ] = {}  # the entries that the request has changed, as they were
        self.moved: list[str] = []
        """The keys of the other containers that have got other CPUs."""
        self.held: dict[str, tuple[Set, str]] = {}
        """The CPUs of containers that keep some which are not theirs any more, and the reason. No other gets those
        that the kernel does not take from them, nor those of another conf's pool; one whom the conf leaves none
        hinders no other."""

    def _key(self, request: Request) -> str:
        """Return the key of the request's container: its cgroup, since two runtimes may use the same id."""
        if request.spec is not None and request.spec.cgroups_path:
            return expand(request.spec.cgroups_path)
        of_id = [key for key, entry in self.containers.items() if entry["id"] == request.id]
        return of_id[0] if len(of_id) == 1 else request.id

    def _survey(self, request: Request) -> str:
        """Compare the record with the cgroups; return why it was made again, "" if it was not."""
        if reason := self.record.rebuilt:
            # The record is complete from now on, whatever this request is about.
            path = (
                expand(request.spec.cgroups_path)
                if request.spec is not None and request.spec.cgroups_path
                else ""
            )
            parts = ((path and self._mount.below_host(path)) or "").split("/")
            depth = next((at for at, part in enumerate(parts) if is_pods(part)), 0)
            self.record.rebuild(self._mount, "/".join(parts[: depth + 1]))
            reason = reason if self.containers.keys() - {path} else ""
        for key, entry in list(self.containers.items()):
            if entry["cgroup"]:
                text = text_of(f"{self._mount.point}{entry['cgroup']}/{_KNOB}")
                self._texts[key] = text or ""
                try:
                    self._cpus(self._texts[key])
                except CpuListError:  # no request fails for another container's sake
                    self._texts[key] = ""
                if text is None:
                    self._end(key)
        self._expire()
        return reason

    def _end(self, key: str) -> None:
        """Note that a container has ended: its CPUs are free, or kept for its next start while its pod lives."""
        entry = self.record.drop(key, self._mount.point)
        if entry is not None and entry["kind"] == "exclusive" and self.conf.exclusive.keep:
            entry["cgroup"], entry["ended"] = "", True
            entry.pop("since", None)
            self.containers[key] = entry

    def _expire(self) -> None:
        """Forget the containers that are not coming any more."""
        pods = {entry["id"] for entry in self.containers.values() if entry.get("sandbox")}
        late = now() - SETUP_WITHIN
        for key, entry in list(self.containers.items()):
            is_over = bool(entry.get("ended")) and entry.get("pod") not in pods
            if not entry["cgroup"] and (is_over or entry.get("since", late) < late):
                del self.containers[key]

    def leave(self, *, is_released: bool) -> None:
        """Let the request's container go, which runs on if it is released."""
        if is_released:
            self.record.drop(self.own, self._mount.point)
            return
        self._end(self.own)
        self._expire()

    def _cpus(self, text: str) -> Set:
        if text not in self._parsed:
            self._parsed[text] = parse_cpus(text)
        return self._parsed[text]

    def _list(self, cpus: Set) -> str:
        if cpus not in self._listed:
            self._listed[cpus] = render_cpus(cpus)
        return self._listed[cpus]

    def alone(self, entry: Entry) -> Set:
        """Return the CPUs that a container has alone, of those that it is shown."""
        return self._cpus(entry.get("shown") or entry["cpus"])

    # What should be

    def taken(self, *but: str) -> Set:
        """Return the CPUs that are not shared, without those of the containers or pools *but*."""
        pools = {name: self._cpus(cpus) for name, cpus in self.record.pools.items()} | self.fixed
        own = [
            self._cpus(entry["cpus"]) for key, entry in self.containers.items() if key not in but
        ]
        return frozenset().union(*own, *[cpus for name, cpus in pools.items() if name not in but])

    def plan(self) -> dict[str, Set | NRIError]:
        """Return the CPUs that each container with a cgroup is to have, or why the conf leaves it none."""
        taken, plan, done = (
            self.taken(),
            dict[str, "Set | NRIError"](),
            dict[tuple[object, ...], "Set | NRIError"](),
        )
        for key, entry in self.containers.items():
            if entry["cgroup"] or key == self.own:
                same = (
                    entry["kind"],
                    entry.get("pool"),
                    self.alone(entry),
                    entry.get("plus"),
                    entry["within"],
                )
                if same not in done:
                    try:
                        done[same] = self._wanted(entry, taken)
                    except NRIError as error:  # its own requests report it
                        done[same] = error
                plan[key] = done[same]
        return plan

    def wanted(self, entry: Entry) -> Set:
        """Return the CPUs that a container is to have.

        :raises NRIError: the conf leaves it none.
        """
        return self._wanted(entry, self.taken())

    def _wanted(self, entry: Entry, taken: Set) -> Set:
        online = self.topology.online
        if entry["kind"] == "pool":
            name = entry["pool"]
            named = next((pool.cpus for pool in self.conf.pools if pool.name == name), None)
            if not self._knows(name):
                raise NRIError(f"the conf has no pool {name}")
            cpus = self._fixed(name) or self._cpus(self.record.pools.get(name, ""))
            where = f"the pool {name}{f', which names {render_cpus(named)}' if named else ''}"
        else:
            within = (
                self._cpus(entry["within"]) & online if entry["within"] else self.usable
            ) - taken
            rest = self.usable or (online - self.topology.isolated)
            cpus = (within - self.isolated) or within or (rest - taken)
            where = f"the containers that share CPUs, beside {render_cpus(taken) or 'none'} of pools and single ones"
        if entry["kind"] == "exclusive":
            alone = self.alone(entry)
            return (alone & online or alone) | (cpus if entry.get("plus") else frozenset())
        if not cpus:
            fix = "expected conf.pools and conf.systemReserved to leave some"
            raise NRIError(f"no CPU is left for {where}: the node has {render_cpus(online)}; {fix}")
        return cpus

    def _knows(self, pool: str) -> bool:
        """Return whether a pool is one of the conf: it may be of an earlier conf, or of another entry."""
        return pool in self.record.pools or any(
            known.name == pool.partition("/")[0] for known in self.conf.pools
        )

    def _fixed(self, pool: str) -> Set:
        """Return the CPUs of a fixed pool, without those that a container had alone before; none of another pool."""
        if pool not in self.fixed:
            return frozenset()
        return self.fixed[pool].difference(
            *[self._cpus(entry["cpus"]) for entry in self.containers.values()]
        )

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
        entry, before, refusal = entry.copy(), self.before, None
        had = (
            self.alone(before)
            if before is not None and before["kind"] == "exclusive"
            else frozenset()
        )
        left = self._left_in_pod(entry, is_first=is_first)
        waiting = self.record.waiting(wish.listed)
        try:
            alone = self._get(wish, within, had, left, waiting) if wish.count else frozenset()
        except Refusal as error:
            if not is_running:
                self._restore()
                return error
            alone, refusal = had, error
        held = self.conf.exclusive.held(alone, self.topology.cores)
        if held & self.taken(
            self.own, *left, *waiting
        ):  # the conf did not give out whole cores before
            held = alone
        if alone:
            entry["kind"], entry["cpus"] = "exclusive", render_cpus(held)
            entry.pop("pool", None)
            if held != alone:
                entry["shown"] = render_cpus(alone)
            if wish.plus:
                entry["plus"] = True
            if wish.listed:
                entry["counted"] = render_cpus(wish.listed)
        for key, other in list(self.containers.items()):
            if entry["cgroup"] and other["cgroup"] == entry["cgroup"]:
                self._put(key, None)  # it had another path, or none that was known
        self._put(self.own, entry)
        is_restart = any(self.containers[key]["name"] == entry["name"] for key in left)
        for key in left:
            self._reuse(key, entry["name"], held)
        if (
            wish.listed
            and before is None
            and not is_restart
            and (key := self.record.promised(wish.listed))
        ):
            self._put(key, None)
        return self.fit_pools(within, is_running=is_running) or refusal

    def _get(self, wish: Wish, within: Set, had: Set, left: list[str], waiting: set[str]) -> Set:
        """Return the CPUs that the request's container gets alone.

        :param had: those that it has.
        :param left: the keys of what its pod has left for it; *waiting*: of what waits for its devices.
        :raises Refusal: as ``_choose``.
        """
        but, kept = {self.own, *left, *waiting}, had & self.topology.online
        if kept and len(had) == wish.count:
            return had  # those that are offline may come back
        if wish.listed and not kept and self._has_room(wish.listed, within, but):
            return wish.listed
        if kept or not left:
            return self._choose(wish, within, kept, but) if wish.count != len(kept) else kept
        kept = self._shown(
            frozenset().union(*[self._cpus(self.containers[key]["cpus"]) for key in left])
        )
        if not kept <= (self.usable | self.isolated) - self.taken(*but):
            kept = frozenset()  # offline, reserved or a pool's since
        if wish.count == len(kept):
            return kept
        try:
            return self._choose(wish, within, kept, but)
        except Refusal as error:  # others may do, such as those of another NUMA node
            try:
                return self._choose(wish, within, frozenset(), {self.own, *waiting})
            except Refusal:
                raise error from None

    def _left_in_pod(self, entry: Entry, *, is_first: bool) -> list[str]:
        """Return the keys of the containers without a cgroup whose CPUs one of their pod may have.

        Those of its own name: it has ended, or its last start has failed, of which no ``delete`` comes, perhaps in an
        earlier sandbox. At its first start those of all others that have ended: they were init containers.
        """
        is_of_kubernetes = entry["name"].count("/") == 2
        own, others = [], []
        for key, other in self.containers.items():
            is_of_pod = entry["pod"] != "" and other.get("pod") == entry["pod"]
            if other["cgroup"] or key == self.own:
                continue
            if other["name"] == entry["name"] and (
                is_of_pod or (is_of_kubernetes and not other.get("ended"))
            ):
                own.append(key)
            elif is_of_pod and is_first and other.get("ended"):
                others.append(key)
        return own or others

    def _reuse(self, key: str, name: str, taken: Set) -> None:
        """Take CPUs from an ended container of the pod; the rest of an init container's waits for the next one."""
        if key not in self.containers:
            return
        entry = self.containers[key].copy()
        rest = self._cpus(entry["cpus"]) - taken
        if entry["name"] == name or not rest:
            self._put(key, None)
            return
        entry["cpus"] = render_cpus(rest)
        entry.pop("shown", None)
        if "counted" not in entry:  # else they are the pod's as long as it lives
            entry["since"] = now()
        self._put(key, entry)

    def _put(self, key: str, entry: Entry | None) -> None:
        """Change the record for the request, which may be refused; None takes an entry out."""
        self._undo.setdefault(key, self.containers.get(key))
        if entry is not None:
            self.containers[key] = entry
        else:
            self.containers.pop(key, None)

    def _restore(self) -> None:
        """Make the record as it was before the request."""
        for key, entry in self._undo.items():
            self._put(key, entry)
        self._undo.clear()

    def _choose(self, wish: Wish, within: Set, kept: Set, but: set[str]) -> Set:
        """Return CPUs of *within* that the request's container can have alone.

        :param kept: those that it has: a resized one grows around them and shrinks within them, since its threads and
            its memory are there.
        :param but: the keys of the containers whose CPUs count as free.
        :raises Refusal: too few CPUs are free, or too few would stay shared; with who has the others.
        """
        given, count = self.conf.exclusive, wish.count
        held, taken = self._kept(), self.taken(*but)
        isolated, usable = (self.isolated & within) - taken - held, self.usable - taken
        try:
            if count < len(kept):
                return choose(self.topology, kept, count, whole=given.in_whole_cores, spread=True)
            if given.isolated == "only" or (
                given.isolated == "prefer" and isolated and kept <= self.isolated
            ):
                try:
                    return self._pick(isolated, count, kept)
                except NoRoomError as error:
                    if given.isolated == "only":
                        raise type(error)(f"{error}, of the isolated CPUs") from None
            spare = max(min(len(usable) - given.min_shared, len(usable - held)), 0)
            if count <= spare:
                chosen = self._pick((usable & within) - held, count, kept)
                if len(given.held(chosen, self.topology.cores)) <= spare:
                    return chosen
            raise NoRoomError(
                f"{counted(spare)} free, beside the {given.min_shared} that must stay shared"
            )
        except NotWholeError as error:
            raise Refusal(f"{wish.asker}: found {count}, {error}") from None
        except NoRoomError as error:
            asked = f"{count} CPU{'s' if count != 1 else ''} alone"
            fault = f"{wish.asker}: asks for {asked}, and on the node {os.uname().nodename} {error}{self._holders()}"
            raise Refusal(f"{fault}; delete the pod to have it scheduled again") from None

    def _has_room(self, listed: Set, within: Set, but: set[str]) -> bool:
        """Return whether the request's container can have just the CPUs that the device plugin has allocated.

        :param within: as for ``_choose``, likewise *but*.
        """
        given, taken = self.conf.exclusive, self.taken(*but)
        own = {"only": self.isolated, "never": self.usable}.get(
            given.isolated, self.usable | self.isolated
        )
        free, cores = own - taken - self._kept(), self.topology.cores
        whole = given.held(listed, cores)
        is_whole = not given.in_whole_cores or all(
            core <= listed for core in cores if core & listed
        )
        leaves_enough = len(self.usable - self.taken(self.own) - whole) >= min(
            given.min_shared, len(self.usable)
        )
        return bool(
            is_whole
            and leaves_enough
            and listed <= within
            and listed <= self._shown(free)
            and whole <= free
        )

    def _pick(self, free: Set, count: int, kept: Set) -> Set:
        """Return *count* of the free CPUs and of those that are kept."""
        given = self.conf.exclusive
        whole, spread = given.in_whole_cores, given.spread
        free = self._shown(free)
        chosen = choose(self.topology, free | kept, count, whole=whole, spread=spread)
        if not kept:
            return chosen
        if not spread:
            free &= frozenset().union(
                *[self.topology.nodes[number] for number in self.topology.nodes_of(kept)]
            )
        more = choose(
            self.topology, free - kept, count - len(kept), near=kept, whole=whole, spread=spread
        )
        return kept | more

    def _shown(self, free: Set) -> Set:
        """Return the free CPUs that containers may see: with `threads` the first ones of each core that is free."""
        if not (threads := self.conf.exclusive.threads):
            return free
        return frozenset().union(
            *[sorted(core)[:threads] for core in self.topology.cores if core <= free]
        )

    def _kept(self) -> Set:
        """Return the CPUs of containers that keep some which are not theirs any more."""
        return frozenset[int]().union(*[cpus for cpus, _ in self.held.values()])

    def _holders(self) -> str:
        """Return who has the CPUs that are not shared, as the end of a sentence; "" if there are none."""
        held = [
            f"{entry['name']} has {entry['cpus']}"
            for key, entry in self.containers.items()
            if entry["kind"] == "exclusive" and key != self.own
        ]
        pools = self.record.pools | {name: render_cpus(cpus) for name, cpus in self.fixed.items()}
        held += [f"the pool {name} has {cpus}" for name, cpus in pools.items() if cpus]
        listed = [reason for _, reason in self.held.values()] + held
        return f"; {shorten(', '.join(listed), 500)}" if listed else ""

    def fit_pools(self, within: Set, *, is_running: bool = True) -> Refusal | None:
        """Give each pool as many CPUs as its containers request, within its bounds; drop those without containers.

        :param within: the CPUs that it may grow by.
        :param is_running: as in ``enter``.
        :returns: the refusal of the request's container, whose pool has no CPU.
        """
        pools = {pool.name: pool for pool in self.conf.pools}
        members: dict[str, list[Entry]] = {}
        for entry in self.containers.values():
            if entry["kind"] == "pool" and entry["pool"] not in self.fixed:
                members.setdefault(entry["pool"], []).append(entry)
        self.record.pools = {
            name: cpus for name, cpus in self.record.pools.items() if name in members
        }
        held = self._kept()
        for name, entries in members.items():
            pool = pools.get(name.partition("/")[0])
            have = self._cpus(self.record.pools.get(name, "")) & self.topology.online - held
            asked = -(-sum([entry.get("milli", 0) for entry in entries]) // 1000)
            want = len(have) if pool is None else min(max(asked, pool.min), pool.max)
            if want < len(have):
                have = choose(self.topology, have, want, spread=True)
            free = self.usable - self.taken(name) - have - held
            more = min(
                want - len(have), len(free) - self.conf.exclusive.min_shared, len(free & within)
            )
            if more > 0:
                have |= choose(self.topology, free & within, more, near=have, spread=True)
            if have:
                self.record.pools[name] = render_cpus(have)
                continue
            self.record.pools.pop(name, None)
        own = self.containers.get(self.own)
        name = "" if own is None else own.get("pool", "")
        is_away = (
            name in self.fixed and not self.fixed[name]
        )  # all of its CPUs are offline: ``wanted`` says so
        if own is None or not name or name in self.record.pools or self._fixed(name) or is_away:
            return None
        fault = f"the pool {name} has no CPU, and none is free on the node {os.uname().nodename}"
        refusal = Refusal(f"{fault}{self._holders()}; delete the pod to have it scheduled again")
        if is_running:
            own["kind"] = "shared"
            own.pop("pool")
        else:
            self._restore()
        return refusal

    # The difference

    def move(self, plan: dict[str, Set | NRIError], *, tells: bool = False) -> bool:
        """Give all other containers their CPUs, first those that only lose some.

        :param plan: of ``plan``. A container that the conf leaves none keeps what it has.
        :param tells: the answer to this request tells the runtime, so each entry keeps it.
        :returns: whether one keeps CPUs that the request's container or its pool was to get: other CPUs may do.
        """
        taken = self.taken()
        has = {key: self._cpus(text) or self.topology.online for key, text in self._texts.items()}
        is_in_the_way = False
        known = {
            key: cpus
            for key, cpus in plan.items()
            if not isinstance(cpus, NRIError) and key != self.own
        }
        for key in sorted(known, key=lambda key: not known[key] <= has.get(key, known[key])):
            entry, cpus = self.containers[key], known[key]
            try:
                if self._give(key, cpus) and tells:
                    _tell(entry, cpus)
            except GoneError:
                self._end(key)
            except CgroupError as error:
                if keeps := (has[key] - cpus) & taken:
                    is_in_the_way |= key not in self.held and bool(keeps & self._of_own())
                    self.held[key] = has[key], self._keeps(key, has[key], error)
        for key, reason in plan.items():
            if isinstance(reason, NRIError) and key != self.own and has[key] & taken:
                pool = self.containers[key].get("pool")
                keeps = frozenset[int]() if pool is None or self._knows(pool) else has[key]
                is_in_the_way |= key not in self.held and bool(keeps & self._of_own())
                self.held[key] = keeps, self._keeps(key, has[key], reason)
        return is_in_the_way

    def _keeps(self, key: str, cpus: Set, why: NRIError) -> str:
        return f"{self.containers[key]['name']} keeps {render_cpus(cpus)}: {shorten(str(why), 300)}"

    def _give(self, key: str, cpus: Set) -> bool:
        """Give another container its CPUs; return whether it had others."""
        entry = self.containers[key]
        has_others = self._texts[key] != self._list(cpus)
        if has_others or (entry.get("untold") and self._can_tell(entry)):
            self._cgroup(entry).set_cpus(cpus)
            _note_untold(entry, self.systemd.untold)
        if has_others:
            self._texts[key] = self._list(cpus)
            self.moved += [key] if key not in self.moved else []
            self.record.note(key, self._mount.point)
        return has_others

    def _of_own(self) -> Set:
        """Return the CPUs that the request's container, or its pool, has alone."""
        own = self.containers.get(self.own)
        if own is None:
            return frozenset()
        return self._cpus(own["cpus"]) | self._cpus(
            self.record.pools.get(own.get("pool") or "", "")
        )

    def settle(self, cgroup: Cgroup | None, *, tells: bool = False) -> bool:
        """Give the request's container its CPUs.

        :param cgroup: its cgroup; None if that does not exist yet.
        :param tells: as in ``move``.
        :returns: whether it had others before.
        :raises CgroupError: the kernel refuses them.
        :raises NRIError: the conf leaves it none.
        """
        own = self.containers[self.own]
        cpus = self.wanted(own)
        if tells:
            _tell(own, cpus)
        if cgroup is None:
            return False
        has_others = cgroup.cpus() != cpus
        is_untold = own.get("untold") and self._can_tell(own)
        if own["kind"] == "exclusive" and self.conf.exclusive.memory:
            cgroup.write("cpuset.mems", self.topology.memory_of(self.alone(own)))
        if has_others or is_untold:
            cgroup.set_cpus(cpus)
            _note_untold(own, cgroup.untold)
        self.record.note(self.own, self._mount.point)
        return has_others

    def updates(self) -> list[Any]:
        """Return the updates by which a runtime learns of the CPUs of the containers that have got others."""
        ids = [entry["id"] for entry in self.containers.values()]
        updates = []
        for key in self.moved:
            entry = self.containers.get(key)
            if (
                entry is not None
                and entry["id"]
                and not entry.get("sandbox")
                and ids.count(entry["id"]) == 1
            ):
                resources = {"cpu": {"cpus": render_cpus(self.wanted(entry))}}
                updates.append({"id": entry["id"], "resources": resources, "ignoreFailure": True})
        return updates

    def parents(self, request: Request) -> Set:
        """Return the CPUs that the cgroup above a container may use, whose own cgroup does not exist yet."""
        own = request.spec.cgroups_path if request.spec is not None else ""
        path = os.path.dirname(expand(own)) if own else "/"  # without one the runtime chooses
        try:
            return find(path, mounts=self._mounts).effective_cpus()
        except CgroupError:
            return self.topology.online

    def path_of(self, cgroup: Cgroup | None) -> str:
        """Return the path of a container's cgroup below the mount, "" before it exists.

        At ``setup`` there is none yet, unless a container of this cgroup runs: its CPUs stay its own.
        """
        if cgroup is None:
            return self.before["cgroup"] if self.before is not None else ""
        return cgroup.directory("cpuset").removeprefix(self._mount.point)

    def _cgroup(self, entry: Entry) -> Cgroup:
        """Return a container's cgroup where it was found: its path and its process may not lead there any more."""
        subgroup = entry.get("subgroup", "")
        return find(
            "", noted=entry["cgroup"], mounts=self._mounts, systemd=self.systemd, subgroup=subgroup
        )

    def _can_tell(self, entry: Entry) -> bool:
        """Return whether systemd answers now, of which a container's unit has not been told its CPUs."""
        place = Place(self._mount, entry["cgroup"])
        return self.systemd.tell(place.host_path, lambda _unit: True) is not None


def _tell(entry: Entry, cpus: Set) -> None:
    """Add CPUs to those that the runtime got from konfine: in later requests they are no list of the kubelet."""
    entry["told"] = [*entry.get("told", [])[-3:], render_cpus(cpus)]


def _note_untold(entry: Entry, reason: str) -> None:
    """Note in an entry that systemd does not know its CPUs, if there is a reason: it may undo them until it does."""
    entry.pop("untold", None)
    if reason:
        entry["untold"] = True


def guaranteed(request: Request) -> int:
    """Return the CPUs of a container of a guaranteed pod that has whole ones; 0 for any other container.

    The kubelet puts such pods right below ``kubepods``, and gives the container 1024 shares for each CPU, and a quota
    of whole ones, unless that is switched off (``cpuCFSQuota``) or another plugin has cleared it:
    ``GetPodContainerName`` in its pkg/kubelet/cm, ``calculateLinuxResources`` in pkg/kubelet/kuberuntime.
    """
    if request.spec is None or request.is_sandbox or not request.spec.cgroups_path:
        return 0
    cpu = shared.cpu_resources(request)
    quota, period, shares = (cpu.get(key) for key in ("quota", "period", "shares"))
    pod = os.path.dirname(expand(request.spec.cgroups_path))
    if (
        not isinstance(shares, int)
        or shares % 1024
        or any(name in pod for name in ("burstable", "besteffort"))
    ):
        return 0
    if (
        isinstance(quota, int)
        and isinstance(period, int)
        and quota > 0
        and quota != shares // 1024 * period
    ):
        return 0
    return shares // 1024 if is_pod(pod) else 0


def requested(request: Request) -> int:
    """Return the CPUs that a container requests, in thousandths: what the kubelet makes shares of."""
    shares = shared.cpu_resources(request).get("shares")
    return shares * 1000 // 1024 if isinstance(shares, int) and 2 < shares <= 262144 else 0
