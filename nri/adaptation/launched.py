"""The plugins that a runtime launches: found, configured, started as a container runtime does it, and ended.

A process gets three environment variables, a connected socket as descriptor 3, descriptors 0 to 2 and the working
directory, and nothing else. 0 is /dev/null; so are 1 and 2, unless the caller wants its output. No signal is ignored
or blocked. It leads a session of its own, and its process group is killed with it.

Source: ``discoverPlugins`` in pkg/adaptation/adaptation.go of containerd/nri, ``newLaunchedPlugin`` and
``getPluginConfig`` in plugin.go.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable

from nri.adaptation.errors import AdaptationError
from nri.errors import reason_of
from nri.process.children import end_child, has_exited, kill_group
from nri.process.conversation import Lines
from nri.process.spawn import spawn
from nri.v2.api import names
from nri.v2.api.names import INDEX_VARIABLE, NAME_VARIABLE, SOCKET_VARIABLE

SOCKET = 3
"""The descriptor of the plugin's end of the connection."""

GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL."""

_CHUNK = 65536
_MAX = 1 << 30


def _ignore(line: str) -> None:
    """Do nothing with a line."""


class LaunchedPlugin:
    """The process of a plugin. Only ``end`` reaps it.

    :param on_line: called by ``drain`` and ``end`` with each line that it has printed, on stdout or stderr. None:
        both are /dev/null.
    :ivar sock: our end of the connection; the code that takes it closes it.
    :raises AdaptationError: when it cannot be started.
    """

    def __init__(
        self, path: str, *, index: str, name: str, on_line: Callable[[str], None] | None = None
    ) -> None:
        self.index = index
        self.name = name
        self.sock, theirs = socket.socketpair()
        self._read = 0
        environment = {NAME_VARIABLE: name, INDEX_VARIABLE: index, SOCKET_VARIABLE: str(SOCKET)}
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        if on_line is None:
            self._lines = Lines(_ignore, _MAX)
            self._printed = os.dup(null)
        else:  # a file: nothing that it prints can block it, or us
            self._lines = Lines(on_line, _MAX)
            self._printed = os.memfd_create("output", os.MFD_CLOEXEC)
        try:
            files = (null, self._printed, self._printed, theirs.fileno())
            self.pid = spawn(path, [path], files, environment=environment)
        except OSError as error:
            self.sock.close()
            os.close(self._printed)
            raise AdaptationError(f"{path} can't be started: {reason_of(error)}") from error
        finally:
            theirs.close()
            os.close(null)

    def drain(self) -> None:
        """Hand out the lines that it has printed so far."""
        while data := os.pread(self._printed, _CHUNK, self._read):
            self._read += len(data)
            self._lines.feed(data)

    def end(self) -> int:
        """Ask it to end, kill it if it does not, reap it; return the exit status, a negative one is a signal."""
        if not has_exited(self.pid):
            kill_group(self.pid, signal.SIGTERM)
        status = end_child(self.pid, GRACE)
        self.drain()
        self._lines.finish()
        os.close(self._printed)
        return status


class NotLaunched:
    """In place of the process of a plugin that the runtime has not launched: it connects, and then says its name."""

    index = "??"
    name = "plugin"

    def drain(self) -> None:
        """Hand out nothing: it prints what it prints."""

    def end(self) -> None:
        """Leave it alone."""


def parse_name(file: str) -> tuple[str, str]:
    """Return the index and name of the executable ``NN-name``.

    :raises AdaptationError: when it has another name.
    """
    index, name = names.split_executable(file)
    if names.find_fault(name, index):
        raise AdaptationError(f"found {file!r}, expected a plugin's name such as 10-logger")
    return index, name


def discover(directory: str | None) -> list[tuple[str, str, str]]:
    """Return index, name and path of the executables in a plugin directory, sorted; none without a directory.

    :raises AdaptationError: when the directory can't be read, or an executable is not called ``NN-name``.
    """
    if directory is None:
        return []
    try:
        with os.scandir(directory) as entries:
            files = sorted(
                entry.name for entry in entries if entry.is_file() and entry.stat().st_mode & 0o111
            )
    except FileNotFoundError:
        return []
    except OSError as error:
        raise AdaptationError(f"{directory} can't be read: {error.strerror}") from error
    return [(*parse_name(file), os.path.join(os.path.abspath(directory), file)) for file in files]


def configuration(directory: str | None, index: str, name: str) -> str:
    """Return the text of a plugin's drop-in file, ``NN-name.conf`` or else ``name.conf``; "" if neither exists.

    :raises AdaptationError: when it can't be read, or is not UTF-8.
    """
    if directory is None:
        return ""
    for file in (f"{index}-{name}.conf", f"{name}.conf"):
        path = os.path.join(directory, file)
        try:
            with open(path, encoding="utf-8") as text:
                return text.read()
        except FileNotFoundError:
            continue
        except UnicodeDecodeError as error:
            raise AdaptationError(f"{path} is not UTF-8 at byte {error.start}") from error
        except OSError as error:
            raise AdaptationError(f"{path} can't be read: {error.strerror}") from error
    return ""
