"""Resolve a container's cgroup by its cgroupsPath, or, where that is not enough, by its process.

A directory counts only if no part of its path below the mount is a link: the kernel's trees have none, and a path
from a request must not lead elsewhere.

An absolute cgroupsPath and one in systemd's style name the cgroup. If that directory is gone, so is the cgroup: the
process does not count, since its pid may have been reused. If the process is in another cgroup, which is neither this
process's own nor the host's, then the container is not where its path says, and nothing is done.

But a relative cgroupsPath depends on the runtime, one that is not below the mount is not visible (the runtime is
itself in a container), and there may be none at all; then the cgroup of the container's process counts, if
``_check_own`` accepts it.
"""

from __future__ import annotations

import errno
import os
import stat

from . import knobs, paths
from .errors import CgroupError, CgroupPathError, ElsewhereError, GoneError, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .mounts import Mount, Mounts

SUBGROUP = "container"
"""crun's name for the child of a systemd scope in which it may put the processes, unless an annotation names it."""

MAX_PID = 1 << 22
"""Pids are less than this (PID_MAX_LIMIT, include/linux/threads.h)."""

_INIT_SCOPE = "/init.scope"
_GONE = (errno.ENOENT, errno.ESRCH)
_HIDDEN = (*_GONE, errno.EACCES, errno.EPERM)  # proc's option hidepid, without root


class Place:
    """A cgroup in one hierarchy: ``path`` below ``mount`` begins with "/"; the directory need not exist."""

    __slots__ = ("directory", "mount", "path", "subgroups")

    def __init__(self, mount: Mount, path: str, subgroups: tuple[str, ...] = (SUBGROUP,)) -> None:
        self.mount = mount
        self.path = path
        self.subgroups = subgroups
        self.directory = mount.point + path

    def levels(self, file: str) -> list[str]:
        """Return the cgroup's directories, outer first: two if crun made a subgroup that has this *file*.

        A subgroup without the file has no limit: in v2 the scope's cgroup.subtree_control may lack the controller.
        """
        for inner in [
            f"{self.directory}/{name}" for name in self.subgroups if self.path.endswith(".scope")
        ]:
            if not os.path.islink(inner) and knobs.exists(f"{inner}/{file}"):
                return [self.directory, inner]
        return [self.directory]

    @property
    def host_path(self) -> str:
        """The path from the root of the node's hierarchy, as far as this process can see that."""
        if self.mount.height >= 0:
            return self.path
        return self.mount.root + self.path


