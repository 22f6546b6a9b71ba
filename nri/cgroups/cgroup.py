"""A container's cgroup, of either version and any driver: its CPU quota, its CPUs, its parent.

With the systemd driver crun may put the processes into a child ``container`` of the scope. The two count as one:
reads return what limits the processes, and writes go to both. Other children belong to the container and are not
touched. The root cgroup is never written.

If the cgroup is a unit of systemd's, systemd is told before its files are written, and they are read afterwards: see
:mod:`nri.cgroups.units`.
"""

from __future__ import annotations

import os
import time

from . import cpuset, knobs, paths, quota, units
from .cpulist import render
from .errors import CgroupError, CpuListError
from .mounts import Mounts
from .resolve import SUBGROUP, Place, Resolver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from .quota import Quota

    Answer = TypeVar("Answer")

APPEARS = 1.0
"""Seconds that systemd has to enable a controller, so that its knobs appear, after it was told of AllowedCPUs."""

_CONTROLLERS = ("cpu", "cpuset")


def find(
    cgroups_path: str,
    pid: int = 0,
    container_id: str = "",
    *,
    mounts: Mounts | None = None,
    proc: str = "/proc",
    systemd: units.Systemd | None = None,
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
    :param systemd: who is told of changes; by default this node's systemd, but nobody if there are other *mounts*.
    :raises CgroupPathError: the path cannot be a cgroupsPath.
    :raises CgroupError: the mounts cannot be read.
    """
    if mounts is None:
        mounts, systemd = Mounts.read(), systemd or units.Systemd()
    return Cgroup(Resolver(cgroups_path, pid, container_id, mounts, proc), 0, systemd)


class Cgroup:
    """A cgroup below the root; :func:`find` makes it.

    All methods raise CgroupError, and GoneError when the cgroup no longer exists.
    """

    __slots__ = ("_resolver", "_systemd", "_up")

    def __init__(self, resolver: Resolver, up: int, systemd: units.Systemd | None = None) -> None:
        """Take the cgroup *up* levels above the one that *resolver* finds."""
        self._resolver, self._up, self._systemd = resolver, up, systemd

    def directory(self, controller: str) -> str:
        """Return the directory in the hierarchy that serves *controller*, ``cpu`` or ``cpuset``."""
        return self._place(controller).directory

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
        return "" if self._systemd is None else self._systemd.untold

    def cpu_quota(self) -> Quota:
        """Return the CFS quota of this cgroup. The quotas of its ancestors, which apply as well, are not read."""
        version, levels = self._levels("cpu")
        return _tightest([quota.read(level, version) for level in levels])

    def clear_cpu_quota(self) -> Quota:
        """Remove the CFS quota and return the previous one. Without a quota nothing is written.

        Call it on a pod before its container: until then the pod's quota limits the container anyway.
        """
        version, levels = self._levels("cpu")
        before = [quota.read(level, version) for level in levels]
        as_unit = self._tell("cpu", units.Unit.clear_quota)
        done = ""
        for level, was in zip(levels, before, strict=True):  # the parent first: a child's quota may not exceed it
            if was.quota_us is not None:
                _after(done, quota.clear, level, version)
                done = f"the quota of {level} was cleared before that, it was {was}"
        if as_unit is not None:
            for level in levels:
                if not quota.is_clear(level, version):
                    raise CgroupError(f"{level} has a quota again right after it was cleared: expected none")
            before.append(as_unit)
        return _tightest(before)

    def cpus(self) -> frozenset[int]:
        """Return the CPUs that this cgroup was given. If empty, it has its parent's in v2, and no CPU in v1."""
        return self._innermost(cpuset.own)

    def effective_cpus(self) -> frozenset[int]:
        """Return the CPUs that its processes may use; without any, those of the nearest ancestor that has some."""
        return self._innermost(cpuset.effective) or self.parent_cpus()

    def parent_cpus(self) -> frozenset[int]:
        """Return the CPUs that the parent cgroup may use; without any, those of the nearest ancestor that has some.

        The root cgroup has the machine's CPUs.
        """
        place = self._place("cpuset")
        path = place.path
        while path != "/":
            path = os.path.dirname(path)
            if cpus := cpuset.effective((place.mount.point + path).rstrip("/"), place.mount.version):
                return cpus
        raise CgroupError(f"the cgroups above {place.directory} have no CPUs: expected some in {cpuset.KNOB}")

    def confine(self, cpus: frozenset[int]) -> None:
        """Confine the cgroup to these CPUs, unless it is already.

        On v2 a cgroup without CPUs of its own has its parent's; it is given none where these are the same.

        :raises CpuListError: there are no CPUs in the set.
        """
        own = self.cpus()
        # The effective ones count as well: crun's child may have these CPUs, and the scope above it fewer.
        is_confined = own in (cpus, frozenset()) and self.effective_cpus() == cpus
        if is_confined and own:
            is_confined = self._tell("cpuset", units.Unit.cpus) in (None, cpus)
        if not is_confined:
            self.set_cpus(cpus)

    def set_cpus(self, cpus: frozenset[int]) -> None:
        """Confine the cgroup to these CPUs.

        In v1 the CPUs of a child must always be a subset of its parent's. So for a scope with crun's child the scope
        is widened to the old and new CPUs, the child is set, and the scope is narrowed; unnecessary steps are
        skipped. If a step fails, the scope keeps the old and new CPUs at most.

        :raises CpuListError: there are no CPUs in the set.
        """
        if not cpus:
            raise CpuListError("no CPUs to confine a cgroup to: expected at least one")
        told = self._tell("cpuset", lambda unit: unit.set_cpus(cpus))
        version, (scope, *children) = self._levels("cpuset")
        if told:
            _wait_for(f"{scope}/{cpuset.KNOB}")
        self._assign(version, scope, children, cpus)
        if told is not None and (now := cpuset.own(scope, version)) != cpus:
            raise CgroupError(f"{scope} has the CPUs {render(now)} right after it was given {render(cpus)}")

    def _assign(self, version: int, scope: str, children: list[str], cpus: frozenset[int]) -> None:
        if not children or (version == 2 and not cpuset.own(children[0], version)):  # a child in v2 may inherit
            cpuset.assign(scope, version, cpus)
            return
        old = cpuset.own(scope, version)
        wide = old | cpus
        done = ""
        if wide != old:
            cpuset.assign(scope, version, wide)
            done = f"{scope} was given {render(wide)} before that, it had {render(old) or 'none'}"
        _after(done, cpuset.assign, children[0], version, cpus)
        if wide != cpus:
            done = f"{children[0]} was given {render(cpus)} before that, and {scope} has {render(wide)}"
            _after(done, cpuset.assign, scope, version, cpus)

    def _place(self, controller: str) -> Place:
        if controller not in _CONTROLLERS:
            raise CgroupError(
                f"controller {controller!r} is not known here: expected one of {', '.join(_CONTROLLERS)}"
            )
        place = self._resolver.place(controller)
        path = place.path
        for _ in range(self._up):
            path = os.path.dirname(path)
        if path == "/":
            raise CgroupError(f"{place.directory} has no parent but the root cgroup, which is never touched")
        return Place(place.mount, path)

    def _tell(self, controller: str, change: Callable[[units.Unit], Answer]) -> Answer | None:
        """Ask or change the unit that this cgroup is; None if it is none, or if systemd cannot be told."""
        place = self._place(controller)
        if self._systemd is None or (controller == "cpuset" and place.mount.version == 1):  # it leaves those alone
            return None
        return self._systemd.tell(place.host_path, change)

    def _any_place(self) -> Place:
        return self._place(next(filter(self._resolver.mounts.serving, _CONTROLLERS), _CONTROLLERS[0]))

    def _levels(self, controller: str) -> tuple[int, list[str]]:
        """Return the hierarchy's version and the cgroup's directories, outer first: two if crun made a subgroup."""
        place = self._place(controller)
        version = place.mount.version
        inner = f"{place.directory}/{SUBGROUP}"
        knob = quota.KNOB[version] if controller == "cpu" else cpuset.KNOB
        # A child without the knob has no limit: in v2 the scope's cgroup.subtree_control may lack the controller.
        if place.path.endswith(".scope") and not os.path.islink(inner) and knobs.exists(f"{inner}/{knob}"):
            return version, [place.directory, inner]
        return version, [place.directory]

    def _innermost(self, read: Callable[[str, int], frozenset[int]]) -> frozenset[int]:
        """Return the CPUs of the inner level (in v1 a subset of the outer one's), or else of the outer one."""
        version, levels = self._levels("cpuset")
        return next((cpus for level in reversed(levels) if (cpus := read(level, version))), frozenset())


def _after(done: str, change: Callable[..., None], *arguments: object) -> None:
    """Make a change; add to its CgroupError what was *done* before it, "" for nothing."""
    try:
        change(*arguments)
    except CgroupError as error:
        if not done:
            raise
        raise type(error)(f"{error}; {done}") from error


def _wait_for(knob: str) -> None:
    """Wait until systemd has enabled the knob's controller, at most :data:`APPEARS` seconds."""
    until = time.monotonic() + APPEARS
    while not knobs.exists(knob) and time.monotonic() < until:
        time.sleep(0.002)


def _tightest(quotas: list[Quota]) -> Quota:
    tightest = quotas[0]
    for each in quotas[1:]:
        if each.is_tighter_than(tightest):
            tightest = each
    return tightest
