"""Lines for people: to stderr and to a log file. Neither can block the process that a container's start waits for.

A line that stderr does not accept within ``TIMEOUT`` is lost, and so are all later lines; the exit status still
reaches the caller. The log file may be a FIFO or a device: a line that it does not accept at once is lost, which
stderr reports. O_NONBLOCK would affect every process that shares a descriptor, so stderr is polled.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import time

from nri.errors import escape
from nri.files import open_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO, TextIO

TIMEOUT = 1.0
"""Seconds that all writes to stderr together may wait."""

# Bytes that a pipe accepts without blocking after poll(2) has reported it writable.
_PIPE_BUF = 4096


class Reporter:
    """Writes lines to stderr, which may be None or closed, and to a log file, "" for none.

    :param program: the name of the program, for the message that the log file cannot be written.
    """

    def __init__(self, stderr: TextIO | None, log_file: str = "", *, program: str = "nri") -> None:
        self.log_file = log_file
        self._program = program
        self._stderr = stderr
        self._fd = descriptor(stderr)
        self._left = TIMEOUT

    def write(self, line: str) -> None:
        """Write a line. It is lost if neither file accepts it."""
        self.put(line, escape(line))

    def put(self, line: str, shown: str) -> None:
        """Write a line to the log file, and another text to stderr; "" for none."""
        line = escape(line)
        text = shown
        if self.log_file:
            data = f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {line}\n".encode()
            if wrong := append(self.log_file, data):
                text += "\n" if text else ""
                text += escape(
                    f"{self._program}: the log file {self.log_file} cannot be written: {wrong}"
                )
        if text:
            self._show(text)

    def _show(self, line: str) -> None:
        try:
            if self._fd >= 0:
                self._write(f"{line}\n".encode(errors="backslashreplace"))
            elif self._stderr is not None:
                self._stderr.write(line + "\n")
                self._stderr.flush()
        except (OSError, ValueError):
            pass

    def _write(self, data: bytes) -> None:
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        while data and self._left > 0:
            asked = time.monotonic()
            if poll.poll(self._left * 1000):
                data = data[os.write(self._fd, data[:_PIPE_BUF]) :]
            self._left -= time.monotonic() - asked


def append(path: str, data: bytes) -> str:
    """Append to a log file, by ``nri.files.open_log``; return the error, "" for none."""
    try:
        fd = open_log(path)
        try:
            if os.write(fd, data) == len(data):
                return ""
            return "it does not accept a whole line"
        finally:
            os.close(fd)
    except OSError as error:
        return _kind(path, error) or str(error.strerror)


def _kind(path: str, error: OSError) -> str:
    """Return the kind of the log file if the kind is the cause of ``error``; ENXIO alone does not name it."""
    try:
        if error.errno == errno.ENXIO:
            kind = stat.S_IFMT(os.stat(path).st_mode)
        else:
            kind = 0
    except OSError:
        return ""  # the file was removed
    return {
        stat.S_IFIFO: "it is a FIFO that no process reads",
        stat.S_IFSOCK: "it is a socket",
    }.get(kind, "")


def descriptor(file: BinaryIO | TextIO | None) -> int:
    """Return the descriptor of a file; -1 if it has none, or is closed."""
    try:
        return -1 if file is None else file.fileno()
    except (OSError, ValueError):
        return -1
