"""Handles one request of konfine where CPUs are given out.

Each request puts what its container asks for (``.asked``) into the record, computes what each container should have
(``.wanted``), compares that with what the kernel shows (``.seen``), and writes the difference (``.written``).
"""

from __future__ import annotations

import sys

from nri.cgroups import CgroupError, GoneError, parse_cpus, render_cpus
from nri.errors import NRIError, escape
from nri.plugins import shared
from nri.plugins.konfine import allowed, narrow, note_absent, requested_list
from nri.plugins.konfine.asked import Wish, is_first, name_of, pool_of, requested, wish_of
from nri.plugins.konfine.record import Record, now
from nri.plugins.konfine.seen import Seen
from nri.plugins.konfine.wanted import NONE, Wanted
from nri.plugins.konfine.written import Written
from nri.skel import Refusal
from nri.skel.scopes import SUBGROUP
from nri.types.gojson import shorten
from nri.types.v1 import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from nri.cgroups import Cgroup
    from nri.plugins.konfine import KonfineConf
    from nri.plugins.konfine.record import Entry
    from nri.types.v1 import Request

    T = TypeVar("T")


def give_out(request: Request, conf: KonfineConf, metadata: dict[str, str]) -> dict[str, Any]:
    """Give a container its CPUs, and all others theirs; return the changes that the result asks for.

    For a release ``had``: the CPUs that it has of konfine, and the lists that the runtime was told.
    """
    with Record(conf.run, conf.sys) as record:
        giving = Giving(request, conf, record, metadata)
        if request.state == State.DELETE:
            return giving.let_go()
        return giving.give()


def forget(request: Request, conf: KonfineConf) -> None:
    """Take a container out of the record: its conf gives out no CPUs any more."""
    with Record(conf.run, conf.sys) as record:
        giving = Giving(request, conf, record, {})
        record.containers.pop(giving.wanted.own, None)
        record.save()


