"""Writes the difference between the CPUs that containers have and those that they should have.

Others first, and of them first those that only lose some: so no CPU is given before its holder has lost it.
"""

from __future__ import annotations

from nri.cgroups import CgroupError, GoneError, Systemd, find
from nri.cgroups.resolve import Place
from nri.types.gojson import shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.cgroups import Cgroup
    from nri.errors import NRIError
    from nri.plugins.konfine.record import Entry
    from nri.plugins.konfine.seen import Seen
    from nri.plugins.konfine.wanted import Wanted

    Set = frozenset[int]


class Written:
    """The cgroups that one request writes.

    :param tells: the answer to this request tells the runtime the CPUs, so each entry keeps them.
    :ivar systemd: gets the CPUs of the units of other containers.
    :ivar moved: the keys of the other containers that have got other CPUs.
    """

    def __init__(self, wanted: Wanted, seen: Seen, run: str, *, tells: bool) -> None:
        self._wanted = wanted
        self._seen = seen
        self._tells = tells
        self._lists = wanted.record.lists
        self.systemd = Systemd(run)
        self.moved: set[str] = set()

    def move(self) -> bool:
        """Give all other containers their CPUs; one that the conf leaves none keeps what it has.

        :returns: whether one keeps CPUs that the request's container or its pool was to get: other CPUs may do.
        """
        wanted = self._wanted
        plan, without = wanted.plan()
        # The file says what is begun, so another request finishes it if this one is killed.
        wanted.record.save()
        taken = wanted.taken()
        has = {}
        for key, cpus in self._seen.sets.items():
            has[key] = cpus or wanted.topology.online
        is_in_the_way = False
        for key in sorted(plan, key=lambda key: not plan[key] <= has[key]):
            error = self._give_or_why_not(key, plan[key])
            lost = (has[key] - plan[key]) & taken
            if error is not None and lost:
                is_in_the_way |= wanted.hold(key, has[key], lost, self._keeps(key, has[key], error))
        for key, reason in without.items():
            if not has[key] & taken:
                continue
            pool = wanted.containers[key].get("pool")
            is_of_another_conf = pool is not None and not wanted.knows(pool)
            kept = has[key] if is_of_another_conf else frozenset()
            is_in_the_way |= wanted.hold(key, kept, kept, self._keeps(key, has[key], reason))
        wanted.record.save()
        return is_in_the_way

    def _keeps(self, key: str, cpus: Set, reason: NRIError) -> str:
        name = self._wanted.containers[key]["name"]
        return f"{name} keeps {self._lists.text(cpus)}: {shorten(str(reason), 300)}"

    def _give_or_why_not(self, key: str, cpus: Set) -> CgroupError | None:
        """Give another container its CPUs; return why the kernel refuses them, None if it does not."""
        try:
            self._give(key, cpus)
        except GoneError:
            self._wanted.record.end(key)
        except CgroupError as error:
            return error
        return None

    def _give(self, key: str, cpus: Set) -> None:
        entry = self._wanted.containers[key]
        has_others = self._seen.sets[key] != cpus
        if has_others or self._is_to_be_told(entry):
            cgroup = self._cgroup(entry)
            self._write(entry, cgroup, cpus)
        if not has_others:
            return
        self._seen.sets[key] = cpus
        self.moved.add(key)
        self.tell(entry, cpus)

    def settle(self, cgroup: Cgroup) -> bool:
        """Give the request's container its CPUs.

        :returns: whether it had others before.
        :raises CgroupError: the kernel refuses them.
        :raises NRIError: the conf leaves it none.
        """
        wanted = self._wanted
        own = wanted.containers[wanted.own]
        cpus = wanted.cpus_of(own)
        has_others = cgroup.cpus() != cpus
        if own["kind"] == "exclusive" and wanted.conf.exclusive.memory:
            cgroup.write("cpuset.mems", wanted.topology.memory_of(wanted.alone(own)))
        if has_others or self._is_to_be_told(own):
            self._write(own, cgroup, cpus)
        return has_others

    def _write(self, entry: Entry, cgroup: Cgroup, cpus: Set) -> None:
        """Write a container's CPUs, and note if systemd does not know them: it may undo them until it does."""
        cgroup.set_cpus(cpus)
        entry.pop("untold", None)
        if cgroup.untold:
            entry["untold"] = True

    def tell(self, entry: Entry, cpus: Set) -> None:
        """Add CPUs to those that the runtime gets from konfine: in later requests they are no list of the kubelet."""
        if self._tells:
            entry["told"] = [*entry.get("told", [])[-3:], self._lists.text(cpus)]

    def updates(self) -> list[Any]:
        """Return the updates by which a runtime learns of the CPUs of the containers that have got others."""
        containers = self._wanted.containers
        ids = [entry["id"] for entry in containers.values()]
        updates = []
        for key, entry in containers.items():
            if key not in self.moved or entry.get("sandbox"):
                continue
            if entry["id"] and ids.count(entry["id"]) == 1:
                resources = {"cpu": {"cpus": self._lists.text(self._wanted.cpus_of(entry))}}
                updates.append({"id": entry["id"], "resources": resources, "ignoreFailure": True})
        return updates

    def path_of(self, cgroup: Cgroup | None) -> str:
        """Return the path of the request's cgroup below the mount, "" before it exists.

        At ``setup`` there is none yet, unless a container of this cgroup runs: its CPUs stay its own.
        """
        if cgroup is not None:
            return cgroup.directory("cpuset").removeprefix(self._seen.mount.point)
        return self._wanted.before["cgroup"]

    def _cgroup(self, entry: Entry) -> Cgroup:
        """Return a container's cgroup where it was found: its path and its process may not lead there any more."""
        return find(
            "",
            noted=entry["cgroup"],
            mounts=self._seen.mounts,
            systemd=self.systemd,
            subgroup=entry.get("subgroup", ""),
        )

    def _is_to_be_told(self, entry: Entry) -> bool:
        """Return whether systemd has not been told the CPUs of a container's unit, and answers now."""
        if not entry.get("untold"):
            return False
        place = Place(self._seen.mount, entry["cgroup"])
        return self.systemd.tell(place.host_path, lambda _unit: True) is not None
