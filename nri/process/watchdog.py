"""The watchdog: a process that kills a host's plugins when the host itself was killed.

It finds the host's processes by their session, which a process leaves only by ``setsid``. If the host leads a
session, or can create one, its children are in it: so with hosts that a runtime or systemd starts, and with hooks.
Where the session is another process's, such as a shell's that runs a bridge as a job, each child gets a session of
its own, and the host reports its children (:func:`nri.process.children.report_to`). The watchdog holds nothing of the
host, so a runtime that waits for the end of a hook's stderr does not wait for it.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # the signal module would import enum
import os
import time

from nri.process import children
from nri.process.children import SIGKILL, stat_fields
from nri.process.spawn import pipe
from nri.process_name import set_name

NAME = "nri-watchdog"
"""The name of its process for the kernel; its command line is the host's."""

ROUNDS = 100  # times that the watchdog looks for processes: one may fork while its siblings are killed
TIMEOUT = 0.5  # seconds that the watchdog looks for a process that the host was starting when it ended
_IGNORED = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGQUIT, _signal.SIGALRM)


class Watchdog:
    """The watchdog's process, as the host sees it."""

    def __init__(self, pid: int, reports: int) -> None:
        self.pid = pid
        self._reports = reports

    def dismiss(self) -> None:
        """End and reap it: the host runs no plugin any more."""
        try:
            os.kill(self.pid, SIGKILL)
        except ProcessLookupError:
            pass
        self.sweep()

    def sweep(self) -> None:
        """Make it kill the remaining processes, and reap it."""
        with children.lock:
            children.report_to(-1)
            os.close(self._reports)
            try:
                os.waitpid(self.pid, 0)
            except ChildProcessError:
                pass  # SIGCHLD is ignored, and the kernel has reaped it
            children.started.discard(self.pid)


def start(*, make_session: bool, shares_session: bool = False) -> Watchdog:
    """Fork the watchdog.

    Call it before there are threads, and before much is loaded: the watchdog keeps a copy of the memory.

    :param make_session: leave the caller's session, if possible, so that the host leads one of its own.
    :param shares_session: the host's session may have processes that must not be killed, even if the host leads it.
    :raises OSError: when no process can be forked.
    """
    host = os.getpid()
    is_shared = shares_session or os.getsid(0) != host
    if is_shared and make_session:
        try:
            os.setsid()
            is_shared = False
        except PermissionError:
            pass  # it leads a process group, as a shell's job does
    waits, reports = pipe()  # no other process has the writing end, so the pipe ends with this process
    try:
        pid = os.fork()
    except BaseException:
        os.close(reports)
        os.close(waits)
        raise
    if pid == 0:
        try:
            _watch(waits, host, is_shared)
        finally:
            os._exit(0)
    os.close(waits)
    with children.lock:
        children.started.add(pid)  # it is not an orphan of a plugin
    if is_shared:
        children.report_to(reports)
    return Watchdog(pid, reports)


def _watch(waits: int, host: int, is_shared: bool) -> None:
    os.setsid()
    for number in _IGNORED:
        _signal.signal(number, _signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.closerange(3, waits)  # the connection to the runtime, too, which must see that the host is gone
    os.closerange(waits + 1, 1 << 20)
    os.chdir("/")
    set_name(NAME)
    sessions, files = _read_reports(waits)
    if not is_shared:
        sessions = {host}
    if files:
        sessions |= _leaders_with(files)
    for _ in range(ROUNDS):
        left = [pid for pid in _pids() if pid != host and _is_alive_in(sessions, pid)]
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, SIGKILL)
            except OSError:
                pass  # it has ended


def _read_reports(waits: int) -> tuple[set[int], set[str]]:
    """Read the reports of :func:`nri.process.children.report_to` until the host is gone.

    :returns: the sessions whose leader is not reaped, and the standard files of a process that was being started.
    """
    sessions: set[int] = set()
    files: set[str] = set()
    rest = b""
    while data := os.read(waits, 65536):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            sign, what = line[:1], line[1:].decode()
            if sign == b"-":
                sessions.discard(int(what))
            else:
                named = what.split() if sign == b"?" else []
                files = {link for link in named if link.startswith(("pipe:[", "socket:["))}
            if sign == b"+":
                sessions.add(int(what))
    return sessions, files


def _leaders_with(files: set[str]) -> set[int]:
    """Return the leader of a session that has one of ``files`` as a standard file: no two plugins share a pipe.

    The process may be about to become a leader, or may never have started, so look for it for :data:`TIMEOUT`.
    """
    until = time.monotonic() + TIMEOUT
    while time.monotonic() < until:
        for pid in _pids():
            try:
                if os.getsid(pid) == pid and files & {os.readlink(f"/proc/{pid}/fd/{number}") for number in range(3)}:
                    return {pid}
            except OSError:
                continue  # it has ended
        time.sleep(0.01)
    return set()


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _is_alive_in(sessions: set[int], pid: int) -> bool:
    try:
        fields = stat_fields(pid)
    except OSError:
        return False  # it has ended
    return int(fields[3]) in sessions and fields[0] not in b"ZX"
