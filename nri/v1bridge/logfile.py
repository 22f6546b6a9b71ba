"""The file of the bridge's log: rotated by whoever likes to, and full when it is full.

A file that was moved away, or is gone, is made anew. What it does not take at once is lost; the first line that it
takes again is the number of those, and why.
"""

from __future__ import annotations

import errno
import logging
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


class LogFile(logging.Handler):
    """Appends to the file ``path``.

    :param complain: told once, in one line, whenever the file begins to lose lines.
    :raises OSError: when it can't be opened.
    """

    def __init__(self, path: str, complain: Callable[[str], None]) -> None:
        super().__init__()
        self._path = path
        self._fd = _open(path)
        self._torn = False
        self._complain = complain
        self._lost = 0
        self._why = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Write it, or lose it, and count what is lost."""
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)  # silent, see set_up of nri.v1bridge.logs
            return
        if self._fd < 0:
            return  # closed, by a thread that has set up another one
        try:
            self._follow()
            if self._lost:
                self._write(self.format(complaint(f"{self._lost} lines before this one are lost: {self._why}")))
                self._lost = 0
            self._write(line)
        except OSError as error:
            self._lost += 1
            self._why = error.strerror or str(error)
            if self._lost == 1:
                self._complain(f"the log file {self._path} cannot be written, lines are lost: {self._why}")

    def _write(self, line: str) -> None:
        data = f"{line}\n".encode()
        if self._torn:
            data = b"\n" + data
        written = os.write(self._fd, data)
        self._torn = self._torn if written == 0 else written < len(data)
        if written < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Close the file."""
        self.acquire()
        try:
            if self._fd >= 0:
                os.close(self._fd)
            self._fd = -1
        finally:
            self.release()
        super().close()

    def _follow(self) -> None:
        """Open the file anew if it is not the one that is open; where that fails the old one will do."""
        try:
            if os.path.samestat(os.stat(self._path), os.fstat(self._fd)):
                return
        except FileNotFoundError:
            pass
        except OSError:
            return
        try:
            fd = _open(self._path)
        except OSError:
            return
        os.close(self._fd)
        self._fd, self._torn = fd, False


def complaint(text: str) -> logging.LogRecord:
    """A record that says what is wrong with the log itself."""
    return logging.LogRecord("nri.v1bridge", logging.ERROR, "", 0, text, None, None)


def _open(path: str) -> int:
    """A descriptor of the log; a FIFO that nobody reads is not waited for."""
    return os.open(path, _FLAGS, 0o600)
