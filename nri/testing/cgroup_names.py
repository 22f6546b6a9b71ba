"""Names of cgroups in a test: ``web`` for a container, ``pod``, ``sandbox``, ``other/web``, or a path."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nri.testing.pods import Pod


class CgroupNames:
    """The cgroups of a tree by name; a cgroup without a name has its path below the mount.

    :param points: the mounts, by controller.
    """

    def __init__(self, points: Mapping[str, str]) -> None:
        self._points = sorted(points.values(), key=len, reverse=True)  # hybrid: v2 may lie inside
        self._paths: dict[str, str] = {}
        self._pods: list[Pod] = []

    def add(self, pod: Pod, name: str, path: str) -> None:
        """Name a cgroup of a pod: the first pod's names are short."""
        if pod not in self._pods:
            self._pods.append(pod)
        name = name if pod is self._pods[0] else f"{pod.name}/{name}"
        if self._paths.setdefault(name, path) != path:
            raise ValueError(f"there are two cgroups {name!r} in this tree: {self._paths[name]} and {path}")

    def all(self) -> list[str]:
        """Return the names."""
        return list(self._paths)

    def paths(self) -> list[str]:
        """Return the paths of the cgroups that have names."""
        return list(self._paths.values())

    def path(self, cgroup: str) -> str:
        """Return the path of a cgroup below the mount.

        :raises KeyError: there is none of that name.
        """
        if cgroup.startswith("/"):
            return cgroup
        head, inner = cgroup, ""
        while head not in self._paths:
            head, slash, last = head.rpartition("/")
            if not slash:
                raise KeyError(
                    f"there is no cgroup {cgroup!r} in this tree: expected {', '.join(self._paths) or 'none'}"
                )
            inner = f"/{last}{inner}"
        return self._paths[head] + inner

    def split(self, name: str) -> tuple[str, str]:
        """Return the cgroup and the knob of a file's name."""
        cgroup, slash, knob = name.rpartition("/")
        if not slash:
            raise KeyError(f"{name!r} names no file of a cgroup: expected CGROUP/KNOB, such as 'web/cpu.max'")
        return cgroup, knob

    def point(self, file: str) -> str:
        """Return the mount of a file; "" if it is no file of the tree."""
        return next((point for point in self._points if file.startswith(f"{point}/")), "")

    def name(self, file: str) -> str:
        """Return the name of a file by its path; "" if it is no file of the tree."""
        point = self.point(file)
        if not point:
            return ""
        directory, _, knob = file.removeprefix(point).rpartition("/")
        head, inner = directory, ""
        by_path = {path: name for name, path in self._paths.items()}
        while head and head not in by_path:
            head, _, last = head.rpartition("/")
            inner = f"/{last}{inner}"
        return f"{by_path[head]}{inner}/{knob}" if head else f"{directory}/{knob}"