class Giving:
    """One request, while it has the record.

    :ivar wanted: what each container should have.
    """

    def __init__(
        self, request: Request, conf: KonfineConf, record: Record, metadata: dict[str, str]
    ) -> None:
        self._request = request
        self._conf = conf
        self._record = record
        self._metadata = metadata
        self._is_running = request.state == State.UPDATE or request.late
        self.wanted = Wanted(record, conf)
        fixed = {name: render_cpus(cpus) for name, cpus in self.wanted.fixed.items()}
        record.conf = {"reserved": render_cpus(conf.system_reserved), "fixed": fixed}
        self._seen = Seen(self.wanted, conf.mountinfo)
        is_setup = request.state == State.SETUP
        self._written = Written(self.wanted, self._seen, conf.run, tells=is_setup)
        self._seen.survey(request)
        self._seen.find_own(request)
        self._report()

    def _report(self) -> None:
        """Say what the comparison with the kernel has found."""
        seen = self._seen
        if seen.rebuilt:
            said = f"the record of CPUs was made again of the cgroups: {seen.rebuilt}"
            sys.stderr.write(f"konfine: {said}\n")
            self._metadata["rebuilt"] = seen.rebuilt
        for name in seen.parted:
            lost = "had CPUs that another container has alone, and has lost them"
            sys.stderr.write(f"konfine: {escape(name)} {lost}\n")
        note_absent(self._conf, self._record.topology.online, self._metadata)

    def let_go(self) -> dict[str, Any]:
        """Free the CPUs of a container that ends, or that konfine is not run for any more."""
        had: dict[str, Any] = {}
        wanted = self.wanted
        before = wanted.before
        if self._request.release:
            if before is not NONE:
                had = self._had(before)
            self._record.containers.pop(wanted.own, None)
        else:
            self._record.end(wanted.own)
            self._record.expire()
        wanted.fit_pools(wanted.usable)
        self._move()
        return had

    def _had(self, before: Entry) -> dict[str, Any]:
        try:
            return {"had": (self.wanted.cpus_of(before), before.get("told", []))}
        except NRIError:
            return {}  # the conf leaves it none: it has what its metadata say

    def give(self) -> dict[str, Any]:
        """Give a container what it asks for, after the others have lost it; return the changes.

        :raises Refusal: it may not have what it asks for. One that runs already has what it had, or shares CPUs.
        """
        request = self._request
        wanted = self.wanted
        metadata = self._metadata
        if request.state == State.SETUP:
            cgroup = None
            within = self._seen.parents(request)
        else:
            cgroup = shared.cgroup(request, self._conf)
            within = cgroup.parent_cpus()
        entry = self._entry(cgroup, within)
        wish, asked_wrongly = self._wish(entry)
        if wish.count or entry["kind"] == "pool":
            self._seen.adopt(is_whole=False)
        refusal = self._enter(entry, wish, within) or asked_wrongly
        if refusal is not None and not self._is_running:
            raise refusal
        entry = self._record.containers[wanted.own]
        self._written.tell(entry, wanted.cpus_of(entry))
        had_others = True
        if cgroup is not None:
            had_others = self._written.settle(cgroup)
            self._follow(entry, cgroup)
        self._record.save()
        if refusal is not None:
            raise refusal
        self._describe(entry)
        if cgroup is None:
            return self._changes(entry)
        if not had_others:
            metadata["skipped"] = "it has these CPUs already"
        shared.note_untold(cgroup, metadata)
        return {}

    def _entry(self, cgroup: Cgroup | None, parents: frozenset[int]) -> Entry:
        """Return the container's entry, as that of one that shares CPUs."""
        request = self._request
        before = self.wanted.before
        if requested_list(request) in before.get("told", ()):
            within = before["within"]  # the CPUs that the runtime has of us
        else:
            isolated = self._record.topology.isolated
            cpus = allowed(request, self._conf, parents, isolated, self._metadata)
            within = render_cpus(cpus)
        entry: Entry = {
            "id": request.id,
            "pod": request.sandbox_id,
            "name": name_of(request),
            "cgroup": self._written.path_of(cgroup),
            "kind": "shared",
            "cpus": "",
            "within": within,
        }
        for key in ("told", "untold", "quota"):
            if key in before:
                entry[key] = before[key]
        if request.is_sandbox:
            entry["sandbox"] = True
        if subgroup := request.annotations.get(SUBGROUP, ""):
            entry["subgroup"] = subgroup[:255]
        if cgroup is None:
            entry["since"] = now()
        return entry

    def _wish(self, entry: Entry) -> tuple[Wish, Refusal | None]:
        """Return what the container asks for alone; one that asks for nothing may be in a pool, as its entry says.

        :returns: also the refusal of one that runs already and asks wrongly: it shares CPUs as without asking.
        :raises Refusal: it asks wrongly.
        """
        refusal = None
        try:
            wish = wish_of(self._request, self._conf, self._metadata)
        except Refusal as error:
            if not self._is_running:
                raise
            refusal = error
            wish = self._what_it_has()
        pool = "" if wish.count else pool_of(self._request, self._conf, self._metadata)
        if pool:
            entry["kind"] = "pool"
            entry["pool"] = pool
            entry["milli"] = requested(self._request)
        return wish, refusal

    def _what_it_has(self) -> Wish:
        """Return the wish of a container for the CPUs that it has."""
        before = self.wanted.before
        return Wish("", len(self.wanted.alone(before)), before.get("plus", False))

    def _enter(self, entry: Entry, wish: Wish, within: frozenset[int]) -> Refusal | None:
        """Put the container into the record, and take its CPUs from the others; return its refusal."""
        first = is_first(self._request, wish)
        self.wanted.begin()
        while True:
            refusal = self.wanted.enter(
                entry, wish, within, is_first=first, is_running=self._is_running
            )
            is_in_the_way = self._move()
            if not is_in_the_way:
                return refusal
            # Another container keeps CPUs of the set: take others.

    def _move(self) -> bool:
        """Give all other containers what the record says; return whether one keeps CPUs of the request's own set."""
        written = self._written
        metadata = self._metadata
        is_in_the_way = written.move()
        if written.moved:
            metadata["moved"] = f"{len(written.moved)} other containers"
        if reasons := self.wanted.reasons.values():
            metadata["held"] = shorten(escape("; ".join(reasons)), 500)
        shared.note_untold(written.systemd, metadata)
        return is_in_the_way

    def _follow(self, entry: Entry, cgroup: Cgroup) -> None:
        """Lift the quota of a container that has CPUs alone; give one that had some its quota and memory back."""
        if entry["kind"] == "exclusive":
            _lift_quota(cgroup, entry, self._metadata)
            return
        if self.wanted.before["kind"] == "exclusive":
            _free_memory(cgroup, self._conf, self._metadata)
        _give_quota_back(cgroup, self._request, entry.pop("quota", ""), self._metadata)

    def _describe(self, entry: Entry) -> None:
        """Add what a container has to the metadata."""
        metadata = self._metadata
        metadata["cpus"] = render_cpus(self.wanted.cpus_of(entry))
        if entry["kind"] == "exclusive":
            count = str(len(self.wanted.alone(entry)))
            metadata["exclusive"] = f"{count}+shared" if entry.get("plus") else count
            if "counted" in entry:
                metadata["counted"] = entry["counted"]
        elif entry["kind"] == "pool":
            metadata["pool"] = shorten(entry["pool"])

    def _changes(self, entry: Entry) -> dict[str, Any]:
        """Return the changes that tell a runtime the CPUs of a container that it is about to create."""
        cpu = {"cpus": self._metadata["cpus"]}
        if entry["kind"] == "exclusive" and self._conf.exclusive.memory:
            cpu["mems"] = render_cpus(self._record.topology.memory_of(self.wanted.alone(entry)))
        return {
            "adjust": {"linux": {"resources": {"cpu": cpu}}},
            "updates": self._written.updates() or None,
        }


