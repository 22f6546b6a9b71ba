"""Which directory is a container's cgroup: by its cgroupsPath, or else by its process.

A directory counts only if no part of its path below the mount is a link: the kernel's trees have none, and a path
from a request must lead nowhere else.

The cgroupsPath names it unless the runtime placed the container elsewhere (a relative path, a runtime that is
itself in a container, a driver of its own); the process, as long as it lives, is always in it.
"""

from __future__ import annotations

import errno
import os
import stat

from . import knobs, paths
from .errors import CgroupError, GoneError, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .mounts import Mount, Mounts

SUBGROUP = "container"
"""crun's name for the child of a systemd scope in which it may put the processes."""

MAX_PID = 1 << 22
"""The kernel gives no process a number of this or more (PID_MAX_LIMIT, include/linux/threads.h)."""


class Place:
    """A cgroup in one hierarchy: ``path`` below ``mount``, beginning with "/" and never "/" itself."""

    __slots__ = ("mount", "path")

    def __init__(self, mount: Mount, path: str) -> None:
        """Take both as they are; whether there is such a directory is not looked at."""
        self.mount = mount
        self.path = path

    @property
    def directory(self) -> str:
        """The cgroup's directory."""
        return self.mount.point + self.path

    @property
    def hierarchy_path(self) -> str:
        """The cgroup's path from the hierarchy's root, as far as that can be seen."""
        return self.path if self.mount.height >= 0 else self.mount.root + self.path


class Locator:
    """Finds a container's place in the hierarchy of each controller, when asked, and remembers it."""

    __slots__ = ("_given", "_memberships", "_mounts", "_pid", "_places", "_proc", "_wanted")

    def __init__(self, cgroups_path: str, pid: int, mounts: Mounts, proc: str) -> None:
        """See :func:`nri.cgroups.find`. Raises CgroupPathError."""
        self._given = cgroups_path
        self._wanted = paths.expand(cgroups_path) if cgroups_path else ""
        self._pid = pid
        self._mounts = mounts
        self._proc = proc
        self._places: dict[str, Place] = {}
        self._memberships: dict[str, str] | None = None

    def served(self, controller: str) -> bool:
        """Tell whether there is a hierarchy for *controller*."""
        return self._mounts.serving(controller) is not None

    def place(self, controller: str) -> Place:
        """Return the container's place in the hierarchy of *controller*; it existed when first asked for.

        Raises GoneError when there is none, CgroupError when the controller is not mounted.
        """
        if controller not in self._places:
            self._places[controller] = self._find(controller)
        return self._places[controller]

    def _find(self, controller: str) -> Place:
        mount = self._mounts.serving(controller)
        if mount is None:
            raise CgroupError(f"no cgroup hierarchy with the controller {controller} is mounted, v1 or v2")
        reasons: list[str] = []
        place = self._by_path(mount, reasons) or self._by_process(mount, controller, reasons)
        if place is None:
            container = f"cgroupsPath {quoted(self._given)}" if self._given else f"process {str(self._pid)[:20]}"
            raise GoneError(f"no {controller} cgroup for {container}: {', and '.join(reasons)}")
        return place

    def _by_path(self, mount: Mount, reasons: list[str]) -> Place | None:
        if not self._wanted:
            reasons.append("no cgroupsPath was given")
            return None
        return self._existing(mount, mount.below_host(self._wanted), self._wanted, reasons)

    def _by_process(self, mount: Mount, controller: str, reasons: list[str]) -> Place | None:
        if self._pid <= 0:
            reasons.append("no pid was given")
            return None
        if self._pid >= MAX_PID:
            reasons.append(f"no process can have the given pid, expected one below {MAX_PID}")
            return None
        if self._memberships is None:
            try:
                text = knobs.slurp(f"{self._proc}/{self._pid}/cgroup", knobs.MAX_KNOB)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ESRCH):
                    raise CgroupError(
                        f"cannot read {self._proc}/{self._pid}/cgroup: {knobs.answer(error)}"
                    ) from error
                reasons.append(f"process {self._pid} has exited")
                return None
            self._memberships = paths.memberships(os.fsdecode(text))
        printed = self._memberships.get(controller if mount.version == 1 else "")
        if printed is None:
            reasons.append(f"{self._proc}/{self._pid}/cgroup does not tell")
            return None
        if printed == "/":
            reasons.append(f"process {self._pid} is in the root cgroup")
            return None
        place = self._existing(mount, mount.below(printed), printed, reasons)
        if place and place.path.endswith(f".scope/{SUBGROUP}"):
            place.path = os.path.dirname(place.path)  # the container's cgroup is the scope, whichever way it is found
        return place

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
