"""Starts a plugin's executable as a container runtime does, and sees to it that it ends.

What the process is given, and all that it is given: three environment variables, a connected socket as descriptor 3,
descriptors 0 to 2, the working directory. 0 is /dev/null; so are 1 and 2, unless what it prints is wanted. No signal
is ignored or blocked. It leads a process group of its own, which is killed with it.

Source: ``newLaunchedPlugin`` in pkg/adaptation/plugin.go of containerd/nri.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING

from nri.adaptation.errors import AdaptationError
from nri.errors import escape
from nri.process.inherit import SIGNALS, inheritable

if TYPE_CHECKING:
    from collections.abc import Callable

SOCKET = 3
"""The descriptor of the plugin's end of the connection."""

GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL."""

MAX_LINE = 4096
"""Bytes of a printed line; a longer one is handed out in pieces."""

_CHUNK = 65536
_CHUNKS_AT_ONCE = 16  # of what a plugin prints, before its answer is looked at


class Process:
    """A plugin's process. It is reaped by :meth:`end`, and by nothing else.

    :param on_line: called with each line that it prints, on stdout or stderr, in a thread of ours or in that of
        :meth:`drain`; never by two at once. None: both are /dev/null.
    :ivar sock: our end of the connection; whoever takes it closes it.
    :raises AdaptationError: when it can't be started.
    """

    def __init__(self, path: str, *, index: str, name: str, on_line: Callable[[str], None] | None = None) -> None:
        self.sock, theirs = socket.socketpair()
        self._printed = -1
        self._on_line = on_line
        self._line = b""
        self._reading = threading.Lock()
        self._reader: threading.Thread | None = None
        environment = {"NRI_PLUGIN_NAME": name, "NRI_PLUGIN_IDX": index, "NRI_PLUGIN_SOCKET": str(SOCKET)}
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        output = null
        try:
            if on_line is not None:
                self._printed, output = os.pipe2(os.O_CLOEXEC)
                os.set_blocking(self._printed, False)
            self.pid = _spawn(path, environment, [null, output, output, theirs.fileno()])
        except OSError as error:
            self.sock.close()
            if self._printed >= 0:
                os.close(self._printed)
            raise AdaptationError(f"{path} can't be started: {error.strerror or error}") from error
        finally:
            theirs.close()
            for fd in {null, output}:
                os.close(fd)
        if on_line is not None:
            self._reader = threading.Thread(target=self._read, name=f"nri-output-{index}-{name}", daemon=True)
            self._reader.start()

    def drain(self) -> None:
        """Hand out what it has printed by now."""
        with self._reading:
            for _ in range(_CHUNKS_AT_ONCE):
                if self._printed < 0:
                    return
                try:
                    data = os.read(self._printed, _CHUNK)
                except BlockingIOError:
                    return
                if not data:
                    self._stop_reading()
                    return
                *lines, self._line = (self._line + data).split(b"\n")
                for line in lines:
                    self._hand_out(line)
                while len(self._line) > MAX_LINE:
                    self._hand_out(self._line[:MAX_LINE])
                    self._line = self._line[MAX_LINE:]

    def end(self) -> int:
        """Ask it to end, kill it if it does not, reap it; returns the exit status, a negative one is a signal."""
        pidfd = _pidfd(self.pid)
        try:
            if not _exited(self.pid, pidfd, 0):
                _signal(self.pid, signal.SIGTERM)
                _exited(self.pid, pidfd, GRACE)
            _signal(self.pid, signal.SIGKILL)  # what is left of its group
        finally:
            if pidfd >= 0:
                os.close(pidfd)
        try:
            status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        except ChildProcessError:
            status = 0  # somebody else's waitpid was faster
        if self._reader is not None:
            self.drain()
            with self._reading:  # a process that left its group may hold the pipe open
                self._stop_reading()
            self._reader.join()
        return status

    def _read(self) -> None:
        while self._printed >= 0:
            poll = select.poll()
            try:
                poll.register(self._printed, select.POLLIN)
                ready = poll.poll(100)
            except (OSError, ValueError):
                return
            if ready:
                self.drain()

    def _hand_out(self, line: bytes) -> None:
        assert self._on_line is not None  # noqa: S101 - there is no pipe without it
        self._on_line(escape(line.decode("utf-8", "replace")))

    def _stop_reading(self) -> None:
        if self._printed >= 0:
            os.close(self._printed)
            self._printed = -1
            if self._line:
                self._hand_out(self._line)


def _spawn(path: str, environment: dict[str, str], descriptors: list[int]) -> int:
    """Start it; ``descriptors`` become 0, 1, and so on."""
    # Out of the way first: one that is the target of another would be overwritten.
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in descriptors]
    actions: list[tuple[int, int] | tuple[int, int, int]] = [(os.POSIX_SPAWN_CLOSE, fd) for fd in inheritable()]
    actions += [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(moved)]
    try:
        return os.posix_spawn(
            path, [path], environment, file_actions=actions, setsid=True, setsigmask=(), setsigdef=SIGNALS
        )
    finally:
        for fd in moved:
            os.close(fd)


def _pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except OSError:  # kernels before 5.3
        return -1


def _exited(pid: int, pidfd: int, seconds: float) -> bool:
    """Wait until it has exited, at most so long. It stays to be reaped, so its number stays its own."""
    if pidfd >= 0:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    until = time.monotonic() + seconds
    while True:
        try:
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return True
        except ChildProcessError:
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(0.01)


def _signal(pid: int, number: int) -> None:
    for kill in (os.killpg, os.kill):  # the process itself may have left its group
        try:
            kill(pid, number)
        except (ProcessLookupError, PermissionError):
            pass
