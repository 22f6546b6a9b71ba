"""The handlers of the bridge's log: standard error, a file, syslog. None ever blocks (docs/decisions/0010)."""

from __future__ import annotations

import errno
import io
import logging
import os
import socket
import time
from logging.handlers import WatchedFileHandler
from typing import TYPE_CHECKING, Any

from nri.v1bridge import stderr

if TYPE_CHECKING:
    from collections.abc import Callable

BACKOFF = 1.0
"""Seconds in which lines are lost without another attempt, after syslog has taken none."""

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
_DAEMON = 3 << 3  # syslog's facility
_SEVERITY = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3}


class LossyHandler(logging.Handler):
    """Writes lines or loses them. The first line after a loss has the number of lost lines and the reason.

    :param report: called with the reason whenever the handler begins to lose lines.
    :param full: the error, number and text, for a line that is not taken completely.
    """

    def __init__(self, report: Callable[[str], None], full: tuple[int, str], **rest: Any) -> None:
        self._report, self._full = report, full
        self._is_open, self._torn = True, False
        self._lost, self._why = 0, ""
        super().__init__(**rest)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or lose and count it."""
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)  # silent, see set_up of nri.v1bridge.logs
            return
        if not self._is_open:
            return
        self._follow()
        try:
            if self._lost:
                self._put(self.format(complaint(f"{self._lost} lines before this one are lost: {self._why}")))
                self._lost = 0
            self._put(line)
        except OSError as error:
            self._lost += 1
            self._why = error.strerror or str(error)
            if self._lost == 1:
                self._report(self._why)

    def close(self) -> None:
        """Close the handler's own descriptor."""
        self.acquire()
        try:
            if self._is_open:
                self._close()
            self._is_open = False
            super().close()
        finally:
            self.release()

    def _put(self, line: str) -> None:
        data = f"{line}\n".encode("utf-8", "backslashreplace")
        if self._torn:  # the rest of a line that was cut short is never written
            data = b"\n" + data
        written = self._send(data)
        self._torn = self._torn if written == 0 else written < len(data)
        if written < len(data):
            raise OSError(*self._full)

    def _follow(self) -> None:
        """Look for another destination of the same name."""

    def _send(self, data: bytes) -> int:
        """Write the bytes that are accepted at once; return their number.

        :raises OSError: nothing was taken.
        """
        raise NotImplementedError

    def _close(self) -> None:
        raise NotImplementedError


def complaint(text: str) -> logging.LogRecord:
    """Return a record about a fault of the log itself."""
    return logging.LogRecord("nri.v1bridge", logging.ERROR, "", 0, text, None, None)


class StderrHandler(LossyHandler):
    """Log to a descriptor, normally 2.

    :raises OSError: the descriptor is not open.
    """

    def __init__(self, fd: int) -> None:
        super().__init__(lambda _why: None, (errno.EAGAIN, "stderr took no more"))  # there is no other log
        self._writer = stderr.NonBlockingWriter(fd)

    def _send(self, data: bytes) -> int:
        return self._writer.send(data, 0.0 if self._lost else stderr.TIMEOUT)

    def _close(self) -> None:
        self._writer.close()


class LogFile(LossyHandler, WatchedFileHandler):
    """Append lines to the file ``path``, which may be rotated, removed, full, or a FIFO without a reader.

    The library follows a file that was moved or removed. This class adds what a full disk needs: no write blocks, and
    no data stay in a buffer.

    :param report: called with one line whenever the file begins to lose lines.
    :raises OSError: the file cannot be opened.
    """

    def __init__(self, path: str, report: Callable[[str], None]) -> None:
        self._fd = -1
        super().__init__(
            lambda why: report(f"the log file {path} cannot be written, lines are lost: {why}"),
            (errno.ENOSPC, os.strerror(errno.ENOSPC)),
            filename=path,
            encoding="utf-8",
        )

    def _open(self) -> Any:
        """Return a stream of the file, or of the open one when the file cannot be opened again.

        The stream does not own the descriptor: :meth:`reopenIfNeeded` closes it before it opens the next.
        """
        try:
            fd = os.open(self.baseFilename, _FLAGS, 0o600)
        except OSError:
            if self._fd < 0:
                raise
        else:
            self._close()
            self._fd, self._torn = fd, False
        return io.FileIO(self._fd, "w", closefd=False)

    def _send(self, data: bytes) -> int:
        return os.write(self._fd, data)

    def _follow(self) -> None:
        try:
            self.reopenIfNeeded()
        except OSError:
            pass  # its directory cannot be searched: the open file still takes lines

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


class SyslogHandler(logging.Handler):
    """Send each line as a datagram to the socket ``path``, of syslog or the journal.

    :raises OSError: the socket does not exist, or has no reader.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._backoff_until = 0.0
        self._socket: socket.socket | None = self._connect()

    def emit(self, record: logging.LogRecord) -> None:
        """Send a line, or lose it."""
        if time.monotonic() < self._backoff_until:
            return
        try:
            priority = _DAEMON | _SEVERITY.get(record.levelno, 2)
            data = f"<{priority}>nri-v1bridge[{os.getpid()}]: {self.format(record)}".encode()
        except Exception:
            self.handleError(record)  # silent, see set_up of nri.v1bridge.logs
            return
        for _ in range(2):
            try:
                self._socket = self._socket or self._connect()
                self._socket.send(data)
            except TimeoutError:
                break
            except OSError:  # syslog may have been restarted
                self._disconnect()
            else:
                return
        self._backoff_until = time.monotonic() + BACKOFF

    def close(self) -> None:
        """Close the socket."""
        self._disconnect()
        super().close()

    def _connect(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sock.settimeout(stderr.TIMEOUT)
        try:
            sock.connect(self._path)
        except BaseException:
            sock.close()
            raise
        return sock

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
