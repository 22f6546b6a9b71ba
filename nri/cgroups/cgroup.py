"""A container's cgroup, in whatever version and by whatever driver: its CPU quota, its CPUs, its parent.

Where crun, with the systemd driver, puts the processes in a child ``container`` of the scope, the two are
treated as one: what is read is what binds the processes, what is written goes to both. Other children were
made by the container itself and are left alone. Nothing is ever written to the root cgroup, whatever is asked.
"""

from __future__ import annotations

import os

from . import cpuset, knobs, pods, quota
from .cpulist import render
from .errors import CgroupError, CpuListError
from .mounts import Mounts
from .resolve import SUBGROUP, Locator, Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .quota import Quota

_CONTROLLERS = ("cpu", "cpuset")


def find(
    cgroups_path: str, pid: int = 0, container_id: str = "", *, mounts: Mounts | None = None, proc: str = "/proc"
) -> Cgroup:
    """Return the cgroup of the container with this OCI cgroupsPath, process and id ("" and 0 if not known).

    The path is checked at once (CgroupPathError); the directories are looked up when they are needed, per
    controller. An absolute path, or one in systemd's style, names the directory; GoneError is raised where there
    is none. With a relative path, one that is not below the mount, or none, the cgroup that *pid* is in counts as
    well, if it is named after *container_id* (``ID`` or ``PREFIX-ID``, either with ``.scope``; never without an id)
    and is neither this process's own nor the host's; else GoneError is raised. *mounts* are those of this process,
    unless given; CgroupError when they cannot be read.
    """
    return Cgroup(Locator(cgroups_path, pid, container_id, Mounts.read() if mounts is None else mounts, proc), 0)


