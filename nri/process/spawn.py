"""Starts a process with nothing of its caller's: not the environment, not a descriptor, not a signal setting.

``os.posix_spawn`` does not copy the caller's memory and needs no Python in the child, and it keeps ``subprocess``
and what that imports off the path of a container's start. It can not change directory or umask: a program that
owns its process does so for itself with :func:`prepare_process`.
"""

from __future__ import annotations

import errno
import os
import time
from _thread import allocate_lock

from nri.process.inherit import SIGNALS, inheritable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ENVIRONMENT = {"HOME": "/", "LANG": "C.UTF-8", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
"""All that a plugin finds in its environment."""

started: set[int] = set()
"""The processes that were started here, and are not reaped yet."""

starting = allocate_lock()
"""Held while one is started or reaped, and so is not, or no more, among them."""

_reports = -1  # where each of them is reported, see report_to

_BUSY_RETRY = 0.01  # seconds between attempts to run a file that is being written (ETXTBSY)


def prepare_process() -> None:
    """Prepare a process of our own whose children are plugins: directory, umask, no core dumps, open 0 to 2.

    A core dump would have a request in it, with all annotations of a pod. And where a caller ignores SIGCHLD, the
    kernel keeps no exit status for us.
    """
    import _signal  # type: ignore[import-not-found] # the signal module would import enum
    import resource

    if _signal.getsignal(_signal.SIGCHLD) == _signal.SIG_IGN:
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)

    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)
    os.chdir("/")
    os.umask(0o022)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def pipe() -> tuple[int, int]:
    """A pipe whose ends are above 2, so that the child's 0, 1 and 2 can be put in place in any order."""
    ends = os.pipe2(os.O_CLOEXEC)
    if min(ends) > 2:
        return ends
    import fcntl

    moved: list[int] = []
    try:
        for fd in ends:
            moved.append(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3))  # noqa: PERF401 - the first is closed if the second fails
    except OSError:
        for fd in moved:
            os.close(fd)
        raise
    finally:
        for fd in ends:
            os.close(fd)
    return moved[0], moved[1]


def report_to(fd: int) -> None:
    """Report to ``fd``, in lines and from now on, the processes that are started and reaped here.

    ``?LINK LINK …`` is written before one is started: its standard files, as links in /proc/PID/fd name them.
    ``+PID`` follows when it has been started, or ``!`` if it could not be; ``-PID`` when it is reaped. Each process
    leads a session of its own: whatever it starts can be told by that. A report that is not taken at once is lost.
    With -1 nothing is reported.
    """
    global _reports  # noqa: PLW0603 - one for the process, as the set of those that are started
    if fd >= 0:
        os.set_blocking(fd, False)
    _reports = fd


def _report(sign: str, what: object = "") -> None:
    if _reports >= 0:
        try:
            os.write(_reports, f"{sign}{what}\n".encode())
        except OSError:
            pass  # the other end is gone, or is stopped


def _announce(actions: list[Any]) -> None:
    """Report what is about to be started: this process may be killed before it knows the other's number."""
    if _reports >= 0:
        files = [action[1] for action in actions if action[0] == os.POSIX_SPAWN_DUP2]
        _report("?", " ".join([os.readlink(f"/proc/self/fd/{fd}") for fd in files]))


def spawn(path: str, argv: list[str], pipes: list[int], deadline: float) -> int:
    """Start ``path`` in a process group of its own; returns its pid.

    :param pipes: the ends of stdin, stdout and stderr, in pairs as :func:`pipe` makes them.
    :param deadline: of :func:`time.monotonic`; until then a file that is being written (ETXTBSY) is tried again.
    :raises OSError: when it can't be started.
    """
    child_in, _, _, child_out, _, child_err = pipes
    actions = [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate((child_in, child_out, child_err))]
    while True:
        try:
            return spawn_with(path, argv, actions)
        except OSError as error:
            if error.errno != errno.ETXTBSY or time.monotonic() + _BUSY_RETRY >= deadline:
                raise
            time.sleep(_BUSY_RETRY)


def spawn_with(path: str, argv: list[str], actions: list[Any]) -> int:
    """As :func:`spawn`, with these file actions of ``os.posix_spawn`` instead of pipes; tried once."""
    with starting:
        _announce(actions)
        try:
            pid = os.posix_spawn(
                path,
                argv,
                ENVIRONMENT,
                file_actions=[*[(os.POSIX_SPAWN_CLOSE, fd) for fd in inheritable()], *actions],
                **({"setpgroup": 0} if _reports < 0 else {"setsid": True}),  # a session has a group of its own
                setsigmask=(),
                setsigdef=SIGNALS,
            )
        except BaseException:
            _report("!")
            raise
        started.add(pid)
        _report("+", pid)
    return pid


def reap(pid: int) -> tuple[int, int]:
    """As ``os.waitpid`` with WNOHANG, for a process that was started here.

    :raises ChildProcessError: when it was reaped by somebody else.
    """
    with starting:
        try:
            # Reported before: when it is reaped its number may be another's.
            if _reports >= 0 and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                _report("-", pid)
            reaped, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            started.discard(pid)
            _report("-", pid)
            raise
        if reaped:
            started.discard(pid)
    return reaped, status