class Resolver:
    """Finds a container's cgroup in the hierarchy of a controller, and remembers it."""

    __slots__ = (
        *(
            "_given",
            "_id",
            "_is_noted",
            "_is_relative",
            "_memberships",
            "_pid",
            "_places",
            "_proc",
            "_wanted",
        ),
        *("mounts", "subgroups"),
    )

    def __init__(
        self,
        cgroups_path: str,
        pid: int,
        container_id: str,
        mounts: Mounts,
        proc: str,
        subgroup: str,
        noted: str = "",
    ) -> None:
        """Take the arguments of ``nri.cgroups.find``; raise CgroupPathError for an impossible path."""
        self.mounts = mounts
        self.subgroups = _subgroups(subgroup)
        self._given = noted or cgroups_path
        self._is_noted = noted != ""
        self._wanted = paths.expand(cgroups_path) if cgroups_path else noted
        self._is_relative = not self._given.startswith("/") and ":" not in self._given
        self._id = container_id
        self._pid = pid
        self._proc = proc
        self._memberships: dict[str, str] | None = None
        self._places: dict[str, Place] = {}

    def place(self, controller: str) -> Place:
        """Return the container's cgroup in the hierarchy of *controller*; it existed at the first call.

        :raises GoneError: there is none.
        :raises ElsewhereError: the container's process is in another one.
        :raises CgroupError: the controller is not mounted.
        """
        if controller in self._places:
            return self._places[controller]
        mount = self.mounts.serving(controller)
        if mount is None:
            raise CgroupError(
                f"no cgroup hierarchy with the controller {controller} is mounted, v1 or v2"
            )
        reasons: list[str] = []
        hierarchy = controller if mount.version == 1 else ""
        self._check_not_elsewhere(mount, hierarchy)
        ways = [self._by_path]
        if self._is_relative or self._below(mount) in ("", "/"):
            ways.append(self._by_process)
        for look in ways:
            try:
                self._places[controller] = look(mount, hierarchy)
                return self._places[controller]
            except _AbsentError as absent:
                reasons.append(str(absent))
        if self._id:
            container = f"container {quoted(self._id)}"
        else:
            container = self._process
        if self._given:
            container = f"cgroupsPath {quoted(self._given)}"
        raise GoneError(f"no {controller} cgroup for {container}: {', and '.join(reasons)}")

    @property
    def _process(self) -> str:
        return f"process {str(self._pid)[:20]}"

    def _check_not_elsewhere(self, mount: Mount, hierarchy: str) -> None:
        """Do nothing if the process may be in the cgroup that an absolute path names.

        Without a pid, as for a noted path, nothing is known.

        A process that is not to be seen says nothing. One in a cgroup of this process's may be another one, which has
        the number in this process's pid namespace.

        :raises ElsewhereError: it is in another one.
        """
        if self._is_relative:
            return
        try:
            printed = self._membership(hierarchy)
        except (_AbsentError, CgroupError):
            return
        wanted = self._below(mount)
        path = mount.below(printed)
        if "" in (wanted, path) or f"{path}/".startswith(f"{wanted}/"):
            return
        if not self._is_ours(hierarchy, printed):
            raise ElsewhereError(
                f"cgroupsPath {quoted(self._given)}: {self._process} is in {quoted(printed)}; expected "
                "the container's process there, as runtimes have it whose containers are cgroups of the node"
            )

    def _is_ours(self, hierarchy: str, path: str) -> bool:
        """Return whether a cgroup is this process's own, the host's, or one below or above it."""
        own = _read_memberships(f"{self._proc}/self/cgroup", _HIDDEN).get(hierarchy, path)
        is_above = f"{own}/".startswith(f"{path.rstrip('/')}/")
        is_below = f"{path}/".startswith(f"{own}/")
        return is_above or is_below or path == _INIT_SCOPE

    def _below(self, mount: Mount) -> str:
        """Return the wanted path below a mount; "" if it is not visible there, or none is known."""
        return self._wanted if self._is_noted else mount.below_host(self._wanted)

    def _by_path(self, mount: Mount, hierarchy: str) -> Place:
        if not self._wanted:
            raise _AbsentError("no cgroupsPath was given")
        place = _existing(mount, self._below(mount), self._wanted)
        if self._is_relative:
            # A relative path counts from the root or from the runtime's own cgroup; the process shows which.
            try:
                within = mount.below(self._membership(hierarchy))
            except _AbsentError:
                return place
            # The next reason names the process's cgroup.
            if not f"{within}/".startswith(f"{place.path}/"):
                raise _AbsentError(f"{self._process} is not in {place.directory}")
        return place

    def _by_process(self, mount: Mount, hierarchy: str) -> Place:
        printed = self._membership(hierarchy)
        if printed.endswith(tuple([f".scope/{name}" for name in self.subgroups])):
            printed = os.path.dirname(printed)  # the container's cgroup is the scope
        self._check_own(hierarchy, printed)
        return _existing(mount, mount.below(printed), printed)

    def _membership(self, hierarchy: str) -> str:
        """Return the process's cgroup in a hierarchy, a v1 controller or "" for v2, as the kernel prints it."""
        if not 0 < self._pid < MAX_PID:
            raise _AbsentError(f"no pid was given (1 to {MAX_PID - 1})")
        file = f"{self._proc}/{self._pid}/cgroup"
        if self._memberships is None:
            self._memberships = _read_memberships(file, _GONE)
        if not self._memberships:
            raise _AbsentError(f"{self._process} has exited")
        if hierarchy not in self._memberships:
            raise _AbsentError(f"{file} does not tell")
        return self._memberships[hierarchy]

    def _check_own(self, hierarchy: str, path: str) -> None:
        """Raise unless *path*, a cgroup of the process, is the container's own.

        A pid proves little: it may have been reused, and a container without a cgroup of its own is in its caller's.
        So the cgroup must be named after the container, and neither this process nor the host's init may be in it.
        """
        if path == "/":
            raise _AbsentError(f"{self._process} is in the root cgroup")
        finding = f"{self._process} is in {quoted(path)}"
        container = quoted(self._id)
        if not self._id:
            raise _AbsentError(f"{finding}, and no container id was given to compare its name with")
        if not paths.is_named_after(path, self._id):
            raise _AbsentError(
                f"{finding}, expected a cgroup that is named after the container {container}"
            )
        if path == _INIT_SCOPE or self._holds("1", hierarchy, path):
            owner = "the host's"
        elif self._holds("self", hierarchy, path):
            owner = "this process's own"
        else:
            return
        raise _AbsentError(
            f"{finding}, which is {owner}, expected one of container {container} alone"
        )

    def _holds(self, process: str, hierarchy: str, path: str) -> bool:
        """Return whether that process is in this cgroup, or in one below it."""
        memberships = _read_memberships(f"{self._proc}/{process}/cgroup", _HIDDEN)
        return f"{memberships.get(hierarchy, '')}/".startswith(f"{path}/")


class _AbsentError(Exception):
    """The reason why one way does not lead to the container's cgroup."""


def _subgroups(subgroup: str) -> tuple[str, ...]:
    """Return the names of a scope's child that count. The pod's author may set one, which crun may not get."""
    if "/" in subgroup:
        return (SUBGROUP,)
    try:
        paths.expand(f"/{subgroup}")
    except CgroupPathError:
        return (SUBGROUP,)
    return (subgroup, SUBGROUP)


def _existing(mount: Mount, path: str, origin: str) -> Place:
    if path in ("", "/"):
        if ".." in origin.split("/"):
            raise _AbsentError(
                f"cgroup {quoted(origin)} is outside of this process's cgroup namespace"
            )
        raise _AbsentError(
            f"cgroup {quoted(origin)} is not below {mount.point}, where only {mount.root} is mounted"
        )
    place = Place(mount, path)
    below = mount.point
    try:
        for part in path.split("/")[1:]:
            below += f"/{part}"
            if stat.S_ISLNK(mode := os.lstat(below).st_mode):
                raise CgroupError(
                    f"{below} is a link: expected a cgroup, and among cgroups there are none"
                )
            if not stat.S_ISDIR(mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR):
            raise CgroupError(f"cannot look up {place.directory}: {knobs.answer(error)}") from error
        raise _AbsentError(f"{place.directory} does not exist") from error
    return place


def _read_memberships(file: str, absent: tuple[int, ...]) -> dict[str, str]:
    """Return a process's cgroups, as ``paths.memberships`` does; none for an error that means that it is *absent*."""
    try:
        return paths.memberships(os.fsdecode(knobs.slurp(file, knobs.MAX_KNOB)))
    except OSError as error:
        if error.errno in absent:
            return {}
        raise CgroupError(f"cannot read {file}: {knobs.answer(error)}") from error
