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
from nri.cgroups.paths import expand
from nri.cgroups.resolve import Place
from nri.cgroups.topology import present_cpus
from nri.errors import NRIError
from nri.plugins import shared
from nri.plugins.konfine import found
from nri.plugins.konfine.placement import NoRoomError, NotWholeError, choose, counted
from nri.plugins.konfine.record import SETUP_WITHIN, now, text_of
from nri.skel.plugin import Refusal
from nri.skel.scopes import container_name
from nri.types.gojson import shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.cgroups import Cgroup
    from nri.plugins.konfine import KonfineConf
    from nri.plugins.konfine.record import Entry, Record
    from nri.types.v1 import Request

    Set = frozenset[int]

KEPT_TIMES = 3
"""Times of ``SETUP_WITHIN`` that a container which has ended has for its restart: the kubelet waits five minutes at
most."""


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
        self.parted: list[str] = []
        """The names of the containers that have lost CPUs which another one has alone, too."""
        self._path = self._path_of_request(request)
        self.rebuilt = self._survey()
        """Why the record was made again; "" if it was not, or nothing was found."""
        self.own = self._key(request)
        self.before: Entry | None = self.containers.get(self.own) or self._of_cgroup(self._path)
        if self.before is not None and "pod" not in self.before:
            # It was found by its cgroup alone.
            self.before["id"] = request.id
            self.before["pod"] = request.sandbox_id
            self.before["name"] = name_of(request)
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

    def _survey(self) -> str:
        """Compare the record with the cgroups; return why it was made again, "" if it was not."""
        for key, entry in list(self.containers.items()):
            if entry["cgroup"]:
                text = text_of(f"{self._mount.point}{entry['cgroup']}/{found.KNOB}")
                self._texts[key] = text or ""
                try:
                    self._cpus(self._texts[key])
                except CpuListError:  # no request fails for another container's sake
                    self._texts[key] = ""
                if text is None:
                    self._end(key)
                elif not entry["id"]:
                    self._follow(key, entry)
        self._part()
        self._expire()
        reason = self.record.rebuilt
        if reason:
            # The record is complete from now on, whatever this request is about.
            self.record.rebuilt = ""
            self.adopt(is_whole=True)
            others = [
                key for key, entry in self.containers.items() if entry["cgroup"] != self._path
            ]
            return reason if others else ""
        return ""

    def _follow(self, key: str, entry: Entry) -> None:
        """Have an entry say what its cgroup has: it was found there, and konfine is not run for the container."""
        own = self._cpus(self._texts[key])
        if entry["kind"] != "exclusive" or entry.get("plus") or own == self.alone(entry):
            return
        if not own or own >= self.usable:
            del self.containers[key]
        else:
            entry["cpus"] = render_cpus(own)

    def _part(self) -> None:
        """Take CPUs that two containers have alone from the later one: its own next request gives it others."""
        taken: Set = frozenset()
        for entry in self.containers.values():
            if entry["kind"] != "exclusive" or not entry["cgroup"]:
                continue
            own = self._cpus(entry["cpus"])
            left = own - taken
            taken |= own
            if left == own:
                continue
            entry["cpus"] = render_cpus(left)
            if not left:
                entry["kind"] = "shared"
            self.parted.append(entry["name"])

    def _of_cgroup(self, path: str) -> Entry | None:
        for entry in self.containers.values():
            if path and entry["cgroup"] == path:
                return entry
        return None

    def _path_of_request(self, request: Request) -> str:
        """Return the path below the mount of the request's container; "" if it is not known."""
        if request.spec is None or not request.spec.cgroups_path:
            return ""
        return self._mount.below_host(expand(request.spec.cgroups_path)) or ""

    def adopt(self, *, is_whole: bool) -> None:
        """Add the containers of the machine that the record does not have.

        :param is_whole: also those that share CPUs; else konfine is not to run for them, and leaves them alone.
        """
        known = {entry["cgroup"] for entry in self.containers.values() if entry["cgroup"]}
        listed = found.sets(self._mount.point, known)
        shared = [
            self._cpus(text)
            for key, text in self._texts.items()
            if key in self.containers and self.containers[key]["kind"] == "shared"
        ]
        nobodys = self.conf.system_reserved.union(*self.fixed.values())
        present = present_cpus(self.conf.sys) - self.topology.isolated - nobodys
        added = found.entries(listed, shared, self.usable - nobodys, present, nobodys)
        for path, entry in added.items():
            if is_whole or entry["kind"] == "exclusive":
                self.containers[path] = entry
                self._texts[path] = render_cpus(listed[path])

    def _end(self, key: str) -> None:
        """Note that a container has ended: its CPUs are free, or kept for its next start while its pod lives."""
        entry = self.containers.pop(key, None)
        if entry is not None and entry["kind"] == "exclusive":
            entry["cgroup"], entry["ended"] = "", True
            entry.pop("since", None)
            self.containers[key] = entry

    def _expire(self) -> None:
        """Forget the containers that are not coming any more."""
        pods = {entry["id"] for entry in self.containers.values() if entry.get("sandbox")}
        late, too_late = now() - SETUP_WITHIN, now() - KEPT_TIMES * SETUP_WITHIN
        for key, entry in list(self.containers.items()):
            if entry["cgroup"]:
                continue
            has_ended = bool(entry.get("ended"))
            is_over = has_ended and entry.get("pod") not in pods
            since = entry.get("since", late)
            if is_over or since < (too_late if has_ended else late):
                del self.containers[key]

    def leave(self, *, is_released: bool) -> None:
        """Let the request's container go, which runs on if it is released."""
        if is_released:
            self.containers.pop(self.own, None)
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
        """Return the CPUs that a container has alone."""
        return self._cpus(entry["cpus"])

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
            cpus, where = self._of_pool(entry["pool"])
        else:
            cpus, where = self._shared_with(entry, taken)
        if entry["kind"] == "exclusive":
            alone = self.alone(entry)
            return (alone & online or alone) | (cpus if entry.get("plus") else frozenset())
        if cpus:
            return cpus
        fix = "expected conf.pools and conf.systemReserved to leave some"
        if any(not other["id"] and other["cpus"] for other in self.containers.values()):
            fix += "; others are of containers without a request since the record was made: see `nri reapply`"
        raise NRIError(f"no CPU is left for {where}: the node has {render_cpus(online)}; {fix}")

    def _of_pool(self, name: str) -> tuple[Set, str]:
        """Return the CPUs of a pool, and what it is, for an error.

        :raises NRIError: the conf does not have it.
        """
        if not self._knows(name):
            raise NRIError(f"the conf has no pool {name}")
        named = next((pool.cpus for pool in self.conf.pools if pool.name == name), None)
        cpus = self._fixed(name) or self._cpus(self.record.pools.get(name, ""))
        return cpus, f"the pool {name}{f', which names {render_cpus(named)}' if named else ''}"

    def _shared_with(self, entry: Entry, taken: Set) -> tuple[Set, str]:
        """Return the CPUs that a container shares, and whom it shares them with, for an error."""
        online = self.topology.online
        whole = self._cpus(entry["within"]) & online if entry["within"] else self.usable
        within = whole - taken
        rest = self.usable or (online - self.topology.isolated)
        cpus = (within - self.isolated) or within or (rest - taken)
        others = render_cpus(taken) or "none"
        return cpus, f"the containers that share CPUs, beside {others} of pools and single ones"

    def _knows(self, pool: str) -> bool:
        """Return whether a pool is one of the conf: it may be of an earlier conf, or of another entry."""
        return pool in self.record.pools or any(known.name == pool for known in self.conf.pools)

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
        left = self._left_by(entry)
        spent = self._spent(entry, is_first=is_first and not left)
        waiting = self.record.waiting(wish.listed)
        had = self._had(left, waiting)
        alone: Set = frozenset()
        is_plus = wish.plus
        try:
            if wish.count:
                alone = self._get_or_take(wish, within, had, left, spent, waiting)
        except Refusal as error:
            if not is_running:
                self._restore()
                return error
            alone, refusal = had, error
            is_plus = before is not None and before.get("plus", False)
        if alone:
            _have_alone(entry, alone, wish.listed, is_plus=is_plus)
        self._replace(entry)
        for key in left:
            self._put(key, None)
        for key in spent:
            self._spend(key, alone)
        promised = self.record.promised(wish.listed) if wish.listed else ""
        if promised and before is None and not left:
            self._put(promised, None)
        return self.fit_pools(within, is_running=is_running) or refusal

    def _had(self, left: list[str], waiting: set[str]) -> Set:
        """Return the CPUs that the request's container had alone, without those that another one has got since.

        :param left: as for ``_get``, likewise *waiting*.
        """
        before = self.before
        if before is None or before["kind"] != "exclusive":
            return frozenset()
        return self.alone(before) - self.taken(self.own, self._path, *left, *waiting)

    def _replace(self, entry: Entry) -> None:
        """Put the request's container into the record, in place of what its cgroup had under another path or none."""
        for key, other in list(self.containers.items()):
            if entry["cgroup"] and other["cgroup"] == entry["cgroup"]:
                self._put(key, None)
        self._put(self.own, entry)

    def _get_or_take(
        self,
        wish: Wish,
        within: Set,
        had: Set,
        left: list[str],
        spent: list[str],
        waiting: set[str],
    ) -> Set:
        """As ``_get``; if there is no room, also of CPUs that are kept for containers that may not come again.

        :param spent: their keys.
        """
        try:
            return self._get(wish, within, had, left, waiting)
        except Refusal as error:
            if not spent:
                raise
            try:
                return self._get(wish, within, had, left or spent, waiting | {*spent})
            except Refusal:
                raise error from None

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
        kept = frozenset().union(*[self._cpus(self.containers[key]["cpus"]) for key in left])
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

    def _left_by(self, entry: Entry) -> list[str]:
        """Return the keys of what a container has left for its next start.

        It has ended, or its last start has failed, of which no ``delete`` comes, perhaps in an earlier sandbox.
        """
        is_of_kubernetes = entry["name"].count("/") == 2
        keys = []
        for key, other in self.containers.items():
            if other["cgroup"] or key == self.own or other["name"] != entry["name"]:
                continue
            if _is_of_pod(other, entry) or (is_of_kubernetes and not other.get("ended")):
                keys.append(key)
        return keys

    def _spent(self, entry: Entry, *, is_first: bool) -> list[str]:
        """Return the keys of containers that have ended and may have been init containers.

        Nothing tells an init container from one that has crashed before the others of its pod were started. So what
        it had stays its own for a while. Without room others get it: one of its pod that is started for the first
        time, and any other after such a start.
        """
        keys = []
        for key, other in self.containers.items():
            if key == self.own or not other.get("ended") or other["name"] == entry["name"]:
                continue
            if "since" in other or (is_first and _is_of_pod(other, entry)):
                keys.append(key)
        return keys

    def _spend(self, key: str, taken: Set) -> None:
        """Take CPUs from a container that has ended; the rest waits for it a while."""
        entry = self.containers[key].copy()
        rest = self._cpus(entry["cpus"]) - taken
        if not rest:
            self._put(key, None)
            return
        entry["cpus"] = render_cpus(rest)
        if "counted" not in entry:  # else they are the pod's as long as it lives
            entry.setdefault("since", now())
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
                return choose(self.topology, kept, count, whole=given.whole_cores, spread=True)
            if isolated and kept <= self.isolated:
                try:
                    return self._pick(isolated, count, kept)
                except NoRoomError:
                    pass  # of the others, then
            spare = max(min(len(usable) - given.min_shared, len(usable - held)), 0)
            if count <= spare:
                return self._pick((usable & within) - held, count, kept)
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
        given = self.conf.exclusive
        free = (self.usable | self.isolated) - self.taken(*but) - self._kept()
        if not listed <= within & free:
            return False
        if given.whole_cores and listed.union(*self.topology.cores_of(listed)) != listed:
            return False
        shared = self.usable - self.taken(self.own) - listed
        return len(shared) >= min(given.min_shared, len(self.usable))

    def _pick(self, free: Set, count: int, kept: Set) -> Set:
        """Return *count* of the free CPUs and of those that are kept."""
        given = self.conf.exclusive
        whole, spread = given.whole_cores, given.spread
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
        members: dict[str, list[Entry]] = {}
        for entry in self.containers.values():
            if entry["kind"] == "pool" and entry["pool"] not in self.fixed:
                members.setdefault(entry["pool"], []).append(entry)
        for name in [name for name in self.record.pools if name not in members]:
            del self.record.pools[name]
        for name, entries in members.items():
            asked = -(-sum([entry.get("milli", 0) for entry in entries]) // 1000)
            cpus = self._fitted(name, asked, within)
            self.record.pools.pop(name, None)
            if cpus:
                self.record.pools[name] = render_cpus(cpus)
        own = self.containers.get(self.own)
        if own is None or own["kind"] != "pool" or self._has_cpus(own["pool"]):
            return None
        fault = f"the pool {own['pool']} has no CPU, and none is free on the node"
        refusal = Refusal(
            f"{fault} {os.uname().nodename}{self._holders()}; delete the pod to have it scheduled again"
        )
        if is_running:
            own["kind"] = "shared"
            own.pop("pool")
        else:
            self._restore()
        return refusal

    def _fitted(self, name: str, asked: int, within: Set) -> Set:
        """Return the CPUs of a pool that grows, with as many as its containers ask for, or as there are."""
        held = self._kept()
        have = self._cpus(self.record.pools.get(name, "")) & self.topology.online - held
        want = len(have)  # of a pool that the conf does not have any more
        for pool in self.conf.pools:
            if pool.name == name:
                want = min(max(asked, pool.min), pool.max)
        if want < len(have):
            return choose(self.topology, have, want, spread=True)
        free = self.usable - self.taken(name) - have - held
        spare = len(free) - self.conf.exclusive.min_shared
        more = min(want - len(have), spare, len(free & within))
        if more > 0:
            have |= choose(self.topology, free & within, more, near=have, spread=True)
        return have

    def _has_cpus(self, pool: str) -> bool:
        """Return whether a pool has CPUs, or will have some again: ``wanted`` says that all of them are offline."""
        is_away = pool in self.fixed and not self.fixed[pool]
        return is_away or pool in self.record.pools or bool(self._fixed(pool))

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
        for key, cpus in self._losing_first(plan, has):
            why = self._give_or_why_not(key, cpus, tells=tells)
            if why is not None and (lost := (has[key] - cpus) & taken):
                is_in_the_way |= self._hold(key, has[key], lost, self._keeps(key, has[key], why))
        for key, reason in plan.items():
            if isinstance(reason, NRIError) and key != self.own and has[key] & taken:
                pool = self.containers[key].get("pool")
                kept = frozenset[int]() if pool is None or self._knows(pool) else has[key]
                is_in_the_way |= self._hold(key, kept, kept, self._keeps(key, has[key], reason))
        return is_in_the_way

    def _losing_first(
        self, plan: dict[str, Set | NRIError], has: dict[str, Set]
    ) -> list[tuple[str, Set]]:
        """Return the other containers and their CPUs, first those that only lose some."""
        known = [
            (key, cpus)
            for key, cpus in plan.items()
            if not isinstance(cpus, NRIError) and key != self.own
        ]
        return sorted(known, key=lambda item: not item[1] <= has.get(item[0], item[1]))

    def _give_or_why_not(self, key: str, cpus: Set, *, tells: bool) -> CgroupError | None:
        """Give another container its CPUs; return why the kernel refuses them, None if it does not."""
        entry = self.containers[key]
        try:
            if self._give(key, cpus) and tells:
                _tell(entry, cpus)
        except GoneError:
            self._end(key)
        except CgroupError as error:
            return error
        return None

    def _hold(self, key: str, kept: Set, lost: Set, why: str) -> bool:
        """Note that a container keeps CPUs; return whether that is new, and the request was to get some of them.

        :param kept: those that no other gets.
        :param lost: those that are not its own any more.
        """
        is_new = key not in self.held
        self.held[key] = kept, why
        return is_new and bool(lost & self._of_own())

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


def name_of(request: Request) -> str:
    """Return the name of the request's container for people: ``NAMESPACE/POD/CONTAINER``, or its short id."""
    names = [request.labels.get(f"io.kubernetes.pod.{key}") for key in ("namespace", "name")]
    return "/".join(filter(None, [*names, container_name(request)])) or request.id[:12]


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


def _tell(entry: Entry, cpus: Set) -> None:
    """Add CPUs to those that the runtime got from konfine: in later requests they are no list of the kubelet."""
    entry["told"] = [*entry.get("told", [])[-3:], render_cpus(cpus)]


def _note_untold(entry: Entry, reason: str) -> None:
    """Note in an entry that systemd does not know its CPUs, if there is a reason: it may undo them until it does."""
    entry.pop("untold", None)
    if reason:
        entry["untold"] = True


def requested(request: Request) -> int:
    """Return the CPUs that a container requests, in thousandths: what the kubelet makes shares of."""
    shares = shared.cpu_resources(request).get("shares")
    return shares * 1000 // 1024 if isinstance(shares, int) and 2 < shares <= 262144 else 0
