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

ESCAPED = " \t\n#\\"
"""The characters that the kernel escapes; the backslash last, as which no other escape begins."""

_VERSIONS = {"cgroup": 1, "cgroup2": 2}
_KINDS = {
    (True, True): "hybrid",
    (True, False): "v1",
    (False, True): "v2",
    (False, False): "none",
}
"""The name of a node's version, by whether it has mounts of v1, and of v2."""

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
        is_above = {"", ".."}.issuperset(self.root.split("/"))
        return self.root.count("..") if is_above else -1

    def below(self, path: str) -> str:
        """Map a path as the kernel prints it, in ``/proc/PID/cgroup``, to one below ``point``.

        :returns: "" when the cgroup is not visible through this mount, or when that is unknown: the rest must not
            contain "..", and below a root ``/../..`` the parents of a path with fewer ".." have no known names.
        """
        if path == self.root:
            return "/"
        root = self.root.removesuffix("/")
        parts = path.removeprefix(root)[1:].split("/")
        if not path.startswith(f"{root}/") or not {"", ".", ".."}.isdisjoint(parts):
            return ""
        if "\0" in path:
            return ""
        return path.removeprefix(root)

    def below_host(self, path: str) -> str:
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
            if kind not in _VERSIONS:
                continue
            root = _unescape(fields[3])
            if point.startswith("/") and root.startswith("/"):
                options = rest.rpartition(" ")[2].split(",")
                visible[point] = Mount(point.rstrip("/"), root, _VERSIONS[kind]), options
        by_controller: dict[str, Mount] = {}
        v2 = None
        # The last one stays: the one that shows most, and of equal ones the first.
        mounts = list(reversed(visible.values()))
        mounts.sort(key=lambda each: each[0].height)
        for mount, options in mounts:
            if mount.version == 2:
                v2 = mount
            else:
                by_controller |= dict.fromkeys(_V1_CONTROLLERS.intersection(options), mount)
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
        return _KINDS[bool(self.v1), self.v2 is not None]

    def serving(self, controller: str) -> Mount | None:
        """Return the mount of the hierarchy that serves *controller*: v1 if mounted, else v2; None without either."""
        return self.v1.get(controller, self.v2)


def _unescape(field: str) -> str:
    for sign in ESCAPED:
        field = field.replace(f"\\{ord(sign):03o}", sign)
    return field
