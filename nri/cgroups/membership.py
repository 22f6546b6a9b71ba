"""The cgroups that a process is in, and whether one of them can be a container's own.

Source: ``cgroups(7)``, ``/proc/PID/cgroup``. A process's number proves little: the container's process may have
exited and another process may have its number, and a container that has no cgroup of its own is in its caller's. So a
cgroup counts as a container's only if its name says so, and never if this process or the host's init is
in it.
"""

from __future__ import annotations

import errno
import os

from . import knobs, paths
from .errors import CgroupError, quoted

MAX_PID = 1 << 22
"""The kernel gives no process a number of this or more (PID_MAX_LIMIT, include/linux/threads.h)."""

_INIT_SCOPE = "/init.scope"
_GONE = (errno.ENOENT, errno.ESRCH)
_HIDDEN = (*_GONE, errno.EACCES, errno.EPERM)  # proc's option hidepid, for those who are not root


class Process:
    """A process by its number, which is looked up once, when it is first needed; 0 for one that is not known."""

    __slots__ = ("_memberships", "_pid", "_proc")

    def __init__(self, pid: int, proc: str) -> None:
        """Take the number, and where proc is mounted."""
        self._pid = pid
        self._proc = proc
        self._memberships: dict[str, str] | None = None

    @property
    def name(self) -> str:
        """The process as messages name it."""
        return f"process {str(self._pid)[:20]}"

    def path(self, hierarchy: str, reasons: list[str]) -> str | None:
        """Return its cgroup in a hierarchy (a v1 controller, "" for v2), as the kernel prints it.

        None where that cannot be told, and *reasons* then has one more. Raises CgroupError when proc cannot be read.
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
        """Return why *path*, a cgroup that this process is in, does not count as the container's; "" if it does."""
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
        """Tell whether that process is in this cgroup, or in one below it."""
        memberships = _memberships(f"{self._proc}/{process}/cgroup", _HIDDEN) or {}
        return (memberships.get(hierarchy, "") + "/").startswith(path + "/")


def _memberships(file: str, absent: tuple[int, ...]) -> dict[str, str] | None:
    try:
        return paths.memberships(os.fsdecode(knobs.slurp(file, knobs.MAX_KNOB)))
    except OSError as error:
        if error.errno in absent:
            return None
        raise CgroupError(f"cannot read {file}: {knobs.answer(error)}") from error
