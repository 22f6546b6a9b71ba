"""The children that this process has started and not reaped yet: global, as a process has one set of children."""

from __future__ import annotations

import os
from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

started: set[int] = set()  # the children that were started and are not reaped; a subreaper kills all others
lock = allocate_lock()  # held while `started` or `coming` is changed, and from before a child is reaped
coming = 0  # children that are being started: until `started` has them, nobody can tell them from orphans
_one_start = allocate_lock()  # held during a start that is reported: the reports do not say which one ends
late: list[int] = []  # killed children that did not end in time, as in an uninterruptible system call
_reports = -1  # the descriptor that reports go to


class Starting:
    """A child that is being started, as a context: the caller sets ``pid`` in it, or raises.

    :param descriptors: of its standard files, by which a watchdog finds it.
    """

    __slots__ = ("_descriptors", "is_reported", "pid")

    def __init__(self, descriptors: Sequence[int]) -> None:
        self._descriptors = descriptors
        self.is_reported = are_reported()
        self.pid = 0

    def __enter__(self) -> Starting:
        global coming  # noqa: PLW0603 - see the module's docstring
        if self.is_reported:
            _one_start.acquire()
            # First, since this process may be killed before it knows the child's number.
            report("?", " ".join([_link(fd) for fd in self._descriptors]))
        with lock:
            coming += 1
        return self

    def __exit__(self, *error: object) -> None:
        global coming  # noqa: PLW0603 - see the module's docstring
        with lock:
            coming -= 1
            if self.pid:
                started.add(self.pid)
                report("+", self.pid)
            else:
                report("!")
        if self.is_reported:
            _one_start.release()


def _link(fd: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return "?"


def reap(pid: int) -> int | None:
    """Reap a child that has ended and return its exit status; None while it runs.

    A negative status is a signal. The status is 0 where the caller ignores SIGCHLD: then the kernel keeps none.
    """
    with lock:
        try:
            # Report it first: once it is reaped, another process may get its number.
            if _reports >= 0 and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                report("-", pid)
            reaped, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            started.discard(pid)
            report("-", pid)
            return 0
        if not reaped:
            return None
        started.discard(pid)
    return os.waitstatus_to_exitcode(status)


def reap_late() -> None:
    """Reap those of ``late`` that have ended. Each is taken out first, so that no other thread reaps it."""
    for _ in range(len(late)):
        try:
            pid = late.pop(0)
        except IndexError:
            return  # another thread took the rest
        if reap(pid) is None:
            late.append(pid)


def report_to(fd: int) -> None:
    """Report each child that is started or reaped from now on to ``fd``, one line each; with -1 report nothing.

    ``?LINK LINK …`` comes before a start: the standard files of the child, as links in /proc/PID/fd name them.
    ``+PID`` follows when it has started, or ``!`` if that failed; ``-PID`` when it is about to be reaped. Each child
    then leads a session of its own, which identifies its descendants. A line that the reader does not take at once is
    lost.
    """
    global _reports  # noqa: PLW0603 - see the module's docstring
    if fd >= 0:
        os.set_blocking(fd, False)
    _reports = fd


def are_reported() -> bool:
    """Return whether children are reported to a watchdog."""
    return _reports >= 0


def report(sign: str, what: object = "") -> None:
    """Write one line in the format of :func:`report_to`."""
    if _reports >= 0:
        try:
            os.write(_reports, f"{sign}{what}\n".encode())
        except OSError:
            pass  # the watchdog is gone or stopped
