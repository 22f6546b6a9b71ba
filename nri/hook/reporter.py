"""Writes the hook's lines to stderr and to the log file. Neither can block the hook.

A line that stderr does not accept within :data:`TIMEOUT` is lost, and so are all later lines; the exit status still
reaches the runtime. The log file may be a FIFO or a device: a line that it does not accept at once is lost, which
stderr reports.
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
"""Seconds that all writes to stderr together may wait."""

_PIECE = 4096  # PIPE_BUF: bytes that a pipe accepts without blocking after poll(2) has reported it writable
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


class Reporter:
    """Writes lines to stderr and a log file.

    :param stderr: any text file; it may be None or closed.
    :param log_file: the path of the log file; "" for none.
    """

    def __init__(self, stderr: TextIO | None, log_file: str = "") -> None:
        self.log_file = log_file
        self._stderr = stderr
        self._fd = _descriptor(stderr)
        self._left = TIMEOUT

    def say(self, line: str) -> None:
        """Write a line. It is lost if neither file accepts it."""
        line = escape(line)
        if self.log_file and (wrong := self._append(line)):
            line += "\n" + escape(f"nri hook: the log file {self.log_file} cannot be written: {wrong}")
        try:
            if self._fd >= 0:
                self._write(f"{line}\n".encode(errors="backslashreplace"))
            elif self._stderr is not None:
                self._stderr.write(line + "\n")
                self._stderr.flush()
        except (OSError, ValueError):
            pass

    def _append(self, line: str) -> str:
        """Append to the log file; return the error, "" for none."""
        data = f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {line}\n".encode()
        try:
            fd = os.open(self.log_file, _FLAGS, 0o600)
            try:
                return "" if os.write(fd, data) == len(data) else "it does not accept a whole line"
            finally:
                os.close(fd)
        except OSError as error:
            return self._kind(error) or str(error.strerror)

    def _kind(self, error: OSError) -> str:
        """Return the kind of the log file if the kind is the cause of ``error``; ENXIO alone does not name it."""
        if error.errno != errno.ENXIO:
            return ""
        try:
            kind = stat.S_IFMT(os.stat(self.log_file).st_mode)
        except OSError:
            return ""  # the file was removed
        return {stat.S_IFIFO: "it is a FIFO that no process reads", stat.S_IFSOCK: "it is a socket"}.get(kind, "")

    def _write(self, data: bytes) -> None:
        # O_NONBLOCK would affect every process that shares the descriptor, so poll instead.
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        while data and self._left > 0:
            asked = time.monotonic()
            if poll.poll(self._left * 1000):
                data = data[os.write(self._fd, data[:_PIECE]) :]
            self._left -= time.monotonic() - asked


def _descriptor(file: TextIO | None) -> int:
    try:
        return -1 if file is None else file.fileno()
    except (OSError, ValueError):  # no descriptor, or closed
        return -1
