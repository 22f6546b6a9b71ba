"""The stderr of a plugin as lines of a log: bounded in length and number, without control characters."""

from __future__ import annotations

from nri.errors import escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Log = Callable[[str], None]

MAX_LINE = 4096  # bytes of one line, and of the end of stderr that an error carries; the rest is cut
_LINE_COST = 64  # bytes that each line adds to its own: logging a million empty lines is much work


class Lines:
    """Cuts stderr into lines for a log, of ``limit`` bytes at most, and keeps its end. ``log`` gets lines escaped."""

    def __init__(self, limit: int, log: Log) -> None:
        self._log, self._left = log, limit
        self._line = self._end = b""

    def feed(self, data: bytes) -> None:
        """Take in the bytes that were read next, and log the lines that are complete."""
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
        """Return the end of all that was read, in one line."""
        return readable(self._end.strip().replace(b"\n", b" | ")) if self._end else ""


def readable(text: bytes) -> str:
    """Return ``text`` as :func:`nri.errors.escape` does; bytes that are not UTF-8 are escaped, a tab is a blank."""
    return escape(text.decode("utf-8", "backslashreplace").rstrip("\r").replace("\t", " "))