def _lift_quota(cgroup: Cgroup, entry: Entry, metadata: dict[str, str]) -> None:
    """Remove the quota of a container that has CPUs alone, as the kubelet does for its own exclusive ones.

    A quota throttles it on CPUs that no other may use (kubernetes/kubernetes#70585).
    """
    quota = _attempt(cgroup.clear_cpu_quota, "cpu.max", metadata)
    if quota is None:
        return
    if quota.quota_us is not None:
        entry["quota"] = str(quota)
    if "quota" in entry:
        metadata["quota"] = entry["quota"]


def _give_quota_back(
    cgroup: Cgroup, request: Request, noted: str, metadata: dict[str, str]
) -> None:
    """Give a container that has no CPUs alone any more its quota.

    :param noted: the quota that was lifted, such as ``50000/100000``; "" for none.
    """
    if noted:
        _attempt(
            lambda: shared.restore_quota(cgroup, shared.quota_to_restore(request, noted)),
            "cpu.max",
            metadata,
        )


def _free_memory(cgroup: Cgroup, conf: KonfineConf, metadata: dict[str, str]) -> None:
    """Let a container that had CPUs alone use the memory of all NUMA nodes again."""
    above = cgroup.parent()
    if conf.exclusive.memory and above is not None:
        knob = "cpuset.mems"
        _attempt(lambda: cgroup.write(knob, above.read(f"{knob}.effective")), knob, metadata)


def _attempt(action: Callable[[], T], knob: str, metadata: dict[str, str]) -> T | None:
    """Do what a container can do without; if the kernel refuses it, the metadata say so.

    :raises GoneError: the container is gone.
    """
    try:
        return action()
    except GoneError:
        raise
    except CgroupError as error:
        shared.ignore(metadata, knob, str(error))
        return None


def give_back(request: Request, conf: KonfineConf, metadata: dict[str, str]) -> None:
    """Give a container that runs on its parent's CPUs, unless it has others than konfine gave it."""
    before = shared.previous(request)
    given = parse_cpus(before["cpus"]) if "cpus" in before else None
    told: list[str] = []
    if conf.gives_out:
        given, told = give_out(request, conf, metadata).get("had", (given, told))
    cgroup = shared.cgroup(request, conf)
    own = cgroup.cpus()
    if own and given not in (None, own):
        metadata["skipped"] = (
            f"it has other CPUs than {shorten(render_cpus(given))}, which konfine gave it"
        )
        return
    cpus = cgroup.parent_cpus()
    listed = requested_list(request)
    if listed is not None and listed not in told:
        cpus = narrow(cpus, "spec.resources.cpu.cpus", listed, metadata)
    cgroup.confine(cpus)
    if "exclusive" in before:
        _free_memory(cgroup, conf, metadata)
        _give_quota_back(cgroup, request, before.get("quota", ""), metadata)
    shared.note_untold(cgroup, metadata)
    metadata["restored"] = render_cpus(cpus)
