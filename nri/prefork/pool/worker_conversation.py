"""A worker that waits for a request, and the exchange of one request with it (:mod:`nri.prefork.protocol`)."""

from __future__ import annotations

import fcntl
import os
import termios
import time
from typing import TYPE_CHECKING, NamedTuple

from nri.prefork.protocol import PREPARE, ResultDecoder, encode_request
from nri.process.conversation import Conversation, Output
from nri.process.wait import SIGKILL, ends, give_up_at, stat_fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.process.lines import Lines

SLOW = 0.005  # seconds without any output after which another worker is ordered
TAKEN_WITHIN = 0.5  # seconds after which a worker that has not read its request is killed: it has been stopped
_NONE = bytes(4)  # a number of unread bytes, as ioctl(2) returns it
_EXIT_CODE = 49  # index in stat_fields(); field 52 of proc(5)


class Worker(NamedTuple):
    """A worker that waits, and the descriptors that belong to it."""

    pid: int
    pidfd: int
    channel: int
    stderr: int

    def ask_to_prepare(self) -> None:
        """Tell a worker of a shared server that it gets the next request."""
        try:
            os.write(self.channel, PREPARE)
        except OSError:
            pass  # it has ended: the request will find out

    def close(self) -> None:
        """Close the descriptors; the worker ends."""
        for number in (self.pidfd, self.channel, self.stderr):
            os.close(number)


class WorkerConversation(Conversation):
    """The exchange of one request with a worker, whose descriptors it owns. The server reaps the worker.

    :param on_slow: called once when the worker takes longer than :data:`SLOW`.
    """

    def __init__(self, worker: Worker, data: bytes, lines: Lines, limit: int, on_slow: Callable[[], None]) -> None:
        self.was_slow = False
        self._worker, self._on_slow = worker, on_slow
        self._result = ResultDecoder()
        super().__init__(
            worker.pid,
            [worker.channel, worker.channel, worker.stderr],
            encode_request(data),
            lines,
            limit,
            pidfd=worker.pidfd,
            decoder=self._result,
            pauses=[(SLOW, self._tell_slow), (TAKEN_WITHIN, self._kill_if_unread)],
        )

    def run(self, deadline: float) -> Output:
        """Exchange the request for a result, and kill the worker.

        The exit status is the worker's own report, else the kernel's, such as a signal.

        :raises OSError: when a system call fails.
        """
        output = self.hold(deadline)
        reported = self._result.status
        output.status = self._exit_status(deadline) if reported is None else reported
        return output

    def _tell_slow(self) -> None:
        self.was_slow = True
        self._on_slow()

    def _kill_if_unread(self) -> None:
        channel = self._worker.channel
        if self.is_open(channel) and fcntl.ioctl(channel, termios.TIOCOUTQ, _NONE) != _NONE:
            os.kill(self.pid, SIGKILL)  # it may read the request at this moment; its end shows which came first

    def _exit_status(self, deadline: float) -> int:
        ends(self._worker.pidfd, give_up_at(deadline) - time.monotonic())  # it is killed by now
        try:
            return os.waitstatus_to_exitcode(int(stat_fields(self.pid)[_EXIT_CODE]))
        except (OSError, ValueError, IndexError):
            return -SIGKILL
