"""A child of a helper that waits for a request, and the exchange of one request with it.

What goes over its socket stands in :mod:`nri.prefork.server.serving`. The result comes in pieces, as ``TYPE invoke``
would have written them to stdout, then an end with the exit status. So a plugin that forks and answers in both
processes gives
two results, and the verdict is the same as when it is started for the request.
"""

from __future__ import annotations

import fcntl
import os
import select
import termios
import time
from typing import TYPE_CHECKING, NamedTuple

from nri.process import launch

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.process.lines import Lines

SLOW = 0.005
"""Seconds after which another child is asked for, while one is still at work."""

TAKEN_WITHIN = 0.5
"""Seconds after which a child that has not read its request is killed, and another asked: it has been stopped."""

MAX_PIECE = 1 << 28
"""Bytes of a piece. A text's first four bytes are a larger number: it was written to the socket as it is."""

_SIGKILL = 9
_NONE = bytes(4)  # a number of bytes that are not read yet, as ioctl(2) has it
_LENGTH = 4  # bytes that tell the length of the request, or of a piece of the result; zeros are the result's end


class Worker(NamedTuple):
    """A child that waits, and the descriptors that belong to it."""

    pid: int
    pidfd: int
    channel: int
    stderr: int

    def close(self) -> None:
        """Close the descriptors; the child ends."""
        for number in (self.pidfd, self.channel, self.stderr):
            os.close(number)


class WorkerConversation(launch.Conversation):
    """With a child of a helper: a socket stands for its stdin and stdout, and its answer tells where it ends."""

    def __init__(self, child: Worker, data: bytes, lines: Lines, limit: int, on_slow: Callable[[], None]) -> None:
        pipes = [child.channel, child.channel, child.stderr]
        data = len(data).to_bytes(_LENGTH, "big") + data
        super().__init__(child.pid, pipes, data, lines, limit, pidfd=child.pidfd)
        self._length = len(data)
        self._on_slow = on_slow
        self._patience = [SLOW, TAKEN_WITHIN]
        self._head = b""  # what has been read of a length, or of the end
        self._piece = 0  # bytes of a piece that are still to come
        self._told: int | None = None
        self._is_text = False  # whether what comes is no piece: it follows the end, or was written by other means
        self.was_slow = False
        self.was_refused = False
        """Whether the child has ended before it had read the request."""

    def status(self, deadline: float) -> int:
        """Return the exit status that the child has told; otherwise the one that the kernel knows, as of a signal."""
        if self._told is not None:
            return self._told
        return _status(self.pid, self._pidfd, launch.give_up_at(deadline) - time.monotonic())

    def _wait(self, left: float) -> float:
        return min(left, self._patience[0]) if self._patience else left

    def _nothing(self) -> tuple[()]:
        if not self._patience:
            return ()
        if not self.was_slow:
            self.was_slow = True
            self._on_slow()
        elif self._stdout in self._open and fcntl.ioctl(self._stdout, termios.TIOCOUTQ, _NONE) != _NONE:
            os.kill(self.pid, _SIGKILL)  # its end shows whether it has read the request in this moment
        self._patience.pop(0)
        return ()

    def _unwanted(self) -> None:
        if len(self._left) == self._length:
            self.was_refused = self._over = True
        super()._unwanted()

    def _sent(self) -> None:
        self._poll.register(self._stdin, select.POLLIN)

    def _read(self, fd: int) -> bytes:
        try:
            return super()._read(fd)
        except ConnectionResetError:
            self.was_refused = self._over = True
            self._close(fd)
            return b""

    def _read_stdout(self) -> int:
        data = self._read(self._stdout)
        left = self._head + data
        self._head = b""
        while left:
            if self._piece:
                self._out += left[: self._piece]
                self._piece, left = max(0, self._piece - len(left)), left[self._piece :]
            elif self._is_text:
                self._out += left  # so the result is not valid
                break
            elif len(left) <= _LENGTH:
                self._head = left  # a piece has at least one byte, as the end has
                break
            elif left.startswith(_NONE):
                self._told, left = left[_LENGTH], left[_LENGTH + 1 :]
                self._over = self._is_text = True
            elif (size := int.from_bytes(left[:_LENGTH], "big")) <= MAX_PIECE:
                self._piece, left = size, left[_LENGTH:]
            else:
                self._over = self._is_text = True
        return len(data)


def _status(pid: int, pidfd: int, within: float) -> int:
    launch.ends(pidfd, within)  # it was killed, at the latest now
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return os.waitstatus_to_exitcode(int(fields[49]))  # field 52 of proc(5), exit_code
    except (OSError, ValueError, IndexError):
        return -_SIGKILL
