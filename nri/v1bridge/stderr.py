"""Writes to standard error without blocking, even when its reader stops: a full pipe, a stopped journal.

Other processes share the descriptor (a shell, a service manager), so it cannot be made non-blocking. A pipe or a
terminal is opened once more, through /proc; if that fails (it belongs to another user), a thread writes to it and may
block for ever. A socket has a flag for each message. A regular file does not block.
"""

from __future__ import annotations

import errno
import io
import os
import queue
import select
import signal
import socket
import stat
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TIMEOUT = 0.01
"""Seconds that the reader of a log has to make room for a line; 0 while lines are being lost."""

_RETRY = 0.001  # seconds between attempts when poll reports room, but too little for a write
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class NonBlockingWriter:
    """Writes to a descriptor without waiting for its reader.

    :raises OSError: the descriptor is not open.
    """

    def __init__(self, fd: int) -> None:
        self.close: Callable[[], None] = lambda: None
        """Close its own descriptor; the given one stays open."""
        self._write: Callable[[bytes], int] = lambda data: os.write(fd, data)
        self._wait: Callable[[float], bool] = lambda timeout: _has_room(fd, timeout)
        mode = os.fstat(fd).st_mode
        if stat.S_ISSOCK(mode):
            sock = socket.socket(fileno=os.dup(fd))
            self.close = sock.close
            self._write = lambda data: sock.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        elif stat.S_ISFIFO(mode) or os.isatty(fd):
            try:
                own = os.open(f"/proc/self/fd/{fd}", _FLAGS)
            except OSError:  # no /proc, or it belongs to another user
                thread = _WriterThread(fd)
                self._write, self._wait, self.close = thread.write, thread.free.wait, thread.close
            else:
                self.close = lambda: os.close(own)
                self._write = lambda data: os.write(own, data)

    def send(self, data: bytes, timeout: float) -> int:
        """Write ``data``, or its beginning; return the number of bytes that were taken.

        :param timeout: seconds that the reader has to make room.
        :raises OSError: the descriptor is broken.
        """
        taken = 0
        until = time.monotonic() + timeout
        while taken < len(data):
            try:
                taken += self._write(data[taken:])
            except BlockingIOError:
                left = until - time.monotonic()
                if left <= 0 or not self._wait(left):
                    break
                time.sleep(_RETRY)
        return taken


class _WriterThread:
    """A thread that writes line by line; it takes no line while it waits for the reader."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.free = threading.Event()
        self.free.set()
        self._thread: threading.Thread | None = None

    def write(self, data: bytes) -> int:
        if not self.free.is_set():
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="stderr", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                raise OSError(errno.ENOMEM, str(error)) from None
            self._thread = thread
        self.free.clear()
        self._lines.put(data)
        return len(data)

    def close(self) -> None:
        self._lines.put(b"")
        self.free.wait(TIMEOUT)

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # other threads handle signals
        while data := self._lines.get():
            try:
                while data:
                    data = data[os.write(self._fd, data) :]
            except OSError:
                pass  # the reader is gone
            self.free.set()


class StderrStream(io.TextIOBase):
    """A replacement for ``sys.stderr``: tracebacks and warnings that Python writes there do not block."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._number = fd
        self._writer = NonBlockingWriter(fd)

    def write(self, text: str) -> int:
        """Write the text, or lose it."""
        try:
            self._writer.send(text.encode("utf-8", "backslashreplace"), TIMEOUT)
        except OSError:
            pass  # the reader is gone
        return len(text)

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._number

    def isatty(self) -> bool:
        """Return whether the descriptor is a terminal."""
        return os.isatty(self._number)

    def writable(self) -> bool:
        """Return True."""
        return True


def replace_stderr() -> None:
    """Make writes to ``sys.stderr`` non-blocking; call it before any thread starts.

    Also blocks SIGTTOU, so that a background process of a terminal with ``tostop`` is not stopped when it writes.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTTOU,))
    try:
        sys.stderr = StderrStream(2)
    except OSError:
        pass  # stderr is closed, and nothing is written


def _has_room(fd: int, timeout: float) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(timeout * 1000))
