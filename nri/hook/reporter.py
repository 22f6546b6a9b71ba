"""Writes the hook's lines to its stderr, and to a log file where there is one. Neither can block the hook.

A line that stderr does not take within :data:`TIMEOUT` is lost, as are those after it: the exit status still tells
the runtime. The log file may be a FIFO or a device; what it does not take at once is lost, and stderr says so.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import time

from nri.errors import escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

TIMEOUT = 1.0
"""Seconds that stderr gets, in all, to take what it does not take at once."""

_PIECE = 4096  # bytes that a pipe takes without blocking where poll(2) says that it can be written to: PIPE_BUF
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


class Outlet:
    """Writes lines to stderr and a log file.

    :param stderr: of this process, or any text file; it may be None or closed.
    :param log: the path of the log file, "" for none.
    """

    def __init__(self, stderr: TextIO | None, log: str = "") -> None:
        self.log = log
        self._stderr = stderr
        self._fd = _descriptor(stderr)
        self._patience = TIMEOUT

    def say(self, line: str) -> None:
        """Write a line. If it can be written nowhere it is lost."""
        line = escape(line)
        if self.log and (wrong := self._append(line)):
            line += "\n" + escape(f"nri hook: the log file {self.log} cannot be written: {wrong}")
        try:
            if self._fd >= 0:
                self._write(f"{line}\n".encode(errors="backslashreplace"))
            elif self._stderr is not None:
                self._stderr.write(line + "\n")
                self._stderr.flush()
        except (OSError, ValueError):
            pass

    def _append(self, line: str) -> str:
        """Write to the log; return the error, "" for none."""
        data = f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {line}\n".encode()
        try:
            fd = os.open(self.log, _FLAGS, 0o600)
            try:
                return "" if os.write(fd, data) == len(data) else "it does not take a whole line"
            finally:
                os.close(fd)
        except OSError as error:
            return self._kind(error) or str(error.strerror)

    def _kind(self, error: OSError) -> str:
        """Return what the log is, where that is why it can't be opened; ENXIO alone does not tell."""
        if error.errno != errno.ENXIO:
            return ""
        try:
            kind = stat.S_IFMT(os.stat(self.log).st_mode)
        except OSError:
            return ""  # it is gone
        return {stat.S_IFIFO: "it is a FIFO that no process reads", stat.S_IFSOCK: "it is a socket"}.get(kind, "")

    def _write(self, data: bytes) -> None:
        # The descriptor is shared with whoever gave it to us, so it can't be made non-blocking.
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        while data and self._patience > 0:
            asked = time.monotonic()
            if poll.poll(self._patience * 1000):
                data = data[os.write(self._fd, data[:_PIECE]) :]
            self._patience -= time.monotonic() - asked


def _descriptor(file: TextIO | None) -> int:
    try:
        return -1 if file is None else file.fileno()
    except (OSError, ValueError):  # it is no file of the kernel's, or is closed
        return -1
