"""Progress of work that takes longer than a second, on stderr: for people, never part of a command's output."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from nri.errors import escape

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self, TextIO

DELAY = 1.0
"""Seconds of work before anything is shown."""

EVERY = 10.0
"""Seconds between two lines where lines can't be rewritten."""

WIDTH = 79
"""Columns of a line at most: a terminal of 80 does not wrap it."""

_REFRESH = 0.1  # seconds between two rewritings at least


class Progress:
    """Shows what is being done, from one second after the beginning on.

    On a terminal it is one line that is rewritten, and removed at the end. Elsewhere it is a line every ten seconds,
    so that a log of CI shows that something happens; work of less time shows nothing. It may be used from any thread.

    :param stream: stderr; None shows nothing.
    :param is_quiet: show nothing.
    """

    def __init__(self, stream: TextIO | None, *, is_quiet: bool = False) -> None:
        self._stream = None if is_quiet else stream
        self._is_terminal = bool(stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb")
        self._next = time.monotonic() + (DELAY if self._is_terminal else EVERY)
        self._is_shown = False
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def show(self, text: str) -> None:
        """Show ``text``, if it is time."""
        with self._lock:
            now = time.monotonic()
            if self._stream is None or now < self._next:
                return
            line = escape(text)
            if len(line) > WIDTH:
                line = f"{line[: WIDTH - 1]}…"
            if self._is_terminal:
                self._next = now + _REFRESH
                self._write(f"\r\x1b[K{line}")
            else:
                self._next = now + EVERY
                self._write(f"{line}\n")
            self._is_shown = self._is_terminal

    def clear(self) -> None:
        """Remove the line, so that something else can be printed in its place."""
        with self._lock:
            if self._is_shown:
                self._write("\r\x1b[K")
                self._is_shown = False

    def _write(self, text: str) -> None:
        try:
            if self._stream is not None:
                self._stream.write(text)
                self._stream.flush()
        except (OSError, ValueError):
            self._stream = None  # closed, or a full disk: the work counts
