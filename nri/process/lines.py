"""A plugin's stderr as lines of a log: bounded in length and number, and without anything that a terminal obeys."""

from __future__ import annotations

from nri.errors import escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MAX_LINE = 4096
"""Bytes of one line, and of the end of stderr that an error carries; more is cut."""

_LINE_COST = 64  # bytes that a line counts beside its own: a million empty ones are much work for whoever logs


class Lines:
    """Cuts stderr into lines for a log, bounded in length and number, and remembers its end."""

    def __init__(self, limit: int, log: Callable[[str], None]) -> None:
        self._log = log
        self._left = limit
        self._line = b""
        self._end = b""

    def feed(self, data: bytes) -> None:
        """Take what was read, and log the lines that are whole now."""
        self._end = (self._end + data)[-MAX_LINE:]
        if self._left < 0:
            return
        *lines, rest = (self._line + data).split(b"\n")
        self._left -= len(data) + _LINE_COST * len(lines)
        for line in lines:
            self._log(readable(line[:MAX_LINE]))
        self._line = rest[:MAX_LINE]
        if self._left < 0:
            self._line = b""
            self._log("(the rest of its stderr is too long, and is left out)")

    def finish(self) -> None:
        """Log a last line that has no newline."""
        if self._line:
            self._log(readable(self._line))

    def tail(self) -> str:
        """The end of all that was read, in one line."""
        return readable(self._end.strip().replace(b"\n", b" | ")) if self._end else ""


def readable(text: bytes) -> str:
    """``text`` as :func:`nri.errors.escape` has it; what is not UTF-8 is escaped too, a tab becomes a blank."""
    return escape(text.decode("utf-8", "backslashreplace").rstrip("\r").replace("\t", " "))
