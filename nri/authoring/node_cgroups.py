"""Cgroups of the node itself for a plugin that is tried out: made below one of their own, and removed again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nri.cgroups import Mounts, knobs
from nri.errors import NRIError

if TYPE_CHECKING:
    from typing import Self

    from nri.cgroups.mounts import Mount

CONTROLLERS = ("cpu", "cpuset", "memory", "io", "blkio", "pids", "hugetlb")

_INHERITED = ("cpuset.cpus", "cpuset.mems")  # empty in a new cgroup of v1, which then takes no process


class NodeCgroups:
    """Cgroups in all hierarchies of the node that a plugin may want; the end of the ``with`` block removes them.

    :ivar top: the path of the cgroup above all of them.
    :ivar writes: each write to one of their files through :mod:`nri.cgroups`: the path and the text.
    """

    def __init__(self) -> None:
        mounts = Mounts.read()
        found = [mount for name in CONTROLLERS if (mount := mounts.serving(name)) is not None]
        self._mounts: dict[str, Mount] = {mount.point: mount for mount in found}
        self.top = f"/nri-run-{os.getpid()}"
        self.writes: list[tuple[str, str]] = []
        self._made: list[str] = []
        self._calls = _Recording(self)

    def __enter__(self) -> Self:
        setattr(knobs, "os", self._calls)  # noqa: B010 - a stand-in that mypy takes for another module
        return self

    def __exit__(self, *_: object) -> None:
        setattr(knobs, "os", os)  # noqa: B010
        for directory in reversed(self._made):
            try:
                os.rmdir(directory)
            except OSError:
                continue  # a plugin has put something into it, and its message was printed

    def make(self, path: str) -> None:
        """Make a cgroup and those above it in all hierarchies.

        :raises NRIError: the kernel, or somebody else's delegation, does not allow it.
        """
        if not self._mounts:
            raise NRIError("no cgroup hierarchy is mounted here: expected a node's, or the option --cgroups v2")
        for mount in self._mounts.values():
            for depth in range(2, path.count("/") + 2):
                directory = mount.point + "/".join(path.split("/")[:depth])
                try:
                    self._make(directory, mount.version)
                except OSError as error:
                    raise NRIError(
                        f"the cgroup {directory} cannot be made: {error.strerror}; expected to be root on a node"
                    ) from error

    def cgroup_of(self, file: str) -> str:
        """Return the path of the cgroup below the mount, and the knob, of a file; "" if it is none of these."""
        for point in self._mounts:
            if file.startswith(f"{point}{self.top}/"):
                return file.removeprefix(point)
        return ""

    def _make(self, directory: str, version: int) -> None:
        if os.path.isdir(directory):
            return
        parent = os.path.dirname(directory)
        if version == 2:
            _enable(parent)
        os.mkdir(directory)
        self._made.append(directory)
        if version == 1 and os.path.exists(f"{directory}/cpuset.cpus"):
            for knob in _INHERITED:
                _copy(f"{parent}/{knob}", f"{directory}/{knob}")


class _Recording:
    """The module ``os`` as :mod:`nri.cgroups.knobs` sees it: it keeps what is written to the cgroups."""

    def __init__(self, node: NodeCgroups) -> None:
        self._node = node
        self._open: dict[int, str] = {}

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        descriptor = os.open(path, flags, mode)
        if flags & (os.O_WRONLY | os.O_RDWR):
            self._open[descriptor] = path
        return descriptor

    def write(self, descriptor: int, data: bytes) -> int:
        written = os.write(descriptor, data)
        name = self._node.cgroup_of(self._open.get(descriptor, ""))
        if name:
            self._node.writes.append((name, data.decode("ascii", "backslashreplace")))
        return written

    def close(self, descriptor: int) -> None:
        self._open.pop(descriptor, None)
        os.close(descriptor)

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)


def _enable(directory: str) -> None:
    """Enable all controllers that a v2 cgroup has in its children; one that it may not enable stays as it is."""
    with open(f"{directory}/cgroup.controllers", encoding="ascii") as file:
        available = file.read().split()
    for controller in available:
        try:
            with open(f"{directory}/cgroup.subtree_control", "w", encoding="ascii") as file:
                file.write(f"+{controller}")
        except OSError:
            continue  # the knob is then missing, and the plugin is told


def _copy(source: str, target: str) -> None:
    with open(source, encoding="ascii") as file:
        text = file.read()
    with open(target, "w", encoding="ascii") as file:
        file.write(text)
