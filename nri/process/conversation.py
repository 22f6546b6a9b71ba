"""The exchange with one started process: writes its stdin, reads its stdout and stderr, kills its group, reaps it."""

from __future__ import annotations

import os
import select
import sys
import time

from nri.process.wait import POLL_WITHOUT_PIDFD, await_end, ends, give_up_at, has_exited, kill_group, pidfd_or_none

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from nri.process.lines import Lines

    class StdoutDecoder(Protocol):
        """Decodes stdout; ``is_over`` is true when no more bytes are expected."""

        stdout: bytearray
        is_over: bool

        def feed(self, data: bytes) -> None:
            """Decode the bytes that were read next, and add them to ``stdout``."""


_CHUNK = 65536
_ENDS_SOON = 0.001  # seconds that a process has to end after a result, before its output is looked at again
_PLAIN_READS = 4  # after the end: more than an ordinary pipe needs; then the kernel is asked how much is left


class BrokenOffError(OSError):
    """A process was started, and was killed because it could not be waited for or read any more."""


class Output:
    """The output of a process: its stdout, the end of its stderr, how it ended, how long it took."""

    __slots__ = ("seconds", "status", "stderr", "stdout", "stopped")

    stdout: bytes
    stderr: str  # the end of its stderr, control characters escaped
    status: int  # the exit status; a negative number is the signal that ended it
    stopped: str  # the reason for killing it: `deadline` or `output`; "" when it ended by itself
    seconds: float

    @property
    def ending(self) -> str:
        """The exit status or signal in words; "" for exit status 0."""
        if self.status < 0:
            return f"ended by signal {-self.status}"
        return f"exit status {self.status}" if self.status else ""


class PlainStdout:
    """Keeps stdout as it is; only the process's end completes it."""

    is_over = False

    def __init__(self) -> None:
        self.stdout = bytearray()
        self.feed = self.stdout.extend


