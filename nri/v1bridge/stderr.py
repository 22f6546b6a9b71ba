"""Standard error as a log that does not block: its reader may stand still (a stopped journal, a full pipe, a tty).

The descriptor is shared with others (a shell, a service manager), so it is not made non-blocking itself. A pipe or a
terminal is opened once more, through /proc; where that fails (it is another user's), a thread writes to it, which may
wait for ever. A socket has a flag for each message; a file takes what it is given.
"""

from __future__ import annotations

import errno
import io
import logging
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

from nri.v1bridge.lossy import LossyHandler

if TYPE_CHECKING:
    from collections.abc import Callable

TIMEOUT = 0.01
"""Seconds that the reader gets to make room for a line; none while lines are being lost."""

_RETRY = 0.001  # seconds until a descriptor is tried again that is said to have room, and has too little
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class Outlet:
    """A descriptor that is written to without waiting for its reader.

    :raises OSError: when it is not open.
    """

    def __init__(self, fd: int) -> None:
        self._close: Callable[[], None] = lambda: None
        self._write: Callable[[bytes], int] = lambda data: os.write(fd, data)
        self._wait: Callable[[float], bool] = lambda within: _has_room(fd, within)
        mode = os.fstat(fd).st_mode
        if stat.S_ISSOCK(mode):
            sock = socket.socket(fileno=os.dup(fd))
            self._close = sock.close
            self._write = lambda data: sock.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        elif stat.S_ISFIFO(mode) or os.isatty(fd):
            try:
                own = os.open(f"/proc/self/fd/{fd}", _FLAGS)
            except OSError:  # no /proc, or it belongs to another user
                writer = _Writer(fd)
                self._write, self._wait, self._close = writer.write, writer.wait, writer.close
            else:
                self._close = lambda: os.close(own)
                self._write = lambda data: os.write(own, data)

    def send(self, data: bytes, patience: float) -> int:
        """Write ``data``, or its beginning; return how many bytes were taken.

        :param patience: seconds that the reader gets to make room.
        :raises OSError: when it is broken.
        """
        taken = 0
        until = time.monotonic() + patience
        while taken < len(data):
            try:
                taken += self._write(data[taken:])
            except BlockingIOError:
                left = until - time.monotonic()
                if left <= 0 or not self._wait(left):
                    break
                time.sleep(_RETRY)
        return taken

    def close(self) -> None:
        """Close what was opened for it."""
        self._close()


class _Writer:
    """A thread that writes one line after the other; while it waits for the reader it takes no more."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._free = threading.Event()
        self._free.set()
        self._thread: threading.Thread | None = None

    def write(self, data: bytes) -> int:
        if not self._free.is_set():
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="stderr", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                raise OSError(errno.ENOMEM, str(error)) from None
            self._thread = thread
        self._free.clear()
        self._lines.put(data)
        return len(data)

    def wait(self, within: float) -> bool:
        return self._free.wait(within)

    def close(self) -> None:
        self._lines.put(b"")
        self._free.wait(TIMEOUT)

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are for others
        while data := self._lines.get():
            try:
                while data:
                    data = data[os.write(self._fd, data) :]
            except OSError:
                pass  # its reader is gone
            self._free.set()


class StderrHandler(LossyHandler):
    """Logs to a descriptor, as a rule 2.

    :raises OSError: when it is not open.
    """

    def __init__(self, fd: int) -> None:
        super().__init__(lambda _why: None)  # there is nowhere else to say it
        self._outlet: Outlet | None = Outlet(fd)

    def close(self) -> None:
        """Close what was opened for it; the descriptor itself stays open."""
        self.acquire()
        try:
            if self._outlet is not None:
                self._outlet.close()
            self._outlet = None
        finally:
            self.release()
        super().close()

    def _is_ready(self) -> bool:
        return self._outlet is not None

    def _send(self, data: bytes) -> int:
        assert self._outlet is not None  # noqa: S101 - see _is_ready
        return self._outlet.send(data, 0.0 if self._lost else TIMEOUT)

    def _full(self) -> OSError:
        return OSError(errno.EAGAIN, "stderr took no more")


class Stray(io.TextIOBase):
    """Takes the place of ``sys.stderr``: what Python itself writes there (a traceback, a warning) blocks nothing."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._number = fd
        self._outlet = Outlet(fd)

    def write(self, text: str) -> int:
        """Write it, or lose it."""
        try:
            self._outlet.send(text.encode("utf-8", "backslashreplace"), TIMEOUT)
        except OSError:
            pass  # its reader is gone
        return len(text)

    def fileno(self) -> int:
        """The descriptor."""
        return self._number

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return os.isatty(self._number)

    def writable(self) -> bool:
        """Return True."""
        return True


def replace_stderr() -> None:
    """Let nothing in this process wait for the reader of its stderr; to be called before there are threads.

    A process in the background of a terminal with ``tostop`` is not stopped when it writes there either.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTTOU,))
    try:
        sys.stderr = Stray(2)
    except OSError:
        pass  # it is closed, and nothing is written


def handler() -> logging.Handler:
    """A handler for ``sys.stderr``, whatever it is now."""
    try:
        return StderrHandler(sys.stderr.fileno())
    except (OSError, AttributeError):  # no descriptor: a test, or a program that shows it elsewhere
        return logging.StreamHandler(sys.stderr)


def _has_room(fd: int, within: float) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(within * 1000))
