"""The hook's files: the container's state on stdin; lines to stderr and to the log file. None can block the hook.

A line that stderr does not accept within :data:`TIMEOUT` is lost, and so are all later lines; the exit status still
reaches the runtime. The log file may be a FIFO or a device: a line that it does not accept at once is lost, which
stderr reports. O_NONBLOCK would affect every process that shares a descriptor, so stdin and stderr are polled.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import time

from nri.errors import NRIError, escape
from nri.types import gojson
from nri.types.errors import DecodeError
from nri.types.jsonobject import integer, mismatch, string, string_map

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO, TextIO

    from nri.hook.deadline import Deadline

MAX_STATE = 1024 * 1024
"""Bytes of a state that are accepted; a real one has some thousands."""

TIMEOUT = 1.0
"""Seconds that all writes to stderr together may wait."""

_PIPE_BUF = 4096  # bytes that a pipe accepts without blocking after poll(2) has reported it writable
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
_EXPECTED = "expected what an OCI runtime writes"


class OCIState:
    """The container's state (OCI runtime specification, "State").

    :raises DecodeError: if the document is not a valid state.
    """

    def __init__(self, document: bytes) -> None:
        try:
            if len(document) > MAX_STATE:
                raise DecodeError(f"found more than {MAX_STATE} bytes")
            value = gojson.loads(document)
            if not isinstance(value, dict):
                raise mismatch(value, "the document", "an object")
            self.id = string(value.get("id"), "id")
            self.pid = integer(value.get("pid"), "pid")
            self.bundle = string(value.get("bundle"), "bundle")
            self.annotations = string_map(value.get("annotations"), "annotations")
            for key in ("id", "bundle"):
                if not value.get(key):
                    raise DecodeError(f"{key}: found nothing, expected the container's")
            if not self.bundle.startswith("/"):
                raise DecodeError(f"bundle: found {self.bundle!r}, expected an absolute path")
        except DecodeError as error:
            raise DecodeError(f"the container's state on stdin: {error}; {_EXPECTED}") from None


def read_state(stdin: BinaryIO, deadline: Deadline) -> bytes:
    """Return the bytes on ``stdin``, at most a little more than a state may have.

    :raises NRIError: if it cannot be read, or is still open at the deadline.
    """
    fd = _descriptor(stdin)
    try:
        document = stdin.read(MAX_STATE + 1) if fd < 0 else _read(fd, deadline)
        if document is None:  # non-blocking, and empty
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    except OSError as error:
        reason = f"the container's state on stdin: cannot be read: {error.strerror}"
        raise DecodeError(f"{reason}; {_EXPECTED}") from None
    return document


def _read(fd: int, deadline: Deadline) -> bytes:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    document = b""
    while len(document) <= MAX_STATE:
        left = deadline.left()
        if left == 0 or not poll.poll(left * 1000 + 1):
            what = f"the container's state on stdin is incomplete after {len(document)} bytes"
            raise NRIError(deadline.passed(f"{what}; {_EXPECTED}"))
        try:
            piece = os.read(fd, 65536)
        except BlockingIOError:
            continue  # another process has read it
        if not piece:
            break
        document += piece
    return document


class Reporter:
    """Writes lines to stderr, which may be None or closed, and to a log file, "" for none."""

    def __init__(self, stderr: TextIO | None, log_file: str = "") -> None:
        self.log_file = log_file
        self._stderr = stderr
        self._fd = _descriptor(stderr)
        self._left = TIMEOUT

    def write(self, line: str) -> None:
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
        try:
            kind = stat.S_IFMT(os.stat(self.log_file).st_mode) if error.errno == errno.ENXIO else 0
        except OSError:
            return ""  # the file was removed
        return {stat.S_IFIFO: "it is a FIFO that no process reads", stat.S_IFSOCK: "it is a socket"}.get(kind, "")

    def _write(self, data: bytes) -> None:
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        while data and self._left > 0:
            asked = time.monotonic()
            if poll.poll(self._left * 1000):
                data = data[os.write(self._fd, data[:_PIPE_BUF]) :]
            self._left -= time.monotonic() - asked


def _descriptor(file: BinaryIO | TextIO | None) -> int:
    try:
        return -1 if file is None else file.fileno()
    except (OSError, ValueError):  # no descriptor, or closed
        return -1
