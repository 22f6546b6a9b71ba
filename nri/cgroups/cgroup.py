"""A container's cgroup, of either version and any driver: its CPU quota, its CPUs, its parent, and any other knob.

With the systemd driver crun may put the processes into a child ``container`` of the scope. The two count as one:
reads return what limits the processes, and writes go to both. Other children belong to the container; only their
cpusets are narrowed where v1 demands it. The root cgroup is never written.

If the cgroup is a unit of systemd's, its property is set before its files are written, and these are read again: see
``nri.cgroups.units``.
"""

from __future__ import annotations

import os

from . import cpuset, knob, knobs, paths, quota, units
from .errors import CgroupError, CpuListError, KnobValueError, quoted
from .mounts import Mounts
from .resolve import Place, Resolver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .quota import Quota

_HIERARCHIES = {
    "cpu": "cpu",
    "cpuset": "cpuset",
    "memory": "memory",
    "io": "blkio",
    "pids": "pids",
    "hugetlb": "hugetlb",
}
"""The controllers by their names in v2, with those in v1, by which a hierarchy is found."""

_NO_FILE = (
    "the kernel lacks it, its controller is not enabled here, or the other version of "
    "cgroups has it"
)
_V2 = "v2"  # no controller has this name: the hierarchy of v2, whatever else is mounted


def find(  # noqa: PLR0913 - optional, by name
    cgroups_path: str,
    pid: int = 0,
    container_id: str = "",
    *,
    mounts: Mounts | None = None,
    proc: str = "/proc",
    systemd: units.Systemd | None = None,
    subgroup: str = "",
    noted: str = "",
) -> Cgroup:
    """Return the cgroup of a container.

    The path is checked at once; the directories are looked up per controller, when a method needs them. An absolute
    path, or one in systemd's style, names the directory. With a relative path, one that is not below the mount, or
    none, the cgroup that *pid* is in counts as well, if it is named after *container_id* (``ID`` or ``PREFIX-ID``,
    either with ``.scope``; never without an id) and is neither this process's own nor the host's. If there is none,
    the cgroup's methods raise GoneError.

    :param cgroups_path: the OCI cgroupsPath; "" when unknown.
    :param pid: the container's process; 0 when unknown.
    :param mounts: the cgroup mounts; by default those of this process.
    :param proc: where proc is mounted.
    :param systemd: synchronized with changes; by default this node's systemd, but none if there are other *mounts*.
    :param subgroup: the name of crun's child of a systemd scope, the annotation ``run.oci.systemd.subgroup``; by
        default, and if there is no such child, ``container``.
    :param noted: in place of *cgroups_path* and *pid*: where it was found before, as a path below the mount of its
        hierarchy.
    :raises CgroupPathError: the path cannot be a cgroupsPath.
    :raises CgroupError: the mounts cannot be read.
    """
    nodes: units.Systemd = units.NoSystemd()
    if mounts is None:
        mounts = Mounts.read()
        nodes = units.Systemd()
    resolver = Resolver(cgroups_path, pid, container_id, mounts, proc, subgroup, noted)
    return Cgroup(resolver, 0, systemd or nodes)