class Conversation:
    """The exchange with a started process, whose pipes and pidfd it owns.

    :param pipes: our ends of its stdin, stdout and stderr, non-blocking. One socket may stand for the first two; then
        it stays open when ``data`` is written, and a process that ends without reading is noticed.
    :param data: the bytes for its stdin.
    :param limit: bytes of stdout at most.
    :param pidfd: of the process, where the caller has one.
    :param decoder: takes in stdout; by default as it is.
    :param pauses: seconds, each with a function. It is called when nothing has happened for so long; then the next
        pair counts.
    """

    def __init__(
        self,
        pid: int,
        pipes: list[int],
        data: bytes,
        lines: Lines,
        limit: int,
        *,
        pidfd: int | None = None,
        decoder: StdoutDecoder | None = None,
        pauses: list[tuple[float, Callable[[], None]]] | None = None,
    ) -> None:
        self.pid = pid
        self.was_refused = False  # True if a process with a socket has ended before it had read all of `data`
        self._stdin, self._stdout, self._stderr = pipes
        self._is_socket = self._stdin == self._stdout
        self._data = data
        self._left = memoryview(data)
        self._decoder = PlainStdout() if decoder is None else decoder
        self._limit, self._lines = limit, lines
        self._pauses = pauses or []
        self._open = set(pipes)
        self._over = self._killed = False
        self._expects_end: bool | None = None  # None until there is output
        self._pidfd = pidfd_or_none(pid) if pidfd is None else pidfd
        self._poll = select.poll()
        for fd in (self._stdout, self._stderr, self._pidfd):
            if fd is not None:
                self._poll.register(fd, select.POLLIN)

    def run(self, deadline: float) -> Output:
        """Exchange as :meth:`hold` does, then end and reap the process.

        :raises BrokenOffError: when a system call of the exchange fails.
        """
        try:
            output = self.hold(deadline)
        except OSError as error:
            raise BrokenOffError(error.errno, error.strerror) from error
        finally:
            status = self.end(give_up_at(deadline))
        output.status = status
        return output

    def hold(self, deadline: float) -> Output:
        """Write and read until the process ends, its output is complete or too long, or ``deadline``; then kill it.

        Return the output, without ``status`` and ``seconds``.
        """
        output = Output()
        output.stopped = ""
        self._write()
        while not self._over:
            left = deadline - time.monotonic()
            if left <= 0:
                output.stopped = "deadline"
                break
            for fd, events in self._wait(left):
                if fd == self._pidfd:
                    self._over = True
                    continue
                if fd == self._stdin and self._left:
                    self._write()
                if events != select.POLLOUT and (fd != self._stdin or self._is_socket):
                    self._read(fd)
            if self._pidfd is None:
                self._over = self._over or has_exited(self.pid)
            if len(self._decoder.stdout) > self._limit:
                output.stopped = "output"
                break
        self._pauses.clear()  # their functions may refer to the owner of this object
        self._kill()
        self._drain(deadline)
        if len(self._decoder.stdout) > self._limit:
            output.stopped = output.stopped or "output"
        self._lines.finish()
        output.stdout = bytes(self._decoder.stdout)
        output.stderr = self._lines.tail()
        return output

    def end(self, give_up: float | None = None) -> int:
        """Kill the rest of the process group, reap as :func:`await_end`, close everything; return the status."""
        self._kill()
        status = await_end(self.pid, self._pidfd, give_up)
        self.close()
        return status

    def close(self) -> None:
        """Close the pipes and the pidfd."""
        for fd in (*self._open, self._pidfd):
            if fd is not None:
                os.close(fd)

    def is_open(self, fd: int) -> bool:
        """Return whether one of the ``pipes`` is still open; a closed descriptor's number may be reused."""
        return fd in self._open

    def _wait(self, left: float) -> list[tuple[int, int]]:
        """Wait, at most so many seconds, for events; return them."""
        if self._expects_end and self._pidfd is not None:
            # Nearly always its result is complete now, and it ends. Its files end before, one by one; without a look
            # at them, their ends do not wake this thread, which may run on the CPU where the process is ending.
            self._expects_end = False
            if ends(self._pidfd, min(left, _ENDS_SOON)):
                return [(self._pidfd, select.POLLIN)]
        if self._pauses:
            left = min(left, self._pauses[0][0])
        elif self._pidfd is None:
            left = min(left, POLL_WITHOUT_PIDFD)
        events = self._poll.poll(left * 1000 + 1)
        if not events and self._pauses:
            self._pauses.pop(0)[1]()
        return events

    def _kill(self) -> None:
        if not self._killed:
            self._killed = True
            kill_group(self.pid)

    def _write(self) -> None:
        try:
            while self._left:
                self._left = self._left[os.write(self._stdin, self._left[:_CHUNK]) :]
        except BlockingIOError:
            self._poll.register(self._stdin, select.POLLIN | select.POLLOUT if self._is_socket else select.POLLOUT)
            return
        except OSError:  # the process does not read the rest; its output shows whether that is a fault
            if self._is_socket and len(self._left) == len(self._data):
                self.was_refused = self._over = True
            self._left = self._left[:0]
        if self._is_socket:
            self._poll.register(self._stdin, select.POLLIN)
        else:
            self._close(self._stdin)

    def _drain(self, deadline: float) -> None:
        """Read the rest of the process's output after its end.

        A descendant that left the group may hold the pipes open, or go on writing. So do not wait for their end,
        and read no more than they hold now. The plugin controls this amount (F_SETPIPE_SZ, for root up to 2 GiB;
        O_DIRECT): a limit bounds stdout, and the time that a killed process has to end bounds stderr.
        """
        for _ in range(_PLAIN_READS):
            if not (self._read(self._stdout) | self._read(self._stderr)):
                return
        left = self._unread(self._stdout)
        while left > 0 and len(self._decoder.stdout) <= self._limit:
            left -= self._read(self._stdout) or left
        left, give_up = self._unread(self._stderr), give_up_at(deadline)
        while left > 0 and time.monotonic() < give_up:
            left -= self._read(self._stderr) or left

    def _unread(self, fd: int) -> int:
        """Return the number of bytes that a pipe or socket holds now."""
        import fcntl  # an ordinary plugin's output does not need these
        import termios

        if fd not in self._open:
            return 0
        return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)

    def _read(self, fd: int) -> int:
        """Read once from stdout or stderr; return the number of bytes."""
        if fd not in self._open:
            return 0
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return 0
        except ConnectionResetError:  # only of a socket
            self.was_refused = self._over = True
            data = b""
        if not data:
            self._close(fd)
        elif fd == self._stderr:
            self._lines.feed(data)
        else:
            self._decoder.feed(data)
            if self._expects_end is None:
                self._expects_end = not self._is_socket and len(data) < _CHUNK
            self._over = self._over or self._decoder.is_over
        return len(data)

    def _close(self, fd: int) -> None:
        try:
            self._poll.unregister(fd)
        except KeyError:
            pass  # stdin, where one write took everything
        self._open.discard(fd)
        os.close(fd)
