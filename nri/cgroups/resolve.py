"""Resolve a container's cgroup by its cgroupsPath, or, where that is not enough, by its process.

A directory counts only if no part of its path below the mount is a link: the kernel's trees have none, and a path
from a request must not lead elsewhere.

An absolute cgroupsPath and one in systemd's style name the cgroup. If that directory is gone, so is the cgroup: the
process does not count, since its pid may have been reused. But a relative cgroupsPath depends on the runtime, one
that is not below the mount is not visible (the runtime is itself in a container), and there may be none at all; then
the container's process counts, see :mod:`nri.cgroups.membership`.
"""

from __future__ import annotations

import errno
import os
import stat

from . import knobs, paths
from .errors import CgroupError, GoneError, quoted
from .membership import ProcessCgroups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .mounts import Mount, Mounts

SUBGROUP = "container"
"""crun's name for the child of a systemd scope in which it may put the processes."""


class Place:
    """A cgroup in one hierarchy: ``path`` below ``mount`` begins with "/", and is never "/"."""

    __slots__ = ("mount", "path")

    def __init__(self, mount: Mount, path: str) -> None:
        """Take mount and path; the directory need not exist."""
        self.mount = mount
        self.path = path

    @property
    def directory(self) -> str:
        """The cgroup's directory."""
        return self.mount.point + self.path

    @property
    def hierarchy_path(self) -> str:
        """The cgroup's path from the hierarchy's root, as far as it is visible."""
        return self.path if self.mount.height >= 0 else self.mount.root + self.path


class Resolver:
    """Finds a container's cgroup in the hierarchy of a controller, and remembers it."""

    __slots__ = ("_given", "_id", "_is_relative", "_mounts", "_places", "_process", "_wanted")

    def __init__(self, cgroups_path: str, pid: int, container_id: str, mounts: Mounts, proc: str) -> None:
        """Take the arguments of :func:`nri.cgroups.find`; raise CgroupPathError for an impossible path."""
        self._given = cgroups_path
        self._wanted = paths.expand(cgroups_path) if cgroups_path else ""
        self._is_relative = not cgroups_path.startswith("/") and ":" not in cgroups_path
        self._id = container_id
        self._process = ProcessCgroups(pid, proc)
        self._mounts = mounts
        self._places: dict[str, Place] = {}

    def served(self, controller: str) -> bool:
        """Return whether a hierarchy serves *controller*."""
        return self._mounts.serving(controller) is not None

    def place(self, controller: str) -> Place:
        """Return the container's cgroup in the hierarchy of *controller*; it existed at the first call.

        :raises GoneError: there is none.
        :raises CgroupError: the controller is not mounted.
        """
        if controller not in self._places:
            self._places[controller] = self._resolve(controller)
        return self._places[controller]

    def _resolve(self, controller: str) -> Place:
        mount = self._mounts.serving(controller)
        if mount is None:
            raise CgroupError(f"no cgroup hierarchy with the controller {controller} is mounted, v1 or v2")
        reasons: list[str] = []
        place = self._by_path(mount, controller, reasons)
        if place is None and (self._is_relative or mount.below_host(self._wanted) in (None, "/")):
            place = self._by_process(mount, controller, reasons)
        if place is None:
            raise GoneError(f"no {controller} cgroup for {self._container()}: {', and '.join(reasons)}")
        return place

    def _container(self) -> str:
        if self._given:
            return f"cgroupsPath {quoted(self._given)}"
        return f"container {quoted(self._id)}" if self._id else self._process.name

    def _by_path(self, mount: Mount, controller: str, reasons: list[str]) -> Place | None:
        if not self._wanted:
            reasons.append("no cgroupsPath was given")
            return None
        place = self._existing(mount, mount.below_host(self._wanted), self._wanted, reasons)
        if place is None or not self._is_relative:
            return place
        # A relative path counts from the root or from the runtime's own cgroup; the process shows which.
        printed = self._process.path(controller if mount.version == 1 else "", [])
        within = None if printed is None else mount.below(printed)
        if printed is None or within == place.path or (within or "").startswith(place.path + "/"):
            return place
        reasons.append(f"{self._process.name} is not in {place.directory}")  # the next reason names its cgroup
        return None

    def _by_process(self, mount: Mount, controller: str, reasons: list[str]) -> Place | None:
        hierarchy = controller if mount.version == 1 else ""
        printed = self._process.path(hierarchy, reasons)
        if printed is None:
            return None
        if printed.endswith(f".scope/{SUBGROUP}"):
            printed = os.path.dirname(printed)  # the container's cgroup is the scope
        if reason := self._process.refusal(hierarchy, printed, self._id):
            reasons.append(reason)
            return None
        return self._existing(mount, mount.below(printed), printed, reasons)

    @staticmethod
    def _existing(mount: Mount, path: str | None, origin: str, reasons: list[str]) -> Place | None:
        if path is None or path == "/":
            if ".." in origin.split("/"):
                reasons.append(f"cgroup {quoted(origin)} is outside of this process's cgroup namespace")
            else:
                seen = "" if mount.root == "/" else f", where only {mount.root} is mounted"
                reasons.append(f"cgroup {quoted(origin)} is not below {mount.point}{seen}")
            return None
        place = Place(mount, path)
        try:
            below = mount.point
            for part in path.split("/")[1:]:
                below += f"/{part}"
                if stat.S_ISLNK(mode := os.lstat(below).st_mode):
                    raise CgroupError(f"{below} is a link: expected a cgroup, and among cgroups there are none")
                if not stat.S_ISDIR(mode):
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                raise CgroupError(f"cannot look up {place.directory}: {knobs.answer(error)}") from error
            reasons.append(f"{place.directory} does not exist")
            return None
        return place
