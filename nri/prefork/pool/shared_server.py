"""One server process for the plugins of the host's own build, which are in the host's executable, too.

The server of a plugin is an interpreter with :mod:`nri.skel`; what is different between two of them is small. So one
process, started from this process's own executable, loads those plugins of this build that are configured, and forks
the workers of each (:mod:`nri.prefork.server.sharing`). It ends with its last plugin.

A plugin gets a server of its own in all other cases: if it is of another build or another folder, if this process is
not compiled, if its executable was replaced or deleted, and if the shared server does not start or refuses it.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
import threading
import time
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_SEQPACKET, SOL_SOCKET, socketpair
from typing import TYPE_CHECKING, NamedTuple

from nri import build_mark
from nri.prefork import protocol
from nri.prefork.pool import in_background
from nri.prefork.pool.server_handle import ServerHandle, last_line
from nri.prefork.pool.server_process import END_WITHIN
from nri.prefork.pool.watched_files import AT_ONCE, PAUSE, Files, Look, Seen, first_changed, identity
from nri.process.spawn import pipe, spawn
from nri.process.wait import end_child, has_exited

if TYPE_CHECKING:
    from collections.abc import Callable

LOADED_WITHIN = 10.0  # seconds that the server has to start and to load a plugin, others before it included
RETRY = 60.0  # seconds without another attempt after the server has not started
_CHUNK = 65536
_logger = logging.getLogger("nri.client")


class Command(NamedTuple):
    """The command that starts a shared server."""

    path: str
    argv: list[str]


class _TryAgainError(Exception):
    """The server has just ended, or one of its files may have changed while it was loaded."""


class Joined(NamedTuple):
    """A plugin that a shared server has loaded."""

    server: ServerHandle
    files: Files  # that the plugin was loaded from, without its executable


def own_command() -> Command | None:
    """Return the command of this process's own executable, or None if it was deleted or replaced, or has no mark."""
    try:
        running, build, _ = build_mark.read(build_mark.OWN)
        path, found, _ = build_mark.read(running)
    except OSError:
        return None  # it was deleted, for example
    return Command(path, [os.path.basename(path), protocol.SHARED_VERB, build]) if build and found == build else None


class SharedProcess:
    """A shared server that was started. It ends when its last plugin has left it.

    :raises OSError: when it cannot be started.
    """

    is_shared = True
    stderr = -1

    def __init__(self, command: Command) -> None:
        self.files: Files = {}  # that it was loaded from, as they were then
        self.is_trusted = True  # False if it must not serve another plugin
        self._lock = threading.Lock()
        self._plugins = 0
        self._output, output = pipe()
        self._control, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
        try:
            os.set_blocking(self._output, False)
            self._pid = spawn(command.path, command.argv, (theirs.fileno(), output, output))
        except BaseException:
            self._control.close()
            os.close(self._output)
            raise
        finally:
            theirs.close()
            os.close(output)

    def is_usable(self) -> bool:
        """Return whether it can serve another plugin."""
        return self.is_trusted and not self._has_ended() and not first_changed(self.files)

    def join(self, order: list[str], control: int) -> SharedProcess:
        """Hand over a plugin.

        :param order: the argument of ``serve``.
        :param control: the server's end of the plugin's control socket.
        :raises OSError: when the server is gone.
        """
        with self._lock:
            if self._pid == 0:
                raise ConnectionResetError
            message = protocol.encode_message(protocol.SERVE, protocol.encode_files(order))
            rights = control.to_bytes(4, sys.byteorder)
            self._control.sendmsg([message], [(SOL_SOCKET, SCM_RIGHTS, rights)])
            self._plugins += 1
        return self

    def distrust(self) -> None:
        """Let it serve no other plugin."""
        self.is_trusted = False

    def leave(self, *, wait: bool) -> None:
        """Count a plugin less; the last one ends the process."""
        with self._lock:
            self._plugins -= 1
            is_last = self._plugins == 0
        if is_last:
            self.end(wait=wait)

    def end(self, *, wait: bool = False) -> None:
        """End it, with all workers."""
        with self._lock:
            pid, self._pid = self._pid, 0
        if pid == 0:
            return
        self._control.close()
        os.close(self._output)
        if wait or not in_background(end_child, pid, END_WITHIN):
            end_child(pid, END_WITHIN)

    def tidy(self) -> None:
        """Reap it if it has ended by itself."""
        if self._has_ended():
            self.end(wait=True)

    def _has_ended(self) -> bool:
        with self._lock:
            return self._pid == 0 or has_exited(self._pid)

    def last_words(self) -> str:
        """Return the last line of its output before it served, or ""."""
        with self._lock:  # the descriptor is closed when the number is 0
            try:
                return "" if self._pid == 0 else last_line(os.read(self._output, _CHUNK))
            except OSError:
                return ""


