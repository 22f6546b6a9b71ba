"""The CPUs of a node while one request is answered: who has some alone, what is left to be shared, and who gives way.

The shared CPUs are those that are online, neither isolated nor reserved, and in no exclusive set or pool, or the
reserved ones if all others are isolated. A new exclusive set is removed from all other cgroups before its container
gets it. CPUs that a container gives back are shared again in the same request.
"""

from __future__ import annotations

import os
import time

from nri.cgroups import CgroupError, GoneError, Mounts, Systemd, find, knobs, parse_cpus, render_cpus
from nri.cgroups.paths import expand, is_pod
from nri.cgroups.resolve import Place
from nri.errors import NRIError
from nri.plugins import shared
from nri.plugins.konfine.state import SETUP_WITHIN
from nri.skel.plugin import Refusal
from nri.types.gojson import shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.cgroups import Cgroup
    from nri.cgroups.topology import Topology
    from nri.plugins.konfine import KonfineConf
    from nri.plugins.konfine.state import Entry, State
    from nri.types.v1 import Request

    Set = frozenset[int]

_KNOB = "cpuset.cpus"


class Sharing:
    """The containers of the state, and what each of them is to have.

    :param own: the id of the request's container.
    """

    def __init__(self, state: State, conf: KonfineConf, own: str) -> None:
        self.state, self.conf, self.own = state, conf, own
        self.topology = topology = state.topology
        self.usable = topology.online - topology.isolated - conf.system_reserved
        self.isolated = topology.isolated - conf.system_reserved
        self.fixed = {pool.name: pool.cpus & topology.online for pool in conf.pools if pool.cpus is not None}
        self._mounts = Mounts.read(conf.mountinfo)
        self.systemd = Systemd(conf.run)
        """Gets the CPUs of the units of other containers."""
        self._texts: dict[str, str] = {}  # the CPUs that each cgroup has, as its file says
        self.moved: list[str] = []
        """The ids of the other containers that have got other CPUs."""

    def survey(self, request: Request) -> str:
        """Compare the state with the cgroups; return why it was made again, "" if it was not."""
        reason = ""
        if self.state.rebuilt and (mount := self._mounts.serving("cpuset")) is not None:
            # The record is complete from now on, whatever this request is about.
            path = expand(request.spec.cgroups_path) if request.spec is not None and request.spec.cgroups_path else ""
            below = (path and mount.below_host(path)) or ""
            parts = below.split("/")
            depth = next((at for at, part in enumerate(parts) if part.startswith("kubepods")), 0)
            self.state.rebuild(mount.point + "/".join(parts[: depth + 1]), mount.point)
            reason = self.state.rebuilt if self.state.containers.keys() - {self.own, below} else ""
            self.state.containers.pop(below, None)
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        for id_, entry in list(self.state.containers.items()):
            text = _text(f"{entry['directory']}/{_KNOB}") if entry["directory"] else ""
            if text is None or (not entry["directory"] and entry.get("since", 0) + SETUP_WITHIN < now):
                del self.state.containers[id_]
            else:
                self._texts[id_] = text
        return reason

    def taken(self, but: str = "") -> Set:
        """Return the CPUs that are not shared, without those of the container or pool *but*."""
        pools = {name: parse_cpus(cpus) for name, cpus in self.state.pools.items()} | self.fixed
        own = [
            parse_cpus(entry["cpus"])
            for id_, entry in self.state.containers.items()
            if entry["kind"] == "exclusive" and id_ != but
        ]
        return frozenset().union(*own, *[cpus for name, cpus in pools.items() if name != but])

    def wanted(self, entry: Entry) -> Set:
        """Return the CPUs that a container is to have.

        :raises NRIError: the conf leaves it none.
        """
        if entry["kind"] == "exclusive":
            cpus = parse_cpus(entry["cpus"])
            return (cpus & self.topology.online) or cpus
        if entry["kind"] == "pool":
            cpus = self.fixed.get(entry["pool"]) or parse_cpus(self.state.pools.get(entry["pool"], ""))
            named = next((pool.cpus for pool in self.conf.pools if pool.name == entry["pool"]), None)
            where = f"the pool {entry['pool']}{f', which names {render_cpus(named)}' if named else ''}"
        else:
            taken = self.taken()
            within = parse_cpus(entry["within"]) & self.topology.online - self.isolated
            rest = self.usable or (self.topology.online - self.topology.isolated)
            cpus = (within - taken) or (rest - taken)
            where = f"the containers that share CPUs, beside {render_cpus(taken) or 'none'} of pools and single ones"
        if not cpus:
            has = render_cpus(self.topology.online)
            fix = "expected conf.pools and conf.systemReserved to leave some"
            raise NRIError(f"no CPU is left for {where}: the node has {has}; {fix}")
        return cpus

    def choose(self, count: int, within: Set, kept: Set, asker: str) -> Set:
        """Return *count* CPUs of *within* that the request's container can have alone.

        :param kept: those that it has: a resized one grows around them and shrinks within them, since its threads and
            its memory are there.
        :param asker: what asks for them, which begins the refusal.
        :raises Refusal: too few CPUs are free, or too few would stay shared; with who has the others.
        """
        given, taken = self.conf.exclusive, self.taken(self.own)
        isolated = (self.isolated & within) - taken
        try:
            if given.isolated == "only" or (given.isolated == "prefer" and isolated and kept <= self.isolated):
                try:
                    return self._pick(isolated, count, kept)
                except NoRoomError as error:
                    if given.isolated == "only":
                        raise type(error)(f"{error}, of the isolated CPUs") from None
            spare = max(len(self.usable - taken) - given.min_shared, 0)
            if count > spare:
                raise NoRoomError(f"{_are(spare)} free, beside the {given.min_shared} that must stay shared")
            return self._pick((self.usable & within) - taken, count, kept)
        except NotWholeError as error:
            raise Refusal(f"{asker}: found {count}, {error}") from None
        except NoRoomError as error:
            asked = f"{count} CPU{'s' if count != 1 else ''} alone"
            found = f"{asker}: asks for {asked}, and on the node {os.uname().nodename} {error}{self._holders()}"
            raise Refusal(f"{found}; delete the pod to have it scheduled again") from None

    def _pick(self, free: Set, count: int, kept: Set) -> Set:
        """Return *count* of the free CPUs and of those that are kept."""
        whole, spread = self.conf.exclusive.whole_cores, self.conf.exclusive.spread
        if count < len(kept):
            return choose(self.topology, kept, count, whole=whole, spread=True)
        chosen = choose(self.topology, free | kept, count, whole=whole, spread=spread)
        if not kept:
            return chosen
        if not spread:
            free &= frozenset().union(*[self.topology.nodes[number] for number in self.topology.nodes_of(kept)])
        more = choose(self.topology, free - kept, count - len(kept), near=kept, whole=whole, spread=spread)
        return kept | more

    def _holders(self) -> str:
        """Return who has the CPUs that are not shared, as the end of a sentence; "" if there are none."""
        held = [
            f"{entry['name']} has {entry['cpus']}"
            for id_, entry in self.state.containers.items()
            if entry["kind"] == "exclusive" and id_ != self.own
        ]
        pools = self.state.pools | {name: render_cpus(cpus) for name, cpus in self.fixed.items()}
        held += [f"the pool {name} has {cpus}" for name, cpus in pools.items() if cpus]
        return f"; {shorten(', '.join(held), 300)}" if held else ""

    def fit_pools(self, within: Set) -> None:
        """Give each pool as many CPUs as its containers request, within its bounds; drop those without containers.

        :param within: the CPUs that it may grow by.
        :raises Refusal: the pool of the request's container has no CPU.
        """
        pools = {pool.name: pool for pool in self.conf.pools}
        members: dict[str, list[Entry]] = {}
        for entry in self.state.containers.values():
            if entry["kind"] == "pool" and entry["pool"] not in self.fixed:
                members.setdefault(entry["pool"], []).append(entry)
        self.state.pools = {name: cpus for name, cpus in self.state.pools.items() if name in members}
        for name, entries in members.items():
            pool = pools.get(name.partition("/")[0])
            have = parse_cpus(self.state.pools.get(name, "")) & self.topology.online
            asked = -(-sum([entry.get("milli", 0) for entry in entries]) // 1000)
            want = len(have) if pool is None else min(max(asked, pool.min), pool.max)
            if want < len(have):
                have = choose(self.topology, have, want, spread=True)
            free = self.usable - self.taken(name) - have
            more = min(want - len(have), len(free) - self.conf.exclusive.min_shared, len(free & within))
            if more > 0:
                have |= choose(self.topology, free & within, more, near=have, spread=True)
            if not have and self._is_own(name):
                found = f"the pool {name} has no CPU, and none is free on the node {os.uname().nodename}"
                raise Refusal(f"{found}{self._holders()}; delete the pod to have it scheduled again")
            self.state.pools[name] = render_cpus(have)

    def _is_own(self, pool: str) -> bool:
        """Return whether the request's container is in a pool."""
        return self.state.containers.get(self.own, {}).get("pool") == pool

    def settle(self, cgroup: Cgroup | None, *, tells: bool = False) -> bool:
        """Give every container its CPUs: first all others, then the request's own in *cgroup*.

        :param tells: the answer to this request tells the runtime, so each entry keeps it.
        :returns: whether the request's container had others before.
        :raises CgroupError: one of them keeps CPUs that another one is to have alone, or the own one is refused.
        """
        done: dict[str, Set] = {}
        for id_, entry in list(self.state.containers.items()):
            if id_ == self.own or not entry["directory"]:
                continue
            key = f"{entry['kind']} {entry.get('pool')} {entry['cpus']} {entry['within']}"  # most share the same
            try:
                cpus = done[key] = done.get(key) or self.wanted(entry)
            except NRIError:  # its own requests report it
                continue
            has_them = self._texts.get(id_) == render_cpus(cpus)
            if has_them and not (entry.get("untold") and self._can_tell(entry)):
                continue
            try:
                self._cgroup(id_, entry).set_cpus(cpus)
            except GoneError:
                del self.state.containers[id_]
            except CgroupError:
                if parse_cpus(self._texts.get(id_) or "0-8191") & self.taken() - cpus:
                    raise
            else:
                _note_untold(entry, self.systemd.untold)
                if has_them:
                    continue
                self.moved.append(id_)
                if tells:
                    _tell(entry, cpus)
                self.state.note(id_)
        own = self.state.containers.get(self.own)
        if own is None:
            return False
        cpus = self.wanted(own)
        if tells:
            _tell(own, cpus)
        if cgroup is None:
            return False
        has_others = cgroup.cpus() != cpus
        is_untold = own.get("untold") and self._can_tell(own)
        if own["kind"] == "exclusive" and self.conf.exclusive.memory:
            cgroup.write("cpuset.mems", self.topology.memory_of(cpus))
        if has_others or is_untold:
            cgroup.set_cpus(cpus)
            _note_untold(own, cgroup.untold)
        self.state.note(self.own)
        return has_others

    def _can_tell(self, entry: Entry) -> bool:
        """Return whether systemd answers now, of which a container's unit has not been told its CPUs."""
        mount = self._mounts.serving("cpuset")
        if mount is None:
            return False
        place = Place(mount, entry["directory"].removeprefix(mount.point))
        return self.systemd.tell(place.host_path, lambda _unit: True) is not None

    def parents(self, request: Request) -> Set:
        """Return the CPUs that the cgroup above a container may use, whose own cgroup does not exist yet."""
        path = os.path.dirname(expand(request.spec.cgroups_path)) if request.spec is not None else "/"
        try:
            return find(path, mounts=self._mounts).effective_cpus()
        except CgroupError:
            return self.topology.online

    def updates(self) -> list[Any]:
        """Return the updates by which a runtime learns of the CPUs of the containers that have got others."""
        updates = []
        for id_ in self.moved:
            entry = self.state.containers[id_]
            if id_ != entry["path"] and not entry.get("sandbox"):
                resources = {"cpu": {"cpus": render_cpus(self.wanted(entry))}}
                updates.append({"id": id_, "resources": resources, "ignoreFailure": True})
        return updates

    def _cgroup(self, id_: str, entry: Entry) -> Cgroup:
        path, pid, subgroup = entry["path"], entry["pid"], entry.get("subgroup", "")
        return find(path, pid, id_, mounts=self._mounts, systemd=self.systemd, subgroup=subgroup)


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
    if not isinstance(shares, int) or shares % 1024 or any(name in pod for name in ("burstable", "besteffort")):
        return 0
    if isinstance(quota, int) and isinstance(period, int) and quota > 0 and quota != shares // 1024 * period:
        return 0
    return shares // 1024 if is_pod(pod) else 0


def requested(request: Request) -> int:
    """Return the CPUs that a container requests, in thousandths: what the kubelet makes shares of."""
    shares = shared.cpu_resources(request).get("shares")
    return shares * 1000 // 1024 if isinstance(shares, int) and 2 < shares <= 262144 else 0


def _text(path: str) -> str | None:
    """Return the text of a file of a cgroup; None if it is gone."""
    try:
        return knobs.slurp(path, knobs.MAX_KNOB, os.O_CLOEXEC | os.O_NOFOLLOW).decode("ascii", "replace").strip()
    except OSError as error:
        if not os.path.isdir(os.path.dirname(path)):
            return None
        raise CgroupError(f"cannot read {shorten(path, 300)}: {error.strerror}") from error


# Chooses CPUs that are near each other: within one last-level cache, else one NUMA node, else one package.
#
# Of all domains that have enough free CPUs the one with the fewest is taken, so large gaps stay for large sets; where
# none has enough, the fullest ones first. Within a domain the same is done with the next smaller ones, down to cores:
# so a set takes whole cores, and its odd CPU that of a core which is in use already.


class NoRoomError(NRIError):
    """There are not enough free CPUs; the message says how many there are, and where."""


class NotWholeError(NoRoomError):
    """A number of CPUs is not one of whole cores; the message says what would be right."""


def _are(count: int) -> str:
    return f"{count or 'none'} {'is' if count < 2 else 'are'}"


def choose(
    topology: Topology, free: Set, count: int, *, near: Set = frozenset(), whole: bool = False, spread: bool = False
) -> Set:
    """Return *count* of the free CPUs.

    :param near: CPUs that they should be near, such as those that a pool has already.
    :param whole: take whole cores only, all of whose threads are free.
    :param spread: they may be of several NUMA nodes.
    :raises NoRoomError: there are not enough, or not on one node.
    :raises NotWholeError: it is no number of whole cores.
    """
    if whole:
        free = frozenset().union(*[core for core in topology.cores if core <= free])
        threads = max([len(core) for core in topology.cores if core <= free], default=1)
        if count % threads:
            low = count // threads * threads
            ask = f"{low} or {low + threads}" if low else str(threads)
            raise NotWholeError(f"expected whole cores, which have {threads} threads each: ask for {ask}")
    where = " on whole cores" if whole else ""
    if len(free) < count:
        raise NoRoomError(f"{_are(len(free))} free{where}")
    levels = [topology.packages, list(topology.nodes.values()), topology.caches, _kinds(topology), topology.cores]
    if not spread:
        on = {number: cpus & free for number, cpus in topology.nodes.items()}
        if all(len(cpus) < count for cpus in on.values()):
            listed = [f"{len(cpus)} on node {number}" for number, cpus in on.items() if cpus]
            are = " and ".join([", ".join(listed[:-1]), listed[-1]] if listed[1:] else listed)
            most = "`spread` would take more than one node"
            if sum(sorted(map(len, on.values()))[-2:]) >= count:
                most = "`spread` would take both" if len(listed) == 2 else "`spread` would take two of them"
            raise NoRoomError(f"{are} are free{where}; {most}")
        fits = [cpus for cpus in on.values() if len(cpus) >= count]
        free, levels = min(fits, key=lambda cpus: _order(topology, cpus, near)), levels[2:]
    return _take(topology, levels, free, count, near)


def _kinds(topology: Topology) -> list[Set]:
    """Return the CPUs of one core type within each cache: a set should not mix fast cores with slow ones."""
    return [cache & kind for cache in topology.caches for kind in topology.kinds.values() if cache & kind]


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
        left, anchor = count - len(taken), near | taken
        nearest = [part for part in parts if part[0] & anchor] or parts
        if fits := [part for part in nearest if len(part[1]) >= left]:
            best = min(fits, key=lambda part: _order(topology, part[1], anchor))
        else:
            best = min(nearest, key=lambda part: (topology.distance(part[1], anchor), -len(part[1]), min(part[1])))
        parts.remove(best)
        taken |= _take(topology, levels[1:], best[1], min(left, len(best[1])), anchor)
    return taken
