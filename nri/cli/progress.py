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
"""Seconds of work before anything is shown on a terminal."""

EVERY = 10.0
"""Seconds between two lines where a line can't be rewritten."""

WIDTH = 79
"""Columns of a line at most: a terminal of 80 does not wrap it."""

_REFRESH = 0.2  # seconds between two rewritings


class Progress:
    """Shows what is being done during a ``with`` block, and for how long it has been.

    On a terminal it is one line that is rewritten from one second after the beginning on, and removed at the end.
    Elsewhere it is a line every ten seconds, so that a log of CI shows that something happens; shorter work shows
    nothing. :meth:`show` never waits for the stream: a thread writes to it.

    :param stream: stderr; None shows nothing.
    :param is_quiet: show nothing.
    :param delay: see :data:`DELAY` and :data:`EVERY`, one of which is the default.
    """

    def __init__(self, stream: TextIO | None, *, is_quiet: bool = False, delay: float | None = None) -> None:
        self._stream = None if is_quiet else stream
        self._is_terminal = stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
        self._delay = delay if delay is not None else DELAY if self._is_terminal else EVERY
        self._text, self._is_shown = "", False
        self._began = time.monotonic()
        self._over = threading.Event()
        self._lock = threading.Lock()  # a line is written, or removed
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def __enter__(self) -> Self:
        if self._stream is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._stream is not None and self._thread.is_alive():
            self._thread.join(_REFRESH)  # a stream that takes nothing delays the end by no more
        self.clear()

    def show(self, text: str) -> None:
        """Set the text that is shown."""
        self._text = text

    def clear(self) -> None:
        """Remove the line, so that something else can be printed in its place."""
        if self._lock.acquire(timeout=_REFRESH):
            try:
                if self._is_shown:
                    self._write("\r\x1b[K")
                    self._is_shown = False
            finally:
                self._lock.release()

    def _run(self) -> None:
        pause = self._delay
        while not self._over.wait(pause):
            with self._lock:
                if self._text and not self._over.is_set():
                    self._draw()
            pause = _REFRESH if self._is_terminal else self._delay

    def _draw(self) -> None:
        line, end = escape(self._text), f" ({time.monotonic() - self._began:.0f} s)"
        if len(line) + len(end) > WIDTH:
            line = f"{line[: WIDTH - len(end) - 1]}…"
        self._write(f"\r\x1b[K{line}{end}" if self._is_terminal else f"{line}{end}\n")
        self._is_shown = self._is_terminal

    def _write(self, text: str) -> None:
        try:
            if self._stream is not None:
                self._stream.write(text)
                self._stream.flush()
        except (OSError, ValueError):
            self._stream = None  # closed, or a full disk: the work counts
