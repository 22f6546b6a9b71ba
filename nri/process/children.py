"""The children that this process has started and not reaped yet: global, as a process has one set of children."""

from __future__ import annotations

import os
import select
import time
from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

SIGKILL = 9  # the signal's number; the signal module would import enum
# Seconds between looks at a process on kernels before Linux 5.3, which have no pidfd.
POLL_WITHOUT_PIDFD = 0.01
REAP_WITHIN = 1.0  # seconds to wait for a killed process, which in an uninterruptible system call may never end
# The same after the deadline: a caller such as the bridge must answer soon after it.
REAP_LATE = 0.03

# The children that were started and are not reaped; a subreaper kills all others.
started: set[int] = set()
# Held while `started` or `coming` is changed, and from before a child is reaped.
lock = allocate_lock()
coming = 0  # children that are being started: until `started` has them, they look like orphans
# Killed children that did not end in time, as in an uninterruptible system call.
late: list[int] = []
_plugins: dict[int | str, None] = {}  # those that are listed in _list, the oldest first
# see list_in
_list = -1
_forgets = False


def start(begin: Callable[[], int]) -> int:
    """Start a child with a function that returns its pid, and return that."""
    global coming  # noqa: PLW0603 - see the module's docstring
    with lock:
        coming += 1
    try:
        pid = begin()
        with lock:
            started.add(pid)
    finally:
        with lock:
            coming -= 1
    return pid


def start_plugin(begin: Callable[[], int], stdin: int) -> int:
    """As ``start``. A watchdog kills the plugin, with its session, when this process is killed.

    :param stdin: what becomes its stdin, a pipe or socket that no other process has: until the plugin's pid is
        known, it is found by that.
    """
    mark = identity(os.fstat(stdin))
    with lock:
        _plugins[mark] = None
        _write_list()
    try:
        pid = start(begin)
        with lock:
            _plugins[pid] = None
    finally:
        with lock:
            _plugins.pop(mark, None)
            _write_list()
    return pid


def list_in(fd: int, *, forgets: bool = False, goes_on: bool = False) -> None:
    """Keep a list of the plugins that were started in the file ``fd``; with -1 keep none.

    :param forgets: take those off that are reaped, and whose descendants a subreaper kills.
    :param goes_on: with those of the list before.
    """
    global _list, _forgets  # noqa: PLW0603 - a process has one list
    _list = fd
    _forgets = forgets
    if goes_on:
        _write_list()
    else:
        _plugins.clear()


def listed(fd: int) -> tuple[set[int], set[str]]:
    """Return the plugins that another process has listed in ``fd``: pids, and the ``identity`` of stdins."""
    words = os.pread(fd, 1 << 20, 0).partition(b"\n")[0].decode().split()
    return {int(word) for word in words if word.isdigit()}, {
        word for word in words if not word.isdigit()
    }


def identity(status: os.stat_result) -> str:
    """Return what tells a pipe or socket from all others; "" for any other file, which many processes may have."""
    is_own = status.st_mode & 0o170000 in (0o010000, 0o140000)
    return f"{status.st_dev}:{status.st_ino}" if is_own else ""


def _write_list() -> None:
    if _list >= 0:
        try:
            os.pwrite(_list, " ".join(map(str, _plugins)).encode() + b"\n", 0)
        except OSError:
            pass  # no memory is left


def _forget(pid: int) -> None:
    if _forgets and _plugins.pop(pid, 0) is None:
        _write_list()


def reap(pid: int) -> int | None:
    """Reap a child that has ended and return its exit status; None while it runs.

    A negative status is a signal. The status is 0 where the caller ignores SIGCHLD: then the kernel keeps none.
    """
    with lock:
        return _reap(pid)


def _reap(pid: int) -> int | None:
    """As ``reap``, with the lock."""
    if not has_exited(pid):
        return None
    _forget(pid)  # first: once it is reaped, another process may get its number
    try:
        _, status = os.waitpid(pid, 0)
    except ChildProcessError:
        status = 0
    started.discard(pid)
    return os.waitstatus_to_exitcode(status)


def reap_late() -> None:
    """Reap those of ``late`` that have ended. No other thread reaps one meanwhile: its number may be used again."""
    with lock:
        for pid in [*late]:
            if _reap(pid) is not None:
                late.remove(pid)


def pidfds_of(pid: int) -> list[int]:
    """Return a new pidfd of a process; none where the kernel gives none."""
    try:
        return [os.pidfd_open(pid)]
    except OSError:  # ENOSYS before Linux 5.3, EPERM under some seccomp filters
        return []


def close_all(descriptors: Iterable[int]) -> None:
    """Close descriptors."""
    for fd in descriptors:
        os.close(fd)


def has_exited(pid: int) -> bool:
    """Return whether a child has ended. It is not reaped, so no other process gets its number."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True  # the caller ignores SIGCHLD, and the kernel has reaped it


def give_up_at(deadline: float) -> float:
    """Return the time until which to wait for a process that is killed at its ``deadline`` or before."""
    now = time.monotonic()
    return min(now + REAP_WITHIN, max(now, deadline) + REAP_LATE)


def kill_group(pid: int, number: int = SIGKILL) -> None:
    """Send a signal to the process group ``pid`` and to its leader, which may have left the group.

    The leader must not be reaped yet: then neither number can belong to another process.
    """
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # they have ended, or have changed their user, and this process may not signal them


def await_end(pid: int, pidfds: Sequence[int], give_up: float) -> int:
    """Reap a child that has exited or was killed, and return its exit status; a negative one is a signal.

    A child that has not ended at ``give_up`` is left to ``children.reap_late``.
    """
    while (status := reap(pid)) is None:
        left = give_up - time.monotonic()
        if left <= 0:
            late.append(pid)
            return -SIGKILL
        _pause(pidfds, left)
    return status


def end_child(pid: int, within: float) -> int:
    """Wait at most ``within`` seconds for a child to end, kill the rest of its group, reap it; return its status."""
    pidfds = pidfds_of(pid)
    until = time.monotonic() + within
    try:
        left = within
        while left > 0 and not has_exited(pid):
            _pause(pidfds, left)
            left = until - time.monotonic()
        kill_group(pid)
        return await_end(pid, pidfds, time.monotonic() + REAP_WITHIN)
    finally:
        close_all(pidfds)


def _pause(pidfds: Sequence[int], left: float) -> None:
    """Wait for the end of a process, at most ``left`` seconds; for a moment where it cannot be waited for."""
    try:
        if pidfds:
            poll = select.poll()
            poll.register(pidfds[0], select.POLLIN)
            poll.poll(left * 1000 + 1)
            return
    except OSError:
        pass  # such as ENOMEM: it must be killed or reaped in any case
    time.sleep(POLL_WITHOUT_PIDFD)


def stat_fields(pid: int | str) -> list[bytes]:
    """Return the fields of /proc/PID/stat after the name: index 0 is the state, field 3 of proc(5).

    :raises OSError: when the process does not exist.
    """
    fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 4096).rpartition(b")")[2].split()
    finally:
        os.close(fd)


def pids() -> list[int]:
    """Return the ids of all processes."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def alive_in(sessions: set[int]) -> list[int]:
    """Return the processes in some sessions, without those that have ended."""
    return [pid for pid in pids() if _is_alive_in(sessions, pid)]


def _is_alive_in(sessions: set[int], pid: int) -> bool:
    try:
        fields = stat_fields(pid)
    except OSError:
        return False  # it has ended
    return int(fields[3]) in sessions and fields[0] not in b"ZX"
