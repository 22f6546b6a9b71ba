"""The handlers of the bridge's log: standard error, a file, and what all handlers share.

None ever blocks (docs/decisions/0010). That of syslog is in :mod:`nri.v1bridge.syslog`, the one of a file that bounds
itself in :mod:`nri.v1bridge.rotating`.
"""

from __future__ import annotations

import errno
import io
import logging
import os
from logging.handlers import WatchedFileHandler
from typing import TYPE_CHECKING, Any

from nri.v1bridge import stderr

if TYPE_CHECKING:
    from collections.abc import Callable

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


class LossyHandler(logging.Handler):
    """Writes lines or loses them. The first line after a loss has the number of lost lines and the reason.

    :param to: its destination in words, for the bridge's status.
    :param report: called with the reason whenever the handler begins to lose lines.
    :param full: the error, number and text, for a line that is not taken completely.
    """

    def __init__(self, to: str, report: Callable[[str], None], full: tuple[int, str], **rest: Any) -> None:
        self.to = to
        self.lost = 0
        """The number of lines that were lost, since the beginning."""
        self._report, self._full = report, full
        self._is_open, self._torn = True, False
        self._lost, self._why = 0, ""  # since the last line that was taken
        super().__init__(**rest)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or lose and count it."""
        try:
            data = self._encode(record)
        except Exception:
            self.handleError(record)  # silent, see set_up of nri.v1bridge.logs
            return
        if not self._is_open:
            return
        self._follow()
        try:
            if self._lost:
                self._put(self._encode(complaint(f"{self._lost} lines before this one are lost: {self._why}")))
                self._lost = 0
            self._put(data)
        except OSError as error:
            self.lost += 1
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

    def _encode(self, record: logging.LogRecord) -> bytes:
        """Return the bytes of a line."""
        return f"{self.format(record)}\n".encode("utf-8", "backslashreplace")

    def _put(self, data: bytes) -> None:
        """Write a line.

        :raises OSError: it was not taken completely.
        """
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


def complaint(text: str, level: int = logging.ERROR) -> logging.LogRecord:
    """Return a record about the log itself, by default about its fault."""
    return logging.LogRecord("nri.v1bridge", level, "", 0, text, None, None)


class StderrHandler(LossyHandler):
    """Log to a descriptor, normally 2.

    :raises OSError: the descriptor is not open.
    """

    def __init__(self, fd: int) -> None:
        super().__init__("stderr", lambda _why: None, (errno.EAGAIN, "stderr took no more"))  # there is no other log
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
            path,
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