class Cgroup:
    """A cgroup below the root; ``find`` makes it.

    All methods raise CgroupError, and GoneError when the cgroup no longer exists.
    """

    __slots__ = ("_resolver", "_systemd", "_up")

    def __init__(self, resolver: Resolver, up: int, systemd: units.Systemd) -> None:
        """Take the cgroup *up* levels above the one that *resolver* finds."""
        self._resolver = resolver
        self._up = up
        self._systemd = systemd

    def directory(self, controller: str) -> str:
        """Return the directory for a controller: cpu, cpuset, memory, io, pids or hugetlb."""
        if controller not in _HIERARCHIES:
            raise CgroupError(
                f"controller {controller!r} is not known here: expected one of "
                f"{', '.join(_HIERARCHIES)}"
            )
        return self._place(_HIERARCHIES[controller]).directory

    def parent(self) -> Cgroup | None:
        """Return the parent cgroup; None when that is the root of the hierarchy or of the mount."""
        if os.path.dirname(self._any_place().path) == "/":
            return None
        return Cgroup(self._resolver, self._up + 1, self._systemd)

    def is_pod(self) -> bool:
        """Return whether, by its name, the kubelet made this cgroup for a pod."""
        return paths.is_pod(self._any_place().host_path)

    @property
    def untold(self) -> str:
        """Why systemd could not be told of a change of this cgroup or its parent; "" if it could, or need not be."""
        return self._systemd.untold

    def read(self, name: str) -> Any:
        """Return the value of a knob, by its name in cgroup v2, such as ``memory.high``; v1's are converted.

        docs/cgroups.md has the knobs and the types of their values. None is no limit; a cpuset that was given
        nothing is an empty frozenset. Where crun made a child, it is what limits the processes.

        :raises KnobValueError: no knob has this name.
        :raises CgroupError: the cgroup does not have the knob, or it holds something else than expected.
        """
        from . import knob_table

        return self._read(knob_table.find(name))

    def write(self, name: str, value: Any) -> Any:
        """Write a knob, by its name in cgroup v2, such as ``memory.high``; return the previous value.

        Writing the previous value restores it. Nothing is written if the value is already there. If the cgroup is a
        unit of systemd's that has a property for the knob, the property is set first.

        :returns: what ``read`` returned before; None if systemd has only now enabled the controller, and the
            cgroup had no such knob.
        :raises KnobValueError: no knob has this name, or the value is of another type or out of the kernel's bounds.
            Nothing was written.
        :raises CgroupError: the cgroup does not have the knob, or the kernel refused the value. The message names
            the file, the value, the kernel's answer, and what was written before that.
        """
        from . import knob_table

        return self._write(knob_table.find(name), value)

    def read_text(self, file: str) -> str:
        """Return the text of any file of the cgroup, such as ``memory.stat``, without blanks around it.

        The file has its own name, which may differ between v1 and v2; of a scope with crun's child it is the
        scope's.

        :raises CgroupError: the cgroup does not have the file, or it cannot be read.
        """
        return knobs.read(self._any_file(file), _NO_FILE)

    def write_text(self, file: str, text: str) -> None:
        """Write a text to any file of the cgroup, as ``read_text`` names it, by a single write(2).

        Nothing is checked or converted, and systemd is not told: ``write`` does that for the knobs it knows.

        :raises KnobValueError: the text is not of ASCII. Nothing was written.
        :raises CgroupError: the cgroup does not have the file, or the kernel refused the text.
        """
        if not text.isascii():
            raise KnobValueError(f"{file}: found {quoted(text)}, expected ASCII")
        knobs.write(self._any_file(file), text, _NO_FILE)

    def cpu_quota(self) -> Quota:
        """Return the CFS quota of this cgroup. The quotas of its ancestors, which apply as well, are not read."""
        return self._read(quota.CPU_MAX)  # type: ignore[no-any-return]

    def clear_cpu_quota(self) -> Quota:
        """Remove the CFS quota and return the previous one. Without a quota nothing is written.

        Call it on a pod before its container: until then the pod's quota limits the container anyway.
        """
        return self._write(quota.CPU_MAX, quota.CLEAR) or quota.CLEAR

    def least_cpu_quota(self, period_us: int) -> int:
        """Return the least CFS quota of such a period that this cgroup can be given, in microseconds; 0 for any.

        In v1 it is the highest one of the cgroups right below it.
        """
        place = self._place("cpu")
        if place.mount.version == 2:
            return 0
        least = 0
        for child in knobs.children(place.directory):
            try:
                own = quota.CPU_MAX.files[1].read(child)
            except CgroupError:
                continue  # it has ended meanwhile
            if own.quota_us is not None:
                least = max(least, -(-own.quota_us * period_us // own.period_us))
        return least

    def cpus(self) -> frozenset[int]:
        """Return the CPUs that this cgroup was given. If empty, it has its parent's in v2, and no CPU in v1."""
        return self._read(cpuset.CPUS)  # type: ignore[no-any-return]

    def effective_cpus(self) -> frozenset[int]:
        """Return the CPUs that its processes may use; without any, those of the nearest ancestor that has some."""
        place = self._place("cpuset")
        version = place.mount.version
        # In v1 those of the inner level are a subset of the outer one's.
        sets = [cpuset.effective(level, version) for level in reversed(place.levels(cpuset.KNOB))]
        return next(filter(None, sets), frozenset()) or self.parent_cpus()

    def parent_cpus(self) -> frozenset[int]:
        """Return the CPUs that the parent cgroup may use; without any, those of the nearest ancestor that has some.

        The root cgroup has the machine's CPUs.
        """
        place = self._place("cpuset")
        path = place.path
        while path != "/":
            path = os.path.dirname(path)
            if cpus := cpuset.effective(
                (place.mount.point + path).rstrip("/"), place.mount.version
            ):
                return cpus
        raise CgroupError(
            f"the cgroups above {place.directory} have no CPUs: expected some in {cpuset.KNOB}"
        )

    def confine(self, cpus: frozenset[int]) -> bool:
        """Confine the cgroup to these CPUs, unless it is already; return whether it was not.

        On v2 a cgroup without CPUs of its own has its parent's; it is given none where these are the same.

        :raises CpuListError: there are no CPUs in the set.
        """
        if not self.cpus() and self.effective_cpus() == cpus:
            return False
        return self.set_cpus(cpus) != cpus

    def set_cpus(self, cpus: frozenset[int]) -> frozenset[int]:
        """Confine the cgroup to these CPUs; return those that it was given before.

        If a step fails for a scope with crun's child, the scope keeps the old and new CPUs at most.

        :raises CpuListError: there are no CPUs in the set.
        """
        if not cpus:
            raise CpuListError("no CPUs to confine a cgroup to: expected at least one")
        return self._write(cpuset.CPUS, cpus)  # type: ignore[no-any-return]

    def _read(self, which: knob.Knob) -> Any:
        return knob.read(which, self._place(_HIERARCHIES[which.controller]))

    def _write(self, which: knob.Knob, value: Any) -> Any:
        knob.check(which, value)
        place = self._place(_HIERARCHIES[which.controller])

        def tell(change: Callable[[units.Unit], bool]) -> bool | None:
            return self._systemd.tell(place.host_path, change)

        return knob.write(which, place, value, tell)

    def _place(self, hierarchy: str) -> Place:
        """Return this cgroup in the hierarchy of a controller, by its name in v1."""
        place = self._resolver.place(hierarchy)
        path = place.path.rsplit("/", self._up)[0]
        if path == "":
            raise CgroupError(
                f"{place.directory} has no parent but the root cgroup, which is never touched"
            )
        return Place(place.mount, path, self._resolver.subgroups)

    def _any_file(self, file: str) -> str:
        """Return the path of a file, in the hierarchy that its name belongs to."""
        controller, _, rest = file.partition(".")
        if "" in (controller, rest) or not {"/", "\0"}.isdisjoint(file):
            raise KnobValueError(
                f"{quoted(file)} is no file of a cgroup: expected a name such as memory.stat"
            )
        if controller == "cgroup":
            return f"{self._any_place().directory}/{file}"
        # v1 has none, v2 beside it may.
        is_v2 = rest == "pressure" and self._resolver.mounts.v2 is not None
        hierarchy = _V2 if is_v2 else _HIERARCHIES.get(controller, controller)
        return f"{self._place(hierarchy).directory}/{file}"

    def _any_place(self) -> Place:
        return self._place(
            next(filter(self._resolver.mounts.serving, _HIERARCHIES.values()), "cpu")
        )
