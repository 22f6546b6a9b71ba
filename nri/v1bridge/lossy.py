"""Log handlers that never block: lines that the destination does not take at once are lost and counted."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class LossyHandler(logging.Handler):
    """Writes lines or loses them. The first line after a loss tells the number of lost lines and the reason.

    :param complain: called with the reason whenever the handler begins to lose lines.
    :param full: the error, number and text, for a line that is not taken completely.
    :param handler: keyword arguments of the next class.
    """

    def __init__(self, complain: Callable[[str], None], full: tuple[int, str], **handler: Any) -> None:
        self._complain, self._full = complain, full
        self._torn = False
        self._lost = 0
        self._why = ""
        super().__init__(**handler)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or lose and count it."""
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)  # silent, see set_up of nri.v1bridge.logs
            return
        try:
            if not self._is_ready():
                return
            if self._lost:
                self._put(self.format(complaint(f"{self._lost} lines before this one are lost: {self._why}")))
                self._lost = 0
            self._put(line)
        except OSError as error:
            self._lost += 1
            self._why = error.strerror or str(error)
            if self._lost == 1:
                self._complain(self._why)

    def close(self) -> None:
        """Close what was opened for the handler."""
        self.acquire()
        try:
            self._close()
        finally:
            self.release()
        super().close()

    def _put(self, line: str) -> None:
        data = f"{line}\n".encode("utf-8", "backslashreplace")
        if self._torn:  # the rest of a line that was cut short is never written
            data = b"\n" + data
        written = self._send(data)
        self._torn = self._torn if written == 0 else written < len(data)
        if written < len(data):
            raise OSError(*self._full)

    def _is_ready(self) -> bool:
        """Return whether the destination is open; called before each line."""
        raise NotImplementedError

    def _send(self, data: bytes) -> int:
        """Write what is taken at once; return the number of bytes.

        :raises OSError: nothing was taken.
        """
        raise NotImplementedError

    def _close(self) -> None:
        """Close the destination."""
        raise NotImplementedError


def complaint(text: str) -> logging.LogRecord:
    """Return a record about a fault of the log itself."""
    return logging.LogRecord("nri.v1bridge", logging.ERROR, "", 0, text, None, None)