class Cgroup:
    """A cgroup below the root. All methods raise CgroupError, and GoneError when it does not exist any more.

    Made by :func:`find`.
    """

    __slots__ = ("_locator", "_up")

    def __init__(self, locator: Locator, up: int) -> None:
        """Take the cgroup *up* levels above the one that *locator* finds."""
        self._locator = locator
        self._up = up

    def directory(self, controller: str) -> str:
        """Return the directory in the hierarchy that serves *controller*, ``cpu`` or ``cpuset``."""
        return self._place(controller).directory

    def parent(self) -> Cgroup | None:
        """Return the cgroup above this one; None when that is the root of the hierarchy or of the mount."""
        return None if os.path.dirname(self._any_place().path) == "/" else Cgroup(self._locator, self._up + 1)

    def is_pod(self) -> bool:
        """Tell, by its name, whether the kubelet made this for a pod: see :mod:`nri.cgroups.pods`."""
        return pods.is_pod(self._any_place().hierarchy_path)

    def cpu_quota(self) -> Quota:
        """Return the CFS quota of this cgroup; that of its ancestors binds as well, and is not looked at."""
        place = self._place("cpu")
        version = place.mount.version
        return _tightest([quota.read(level, version) for level in _levels(place, quota.KNOB[version])])

    def clear_cpu_quota(self) -> Quota:
        """Remove the CFS quota and return what it was. Nothing is written where there is none.

        To be called on a pod before its container: until the pod has none, its quota binds the container
        anyway.
        """
        place = self._place("cpu")
        version = place.mount.version
        levels = _levels(place, quota.KNOB[version])
        before = [quota.read(level, version) for level in levels]
        done = ""
        for level, was in zip(levels, before, strict=True):  # the upper first: a child's may not exceed it
            if was.quota_us is not None:
                with _After(done):
                    quota.clear(level, version)
                done = f"the quota of {level} was cleared before that, it was {was}"
        return _tightest(before)

    def cpus(self) -> frozenset[int]:
        """Return the CPUs that this cgroup was given. None were: in v2 it has its parent's, in v1 no CPU."""
        place = self._place("cpuset")
        # The inner level, where it was given CPUs, has a part of the outer's.
        for level in reversed(_levels(place, cpuset.KNOB)):
            if cpus := cpuset.own(level, place.mount.version):
                return cpus
        return frozenset()

    def effective_cpus(self) -> frozenset[int]:
        """Return the CPUs that its processes may use; where it has none, the nearest ancestor's."""
        place = self._place("cpuset")
        version = place.mount.version
        for level in reversed(_levels(place, cpuset.KNOB)):
            if cpus := cpuset.effective(level, version):
                return cpus
        return self.parent_cpus()

    def parent_cpus(self) -> frozenset[int]:
        """Return the CPUs that the cgroup above may use, where it has none the nearest ancestor's.

        The root's are the machine's; they are only read.
        """
        place = self._place("cpuset")
        path = place.path
        while path != "/":
            path = os.path.dirname(path)
            if cpus := cpuset.effective((place.mount.point + path).rstrip("/"), place.mount.version):
                return cpus
        raise CgroupError(f"the cgroups above {place.directory} have no CPUs: expected some in {cpuset.KNOB}")

    def set_cpus(self, cpus: frozenset[int]) -> None:
        """Confine the cgroup to these CPUs, at least one. Raises CpuListError for none.

        In v1 a child has a part of its parent's CPUs at any time, so where crun's child is concerned: the
        scope is widened to the old and the new CPUs, the child moved, the scope narrowed; each step only if
        it is one. Should one fail, the scope is left with the old and the new CPUs at most.
        """
        if not cpus:
            raise CpuListError("no CPUs to confine a cgroup to: expected at least one")
        place = self._place("cpuset")
        version = place.mount.version
        scope, *children = _levels(place, cpuset.KNOB)
        inherits = version == 2 and not any(cpuset.own(child, version) for child in children)
        if not children or inherits:
            cpuset.assign(scope, version, cpus)
            return
        old = cpuset.own(scope, version)
        wide = old | cpus
        done = ""
        if wide != old:
            cpuset.assign(scope, version, wide)
            done = f"{scope} was given {render(wide)} before that, it had {render(old) or 'none'}"
        with _After(done):
            cpuset.assign(children[0], version, cpus)
        done = f"{children[0]} was given {render(cpus)} before that, and {scope} has {render(wide)}"
        if wide != cpus:
            with _After(done):
                cpuset.assign(scope, version, cpus)

    def _place(self, controller: str) -> Place:
        if controller not in _CONTROLLERS:
            raise CgroupError(
                f"controller {controller!r} is not known here: expected one of {', '.join(_CONTROLLERS)}"
            )
        place = self._locator.place(controller)
        path = place.path
        for _ in range(self._up):
            path = os.path.dirname(path)
        if path == "/":
            raise CgroupError(f"{place.directory} has no parent but the root cgroup, which is never touched")
        return Place(place.mount, path)

    def _any_place(self) -> Place:
        served = [controller for controller in _CONTROLLERS if self._locator.served(controller)]
        return self._place(served[0] if served else _CONTROLLERS[0])


class _After:
    """Lets a CgroupError say what was changed before it ("" for nothing): not all is as it was."""

    __slots__ = ("_done",)

    def __init__(self, done: str) -> None:
        self._done = done

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self._done and isinstance(error, CgroupError):
            raise type(error)(f"{error}; {self._done}") from error


def _levels(place: Place, knob: str) -> list[str]:
    """Return the directories that make up a cgroup, the outer first: two where crun made a subgroup."""
    inner = f"{place.directory}/{SUBGROUP}"
    # Without the knob the child has no say: in v2 the scope's cgroup.subtree_control may lack the controller.
    if place.path.endswith(".scope") and not os.path.islink(inner) and knobs.exists(f"{inner}/{knob}"):
        return [place.directory, inner]
    return [place.directory]


def _tightest(quotas: list[Quota]) -> Quota:
    tightest = quotas[0]
    for other in quotas[1:]:
        if other.is_tighter_than(tightest):
            tightest = other
    return tightest
