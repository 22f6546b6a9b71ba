"""Protection of memory: the cgroups above a protected one get the sum of what is below them.

The kernel protects a cgroup's memory (``memory.min``, ``memory.low``) up to what the cgroups above it have, so
without theirs a container's has no effect. The kubelet and Koordinator sum up in the same way. Source: "Memory
Interface Files" and "Resource Distribution Models" of the kernel's cgroup-v2.rst.

A cgroup never gets less than it had before, and has that again when those below it need no more. Many containers
share these cgroups, so a file keeps the values, one line for each: ``PATH<tab>KNOB<tab>WRITTEN<tab>BEFORE``.
"""

from __future__ import annotations

import os

from nri.cgroups import CgroupError, Mounts, Systemd, find, knobs, paths
from nri.errors import NRIError
from nri.files import replace
from nri.plugins.shared import PROTECTING, protection_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from nri.cgroups import Cgroup

_MOST = 1 << 63
"""Stands for ``max``."""


def spread(
    cgroup: Cgroup,
    run: str,
    mounts: Mounts,
    systemd: Systemd,
    *,
    own: Collection[str] = (),
    ends: str = "",
) -> dict[str, str]:
    """Give the cgroups above a container's, and others that have had it before, the sum of those below them.

    :param cgroup: the container's; it may be gone.
    :param run: the node's ``/run``.
    :param own: the knobs of the pod that the conf gives it: they are left as they are.
    :param ends: ``container`` or ``pod``: what it does not count for any more, since it ends.
    :returns: the new values, as metadata: ``kubepods.memory.low`` and ``8192``.
    :raises NRIError: the file cannot be kept, or the kernel refuses a value.
    """
    import fcntl

    file = protection_file(run)
    directory = os.path.dirname(file)
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        lock = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            levels = _Levels(file, mounts, systemd)
            chain = _chain(cgroup)
            levels.ending = {"container": chain[:1], "pod": chain[:2]}.get(ends, [])
            return levels.settle(chain[1:], own)
        finally:
            os.close(lock)
    except OSError as error:
        raise NRIError(f"{file}: {error.strerror}; expected a file of qos") from error


def _chain(cgroup: Cgroup) -> list[str]:
    """Return the directories of a container and of those above it, up to that of all pods; none if there is none."""
    directories: list[str] = []
    try:
        each: Cgroup | None = cgroup
        while each is not None:
            directories.append(each.directory("memory"))
            if paths.is_pods(directories[-1]):
                return directories
            each = each.parent()
    except CgroupError:
        pass  # it has ended, or is none of a pod
    return []


class _Levels:
    """The cgroups above protected ones, with what was written to each knob, and what was there before."""

    def __init__(self, file: str, mounts: Mounts, systemd: Systemd) -> None:
        self.file = file
        self.mounts = mounts
        self.systemd = systemd
        self.notes: dict[tuple[str, str], tuple[int, int]] = {}
        self.ending: list[str] = []  # directories that do not count any more
        self.point = ""
        mount = mounts.serving("memory")
        if mount is not None:
            self.point = mount.point
        try:
            with open(file, encoding="utf-8", errors="surrogateescape") as opened:
                lines = opened.read().splitlines()
        except FileNotFoundError:
            lines = []
        for line in lines:
            path, *rest = line.split("\t")
            if len(rest) != 3:
                continue
            knob, written, least = rest
            if knob in PROTECTING and written.isdecimal() and least.isdecimal():
                self.notes[path, knob] = int(written[:20]), int(least[:20])

    def settle(self, directories: list[str], own: Collection[str]) -> dict[str, str]:
        """Write what is due, the lowest cgroups first, and the file."""
        above = [directory.removeprefix(self.point) for directory in directories]
        pod = above[:1]
        known = {*above, *[path for path, _ in self.notes]}
        changed: dict[str, str] = {}
        before = dict(self.notes)
        for path in sorted(known, key=lambda path: path.count("/"), reverse=True):
            for knob in PROTECTING:
                if path in pod and knob in own:
                    continue
                value = self._settle(path, knob)
                if value is not None:
                    changed[f"{_short(path)}.{knob}"] = _text(value)
        if self.notes != before:
            self._save()
        return changed

    def _settle(self, path: str, knob: str) -> int | None:
        """Give a cgroup the sum of those below it; return the new value, None if it has it."""
        directory = f"{self.point}{path}"
        text = _value_text(directory, knob)
        if text is None:
            self.notes.pop((path, knob), None)  # it is gone, or this kernel lacks the knob
            return None
        now = _number(text)
        written, least = self.notes.get((path, knob), (now, now))
        if now != written:
            least = now  # another program has set it since
        children = [each for each in knobs.children(directory) if each not in self.ending]
        below = [_value_text(child, knob) for child in children]
        wanted = min(max(sum([_number(each or "0") for each in below]), least), _MOST)
        if wanted == least:
            self.notes.pop((path, knob), None)
        else:
            self.notes[path, knob] = wanted, least
        if wanted == now:
            return None
        level = find("", noted=path, mounts=self.mounts, systemd=self.systemd)
        value = None if wanted == _MOST else wanted
        level.write(knob, value)
        return wanted

    def _save(self) -> None:
        if not self.notes:
            os.unlink(self.file)
            return
        lines = []
        for (path, knob), (written, least) in self.notes.items():
            lines.append(f"{path}\t{knob}\t{written}\t{least}\n")

        replace(self.file, "".join(lines).encode("utf-8", "surrogateescape"))


def _value_text(directory: str, knob: str) -> str | None:
    try:
        return knobs.read_optional(f"{directory}/{knob}")
    except CgroupError:
        return None  # it has ended meanwhile


def _number(text: str) -> int:
    return min(int(text), _MOST) if text.isdecimal() else _MOST


def _text(value: int) -> str:
    return "max" if value == _MOST else str(value)


def _short(path: str) -> str:
    """Return a cgroup's name for the metadata: its kind, since the metadata are the container's."""
    if paths.is_pods(path):
        return "kubepods"
    if paths.is_pod(path):
        return "pod"
    return path.rpartition("/")[2].removesuffix(".slice").rpartition("-")[2]