class SharedServer:
    """The shared server of a pool: it is started with the first plugin, and replaced when it cannot be used.

    :param command: returns the command, or None if there can be no shared server.
    """

    def __init__(self, command: Callable[[], Command | None] = own_command) -> None:
        self._command = command
        self._lock = threading.Lock()  # held while a plugin is loaded
        self._process: SharedProcess | None = None
        self._retry_at = 0.0  # of time.monotonic()
        self._refused: set[str] = set()  # modules

    def join(self, path: str, plugin: str) -> Joined | None:
        """Have the plugin at ``path`` loaded; return None if it needs a server of its own."""
        executable, module = build_mark.read_own_plugin(path)
        if not module or module in self._refused:
            return None
        until = time.monotonic() + LOADED_WITHIN
        if not self._lock.acquire(timeout=LOADED_WITHIN):
            return None
        try:
            if time.monotonic() < self._retry_at:
                return None
            for left in reversed(range(AT_ONCE)):
                try:
                    return self._join(plugin, [module, path, executable], until)
                except _TryAgainError as error:
                    if not left:
                        return self._give_up(plugin, str(error))
                time.sleep(PAUSE)
            return None
        finally:
            self._lock.release()

    def _join(self, plugin: str, order: list[str], until: float) -> Joined | None:
        process = self._process
        if process is not None and process.is_usable():
            look = Look(Seen(process.files, 0))
        else:
            if process is not None:
                process.tidy()
            self._process = process = None
            command = self._command()
            if command is None:
                return None
            look = Look(None)
            try:
                process = self._process = SharedProcess(command)
            except OSError as error:
                self._retry_at = time.monotonic() + RETRY
                return self._give_up(plugin, f"it cannot be started: {error.strerror}")
        try:
            server = ServerHandle(plugin, functools.partial(process.join, order))
        except OSError as error:
            process.distrust()
            raise _TryAgainError(f"it is gone: {error.strerror}") from error
        why = server.load(until)
        if why == "":
            found: Files = {}
            why = _changed(server.files, process.files, look, found)
            if why == "":
                process.files = process.files | found
                return Joined(server, found)
            process.distrust()
            server.retire()
            raise _TryAgainError(why)
        if server.has_refused:
            self._refused.add(order[0])
        else:
            process.distrust()
            why = process.last_words() or why
            self._retry_at = time.monotonic() + RETRY
        server.retire()
        return self._give_up(plugin, why)

    def _give_up(self, plugin: str, why: str) -> Joined | None:
        _logger.warning("%s has no shared server: %s", plugin, why)
        return None


def _changed(paths: list[str], known: Files, look: Look, found: Files) -> str:
    """Return the reason why the files may differ from the loaded ones, or "".

    :param known: files that were loaded earlier, as they were then.
    :param look: made before the others were loaded.
    :param found: gets the files as they are now.
    """
    try:
        found.update({path: identity(path) for path in paths})
    except OSError as error:
        return f"a file is not there: {error.filename}"
    for path in paths:
        if known.get(path, found[path]) != found[path]:
            return f"a file has changed: {path}"
    return look.changed({path: each for path, each in found.items() if path not in known})
