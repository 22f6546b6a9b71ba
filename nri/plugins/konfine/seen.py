"""Compares the record with the cpuset files of the machine, and corrects it.

A container whose cgroup is gone has ended. One that the record lacks (it was lost, damaged or of another boot, or
konfine was not run for the container) has the CPUs that its own file says (``.found``).
"""

from __future__ import annotations

from nri.cgroups import CgroupError, Mounts, find
from nri.cgroups.paths import expand
from nri.cgroups.topology import present_cpus
from nri.plugins.konfine import found
from nri.plugins.konfine.asked import name_of
from nri.plugins.konfine.wanted import NONE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.plugins.konfine.record import Entry
    from nri.plugins.konfine.wanted import Wanted
    from nri.types.v1 import Request

    Set = frozenset[int]


class Seen:
    """The cpuset files of the containers.

    :ivar sets: the CPUs of each container that has a cgroup, as its file says, by its key.
    :ivar parted: the names of the containers that have lost CPUs which another one has alone, too.
    :ivar rebuilt: why the record was made again; "" if it was not, or nothing was found.
    """

    def __init__(self, wanted: Wanted, mountinfo: str) -> None:
        self._wanted = wanted
        self._record = wanted.record
        self.mounts = Mounts.read(mountinfo)
        mount = self.mounts.serving("cpuset")
        if mount is None:
            raise CgroupError("no cgroup hierarchy with the controller cpuset is mounted, v1 or v2")
        self.mount = mount
        self.sets: dict[str, Set] = {}
        self.parted: list[str] = []
        self.rebuilt = ""

    def survey(self, request: Request) -> None:
        """Compare the record with the cgroups, and make it again if it lacks containers."""
        record = self._record
        for key, entry in record.running().items():
            self._look(key, entry)
        self._part()
        record.expire()
        if not record.rebuilt:
            return
        reason = record.rebuilt
        # The record is complete from now on, whatever this request is about.
        record.rebuilt = ""
        self.adopt(is_whole=True)
        own = self._path(request)
        if any(entry["cgroup"] != own for entry in record.containers.values()):
            self.rebuilt = reason

    def _look(self, key: str, entry: Entry) -> None:
        """Note what a container's file says, or that it has ended."""
        own = self._record.lists.of_file(f"{self.mount.point}{entry['cgroup']}/{found.KNOB}")
        if own is None:
            self._record.end(key)
            return
        self.sets[key] = own
        if not entry["id"] and entry["kind"] == "exclusive" and not entry.get("plus"):
            self._follow(key, entry, own)

    def _follow(self, key: str, entry: Entry, own: Set) -> None:
        """Have an entry say what its cgroup has: it was found there, and konfine is not run for the container."""
        if own == self._wanted.alone(entry):
            return
        if own and not own >= self._wanted.usable:
            entry["cpus"] = self._record.lists.text(own)
        else:
            del self._record.containers[key]

    def _part(self) -> None:
        """Take CPUs that two containers have alone from the later one: its own next request gives it others."""
        taken: Set = frozenset()
        for entry in self._record.running().values():
            own = self._wanted.alone(entry)
            left = own - taken
            taken |= own
            if left != own:
                entry["cpus"] = self._record.lists.text(left)
                self.parted.append(entry["name"])
            if own and not left:
                entry["kind"] = "shared"

    def adopt(self, *, is_whole: bool) -> None:
        """Add the containers of the machine that the record does not have.

        :param is_whole: also those that share CPUs; else konfine is not to run for them, and leaves them alone.
        """
        containers = self._record.containers
        wanted = self._wanted
        known = {entry["cgroup"] for entry in self._record.running().values()}
        listed = found.sets(self.mount.point, known, self._record.lists)
        shared = []
        for key, entry in containers.items():
            if entry["kind"] == "shared" and key in self.sets:
                shared.append(self.sets[key])
        nobodys = wanted.conf.system_reserved.union(*wanted.fixed.values())
        present = present_cpus(wanted.conf.sys) - wanted.topology.isolated - nobodys
        added = found.entries(listed, shared, wanted.usable - nobodys, present, nobodys)
        for path, entry in added.items():
            if is_whole or entry["kind"] == "exclusive":
                containers[path] = entry
                self.sets[path] = listed[path]

    def find_own(self, request: Request) -> None:
        """Find the entry of the request's container.

        Its key is its cgroup, since two runtimes may use the same id.
        """
        wanted = self._wanted
        wanted.own = self._key(request)
        wanted.path = self._path(request)
        before = wanted.containers.get(wanted.own) or self._of_cgroup(wanted.path)
        if "pod" not in before:
            # It was found by its cgroup alone.
            before["id"] = request.id
            before["pod"] = request.sandbox_id
            before["name"] = name_of(request)
        wanted.before = before

    def _of_cgroup(self, path: str) -> Entry:
        for entry in self._record.running().values():
            if entry["cgroup"] == path:
                return entry
        return NONE

    def _key(self, request: Request) -> str:
        if request.cgroups_path:
            return expand(request.cgroups_path)
        containers = self._record.containers
        of_id = [key for key, entry in containers.items() if entry["id"] == request.id]
        if len(of_id) != 1:
            return request.id
        return of_id[0]

    def _path(self, request: Request) -> str:
        """Return the path below the mount of the request's container; "" if it is not known."""
        if not request.cgroups_path:
            return ""
        return self.mount.below_host(expand(request.cgroups_path))

    def parents(self, request: Request) -> Set:
        """Return the CPUs that the cgroup above a container may use, whose own cgroup does not exist yet."""
        try:
            # Without a path the runtime chooses one.
            above = expand(request.cgroups_path).rpartition("/")[0]
            return find(above or "/", mounts=self.mounts).effective_cpus()
        except CgroupError:
            return self._wanted.topology.online
