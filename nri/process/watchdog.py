"""The watchdog: a process that kills a host's plugins when the host itself was killed.

Each plugin leads a session, which a process leaves only by ``setsid``. The host lists the plugins in a file in memory
that both share (``nri.process.children.list_in``), so it need not report anything, and the watchdog sleeps until
the host is gone. One whose pid is not listed yet is found by the pipe that is its stdin. The watchdog holds nothing
else of the host: a runtime that waits for the end of a hook's stderr does not wait for it.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # the signal module would import enum
import os
from _thread import allocate_lock

from nri.process import children
from nri.process.children import SIGKILL, close_all, stat_fields
from nri.process.spawn import above_standard_files, close_others, pipe, set_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "nri-watchdog"
"""The name of its process for the kernel; its command line is the host's."""

# Times that the watchdog looks for processes: one may fork while its siblings are killed.
ROUNDS = 100
SIGCONT = 18  # the signal's number

_IGNORED = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGQUIT, _signal.SIGALRM)


_own: Watchdog | None = None
_looking = allocate_lock()


class Watchdog:
    """The watchdog's process, as the host sees it."""

    def __init__(self, pid: int, alive: int, plugins: int) -> None:
        self.pid = pid
        self._alive = alive
        self._plugins = plugins
        self._is_stopped = False

    def look(self) -> str:
        """Start it anew if it has ended, or let it go on if it was stopped; return why it does not watch, or ""."""
        try:
            state = stat_fields(self.pid)[0]
        except OSError:
            state = b"X"
        was_stopped = self._is_stopped
        self._is_stopped = state in b"Tt"
        if self._is_stopped:
            os.kill(self.pid, SIGCONT)
            if was_stopped:
                return f"its watchdog, process {self.pid}, is stopped"
            return ""
        if state not in b"ZX":
            return ""
        try:
            new = start(forgets=True, goes_on=True)
        except OSError as error:
            return f"its watchdog has ended, and no other can be started: {error.strerror}"
        self._close()
        self.pid = new.pid
        self._alive = new._alive
        self._plugins = new._plugins
        return ""

    def end(self, *, sweeps: bool) -> None:
        """End and reap it: the host runs no plugin any more.

        :param sweeps: have it kill the remaining processes of plugins first.
        """
        try:
            if sweeps:
                os.write(self._alive, b"!")
            else:
                os.kill(self.pid, SIGKILL)
        except OSError:
            pass  # it has ended
        with children.lock:
            children.list_in(-1)
        self._close()

    def _close(self) -> None:
        with children.lock:
            os.close(self._alive)
            os.close(self._plugins)
            try:
                os.waitpid(self.pid, 0)
            except ChildProcessError:
                pass  # SIGCHLD is ignored, and the kernel has reaped it
            children.started.discard(self.pid)


def start(
    *, forgets: bool = False, goes_on: bool = False, then: Callable[[], object] | None = None
) -> Watchdog:
    """Fork the watchdog.

    Call it before much is loaded: the watchdog keeps a copy of the memory.

    :param forgets: as for ``nri.process.children.list_in``; likewise *goes_on*.
    :param then: called in the watchdog's process, in the host's directory, when the host was killed; no plugin runs.
    :raises OSError: when no process can be forked.
    """
    made: list[int] = []
    with children.lock:  # until it is known, it looks like an orphan of a plugin
        try:
            made += above_standard_files(os.memfd_create("nri-plugins", os.MFD_CLOEXEC))
            made += pipe()
            pid = os.fork()
        except BaseException:
            close_all(made)
            raise
        # No other process has the writing end of the pipe, so it ends with this process.
        plugins, waits, alive = made
        if pid == 0:
            try:
                children.lock.release()
                _watch(waits, plugins, then)
            finally:
                os._exit(0)
        children.started.add(pid)
        children.list_in(plugins, forgets=forgets, goes_on=goes_on)
    os.close(waits)
    return Watchdog(pid, alive, plugins)


def start_own() -> None:
    """Start the watchdog of a process that stays, for ``look``.

    :raises OSError: when no process can be forked.
    """
    global _own  # noqa: PLW0603 - a process has one
    _own = start(forgets=True)


def look() -> str:
    """Look after the watchdog of ``start_own``, as ``Watchdog.look``; from any thread."""
    with _looking:
        return "" if _own is None else _own.look()


def _watch(waits: int, plugins: int, then: Callable[[], object] | None) -> None:
    os.setsid()
    for number in _IGNORED:
        _signal.signal(number, _signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    # All others are closed, the connection to the runtime, too, which must see that the host is gone.
    close_others(waits, plugins)
    if then is None:
        os.chdir("/")
    set_name(NAME)
    is_alive = os.read(waits, 1)
    sessions, stdins = children.listed(plugins)
    if stdins:  # the host was killed while it started a plugin
        sessions |= {
            pid for pid in children.pids() if pid != os.getpid() and _stdin_of(pid) in stdins
        }
    for _ in range(ROUNDS):
        left = children.alive_in(sessions)
        if not left:
            break
        for pid in left:
            try:
                os.kill(pid, SIGKILL)
            except OSError:
                pass  # it has ended
    if then is not None and not is_alive:
        then()


def _stdin_of(pid: int) -> str:
    try:
        return children.identity(os.stat(f"/proc/{pid}/fd/0"))
    except OSError:
        return ""  # it has ended, or has closed it
