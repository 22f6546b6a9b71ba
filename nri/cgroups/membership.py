"""The cgroups of a process, and whether one of them is a container's own.

Source: ``cgroups(7)``, ``/proc/PID/cgroup``. A pid proves little: the container's process may have exited and its pid
may have been reused, and a container without a cgroup of its own is in its caller's. So a cgroup counts as a
container's only if it is named after the container, and never if this process or the host's init is in it.
"""

from __future__ import annotations

import errno
import os

from . import knobs, paths
from .errors import CgroupError, quoted

MAX_PID = 1 << 22
"""Pids are less than this (PID_MAX_LIMIT, include/linux/threads.h)."""

_INIT_SCOPE = "/init.scope"
_GONE = (errno.ENOENT, errno.ESRCH)
_HIDDEN = (*_GONE, errno.EACCES, errno.EPERM)  # proc's option hidepid, without root


class ProcessCgroups:
    """The cgroups of one process, which are read once, when they are first needed. Pid 0 means that it is unknown."""

    __slots__ = ("_memberships", "_pid", "_proc")

    def __init__(self, pid: int, proc: str) -> None:
        """Take the pid, and the directory on which proc is mounted."""
        self._pid = pid
        self._proc = proc
        self._memberships: dict[str, str] | None = None

    @property
    def name(self) -> str:
        """The name of the process in messages."""
        return f"process {str(self._pid)[:20]}"

    def path(self, hierarchy: str, reasons: list[str]) -> str | None:
        """Return its cgroup in a hierarchy as the kernel prints it; None when that is unknown.

        :param hierarchy: a v1 controller, or "" for v2.
        :param reasons: gets the reason for None.
        :raises CgroupError: proc cannot be read.
        """
        if self._pid <= 0:
            reasons.append("no pid was given")
            return None
        if self._pid >= MAX_PID:
            reasons.append(f"no process can have the given pid, expected one below {MAX_PID}")
            return None
        if self._memberships is None:
            found = _memberships(f"{self._proc}/{self._pid}/cgroup", _GONE)
            if found is None:
                reasons.append(f"{self.name} has exited")
                return None
            self._memberships = found
        path = self._memberships.get(hierarchy)
        if path is None:
            reasons.append(f"{self._proc}/{self._pid}/cgroup does not tell")
        return path

    def refusal(self, hierarchy: str, path: str, container_id: str) -> str:
        """Return why *path*, a cgroup of this process, does not count as the container's; "" if it does."""
        if path == "/":
            return f"{self.name} is in the root cgroup"
        found = f"{self.name} is in {quoted(path)}"
        if not container_id:
            return f"{found}, and no container id was given to compare its name with"
        if not paths.is_named_after(path, container_id):
            return f"{found}, expected a cgroup that is named after the container {quoted(container_id)}"
        if path == _INIT_SCOPE or self._holds("1", hierarchy, path):
            return f"{found}, which is the host's, expected one of container {quoted(container_id)} alone"
        if self._holds("self", hierarchy, path):
            return f"{found}, which is this process's own, expected one of container {quoted(container_id)} alone"
        return ""

    def _holds(self, process: str, hierarchy: str, path: str) -> bool:
        """Return whether that process is in this cgroup, or in one below it."""
        memberships = _memberships(f"{self._proc}/{process}/cgroup", _HIDDEN) or {}
        return (memberships.get(hierarchy, "") + "/").startswith(path + "/")


def _memberships(file: str, absent: tuple[int, ...]) -> dict[str, str] | None:
    try:
        return paths.memberships(os.fsdecode(knobs.slurp(file, knobs.MAX_KNOB)))
    except OSError as error:
        if error.errno in absent:
            return None
        raise CgroupError(f"cannot read {file}: {knobs.answer(error)}") from error
