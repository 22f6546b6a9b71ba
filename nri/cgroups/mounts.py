"""The mounts of the cgroup hierarchies, from ``/proc/self/mountinfo``.

Sources: ``proc_pid_mountinfo(5)`` (fields, octal escapes), ``cgroups(7)`` and ``cgroup_namespaces(7)`` (a mount's
root in a namespace), ``cgroup-v2.rst``, "Mounting" (hybrid: a controller that v1 has is not available in v2).
"""

from __future__ import annotations

import os

from . import knobs
from .errors import CgroupError

MAX_MOUNTINFO = 16 * 1024 * 1024
"""The maximum size of mountinfo in bytes: about 50000 mounts; a busy node has a few thousand."""

_V1_CONTROLLERS = frozenset(
    "blkio cpu cpuacct cpuset devices freezer hugetlb memory net_cls net_prio perf_event pids".split()  # noqa: SIM905
)


class Mount:
    """One mount of a cgroup hierarchy, or of a part of it. Immutable by convention.

    :ivar point: the directory on which it is mounted.
    :ivar root: the cgroup that is visible there: "/" for the whole hierarchy, ``/docker/ID`` for a bind mount of a
        part, and ``/..`` or ``/../..`` when the reader is in a cgroup namespace and the mount was made outside of it.
    :ivar version: 1 or 2.
    """

    __slots__ = ("point", "root", "version")

    def __init__(self, point: str, root: str, version: int) -> None:
        self.point = point
        self.root = root
        self.version = version

    def __repr__(self) -> str:
        return f"Mount(point={self.point!r}, root={self.root!r}, version={self.version})"

    @property
    def height(self) -> int:
        """The number of levels from the reader's namespace up to the root; -1 for a part of the hierarchy."""
        parts = self.root.split("/")[1:]
        if parts == [""]:
            return 0
        return len(parts) if {*parts} == {".."} else -1

    def below(self, path: str) -> str | None:
        """Map a path as the kernel prints it, in ``/proc/PID/cgroup``, to one below ``point``.

        :returns: None when the cgroup is not visible through this mount, or when that is unknown: the rest must not
            contain "..", and below a root ``/../..`` the parents of a path with fewer ".." have no known names.
        """
        root = self.root.removesuffix("/")
        if path != self.root and not path.startswith(f"{root}/"):
            return None
        rest = path[len(root) :] or "/"
        if rest == "/":
            return rest
        is_clear = "\0" not in rest and {"", ".", ".."}.isdisjoint(rest[1:].split("/"))
        return rest if is_clear else None

    def below_host(self, path: str) -> str | None:
        """Map a runtime's path (cgroupsPath), which counts from the host's root; a root ``/..`` is taken for that."""
        return path if self.height > 0 else self.below(path)


class Mounts:
    """The cgroup mounts of a mount namespace: ``v1`` by controller, and ``v2``."""

    __slots__ = ("v1", "v2")

    def __init__(self, v1: dict[str, Mount], v2: Mount | None) -> None:
        self.v1 = v1
        self.v2 = v2

    @classmethod
    def parse(cls, text: str) -> Mounts:
        """Return the mounts in a mountinfo text; lines in any other format are ignored.

        A later mount on the same point hides an earlier one. Of several mounts of one hierarchy the one that shows
        most of it counts (the host's, the whole, a part, in this order), and of equal ones the first.
        """
        visible: dict[str, tuple[Mount, list[str]]] = {}
        for line in text.split("\n"):
            left, _, right = line.partition(" - ")
            fields = left.split(" ")
            if len(fields) < 6:
                continue
            point = _unescape(fields[4])
            visible.pop(point, None)  # any file system hides an earlier mount
            kind, _, rest = right.partition(" ")
            if kind not in ("cgroup", "cgroup2"):
                continue
            root = _unescape(fields[3])
            if point.startswith("/") and root.startswith("/"):
                options = rest.rpartition(" ")[2].split(",")
                version = 2 if kind == "cgroup2" else 1
                visible[point] = Mount(point.rstrip("/"), root, version), options
        by_controller: dict[str, Mount] = {}
        v2 = None
        for mount, options in visible.values():
            if mount.version == 2:
                v2 = _wider(v2, mount)
                continue
            for controller in _V1_CONTROLLERS.intersection(options):
                by_controller[controller] = _wider(by_controller.get(controller), mount)
        return cls(by_controller, v2)

    @classmethod
    def read(cls, path: str = "/proc/self/mountinfo") -> Mounts:
        """Return the mounts in a mountinfo file; raise CgroupError if it cannot be read."""
        try:
            return cls.parse(os.fsdecode(knobs.slurp(path, MAX_MOUNTINFO)))
        except OSError as error:
            raise CgroupError(
                f"cannot read {path} to find the cgroup mounts: {knobs.answer(error)}"
            ) from error

    @property
    def version(self) -> str:
        """``v1``, ``v2``, ``hybrid`` or ``none``; a v1 hierarchy without controllers (systemd's) does not count."""
        if self.v1:
            return "hybrid" if self.v2 else "v1"
        return "v2" if self.v2 else "none"

    def serving(self, controller: str) -> Mount | None:
        """Return the mount of the hierarchy that serves *controller*: v1 if mounted, else v2; None without either."""
        return self.v1.get(controller, self.v2)


def _wider(one: Mount | None, other: Mount) -> Mount:
    """Return the mount that shows most of a hierarchy; of equal ones the first."""
    if one is None or other.height > one.height:
        return other
    return one


def _unescape(field: str) -> str:
    head, *tails = field.split("\\")
    for tail in tails:
        octal = tail[:3]  # only blanks, "#" and the backslash are escaped, all of them ASCII
        is_escape = len(octal) == 3 and not octal.strip("01234567")
        head += chr(int(octal, 8)) + tail[3:] if is_escape else f"\\{tail}"
    return head
