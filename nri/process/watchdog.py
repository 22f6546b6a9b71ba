"""The guard: a process that kills what a host was running, when the host ends without doing so itself.

A host that is told to end sees to its plugins itself. One that is killed (SIGKILL, out of memory, a crash of the
interpreter) can't, and a plugin at work would go on without a deadline. So a host forks the guard when it begins. The
guard waits until the host is gone, kills what is left of the host's processes, and ends. It finds them by their
session, which a process leaves only by ``setsid``. There are two cases:

- The host leads a session, or can make one: hosts that a runtime or systemd starts, and hooks. What it starts is in
  that session.
- The session is another's, as that of a shell in which a bridge is started as a job. Then each process that the host
  starts gets a session of its own, and the host reports these to the guard (:func:`nri.process.spawn.report_to`).

The guard holds nothing of the host's: its descriptors 0, 1 and 2 are /dev/null, its directory is the root, and it is
in a session of its own. So a runtime that waits for the end of a hook's stderr does not wait for the guard.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # the signal module would import enum
import os
import time

from nri.process import spawn

ROUNDS = 100
"""Times that the guard looks again: a process may fork while its siblings are killed."""

TIMEOUT = 0.5
"""Seconds that the guard looks for a process which the host was starting when it ended."""

_IGNORED = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGQUIT, _signal.SIGALRM)


class Watchdog:
    """The guard's process, seen by the host."""

    def __init__(self, pid: int, told: int) -> None:
        self.pid = pid
        self._told = told

    def dismiss(self) -> None:
        """End it and reap it: nothing is running that it would have to kill."""
        try:
            os.kill(self.pid, _signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._reap()

    def sweep(self) -> None:
        """Have it kill what is left, and reap it."""
        self._reap()

    def _reap(self) -> None:
        with spawn.starting:
            spawn.report_to(-1)
            os.close(self._told)
            try:
                os.waitpid(self.pid, 0)
            except ChildProcessError:
                pass  # SIGCHLD is ignored, and the kernel has reaped it
            spawn.started.discard(self.pid)


def keep(*, make_session: bool) -> Watchdog:
    """Fork the guard.

    To be called before there are threads, and before much is loaded: the guard keeps a copy of it in memory.

    :param make_session: leave the session of the caller, so that the guard can go by the session.
    :raises OSError: when there can be no other process.
    """
    host = os.getpid()
    is_shared = os.getsid(0) != host
    if is_shared and make_session:
        try:
            os.setsid()
            is_shared = False
        except PermissionError:
            pass  # it leads a process group, as the job of a shell does
    waits, told = spawn.pipe()  # no other process has the writing end, so the pipe ends with this process
    try:
        pid = os.fork()
    except BaseException:
        os.close(told)
        os.close(waits)
        raise
    if pid == 0:
        try:
            _guard(waits, host, is_shared)
        finally:
            os._exit(0)
    os.close(waits)
    with spawn.starting:
        spawn.started.add(pid)  # it is no orphan of a plugin
    if is_shared:
        spawn.report_to(told)
    return Watchdog(pid, told)


def _guard(waits: int, host: int, is_shared: bool) -> None:
    os.setsid()
    for number in _IGNORED:
        _signal.signal(number, _signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.closerange(3, waits)  # above all the connection to the runtime, which has to see that the host is gone
    os.closerange(waits + 1, 1 << 20)
    os.chdir("/")
    _rename()
    sessions, files = _await_end(waits)
    if not is_shared:
        sessions = {host}
    if files:
        sessions |= _leaders_with(files)
    for _ in range(ROUNDS):
        left = [pid for pid in _of_sessions(sessions) if pid != host]
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, _signal.SIGKILL)
            except OSError:
                pass  # it has ended


def _await_end(waits: int) -> tuple[set[int], set[str]]:
    """Wait until the host is gone; return what it has reported (:func:`nri.process.spawn.report_to`).

    These are the sessions whose leader it has not reaped, and the standard files of a process that it was about to
    start when it ended.
    """
    sessions: set[int] = set()
    files: set[str] = set()
    rest = b""
    while data := os.read(waits, 65536):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            sign, what = line[:1], line[1:].decode()
            if sign == b"?":
                files = {link for link in what.split() if link.startswith(("pipe:[", "socket:["))}
                continue
            if sign == b"-":
                sessions.discard(int(what))
                continue
            files = set()
            if sign == b"+":
                sessions.add(int(what))
    return sessions, files


def _leaders_with(files: set[str]) -> set[int]:
    """Return the leader of a session that has one of these as a standard file: a plugin's pipes are its own.

    The process may be about to get there, or may never have come to be: it is looked for :data:`TIMEOUT` long.
    """
    until = time.monotonic() + TIMEOUT
    while time.monotonic() < until:
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and os.getsid(int(name)) == int(name) and files & _standard_files(name):
                    return {int(name)}
            except OSError:
                continue  # it has ended
        time.sleep(0.01)
    return set()


def _standard_files(pid: str) -> set[str]:
    return {os.readlink(f"/proc/{pid}/fd/{number}") for number in (0, 1, 2)}


def _of_sessions(sessions: set[int]) -> list[int]:
    """Return the living processes of these sessions."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it has ended
        if int(fields[3]) in sessions and fields[0] not in b"ZX":
            found.append(int(name))
    return found


def _rename() -> None:
    """Tell it from the host in a list of processes."""
    try:
        with open("/proc/self/comm", "w", encoding="ascii") as file:
            file.write("nri-guard")
    except OSError:
        pass  # it is a courtesy
