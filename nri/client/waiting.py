"""A process that waits: started as ``TYPE invoke`` before there is a request, it gets one, answers and exits.

So the contract holds, a process for each request; only the program's start is off the pod's way. It is for programs
that do nothing before they have read their stdin: an operator says so in the entry (``waiting``). One that has ended,
has written to stdout or is old gets no request.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from nri.process.children import REAP_WITHIN, SIGKILL, close_all, has_exited, stat_fields
from nri.process.conversation import NEVER, Asked, Conversation, Output, unread
from nri.process.spawn import Pipes, spawn

if TYPE_CHECKING:
    from nri.client.invoker import Log
    from nri.process.conversation import Stop

BEGUN_WITHIN = 0.5
"""Seconds after which a process that has not begun to read its request is killed: it was stopped."""

WAITS_FOR = 600.0
"""Seconds that a process waits for a request; then another one is started in its place."""

STOPPED = (b"T", b"t")
"""The states of a process that a signal or a debugger has stopped: proc_pid_stat(5)."""

DOES_NOT = "it does not wait for its request"
"""The beginning of the reason why a program should not be started before its request."""


class NotBegunError(Exception):
    """A process has ended, and has read nothing of its request."""


class Prepared(Asked):
    """A process that is there before its request, which shows whether it has read some of it.

    :ivar end_reason: why it is of no use any more, for people.
    """

    end_reason = ""
    _stdin = -1  # the process's end of the request's stdin

    def kill_if_unread(self) -> None:
        """Kill it if it has read nothing. It may begin at this moment: what it has read decides."""
        if unread(self._stdin) == self.sent:
            self.end_reason = f"it has not begun to read a request after {BEGUN_WITHIN:g} s"
            os.kill(self.pid, SIGKILL)

    def has_begun(self) -> bool:
        """Return whether the process, which has ended, has read some of the request.

        The rest is taken out of the pipe, so that no other process reads it later.
        """
        left = 0
        os.set_blocking(self._stdin, False)
        try:
            while data := os.read(self._stdin, 65536):
                left += len(data)
        except BlockingIOError:
            pass  # not all of it was written
        return left != self.sent


class Waiting(Prepared):
    """A process that waits for the request of its stdin.

    :raises OSError: when it cannot be started.
    """

    is_quick = True
    name = "waiting process"

    def __init__(self, path: str, plugin: str) -> None:
        with Pipes() as pipes:
            pid = spawn(path, [plugin, "invoke"], pipes.theirs)
            self._stdin = pipes.theirs.pop(0)
        super().__init__(pid)
        self._pipes = pipes.ours
        self._since = time.monotonic()

    def is_ready(self) -> bool:
        """Return whether it can get the request; ``end_reason`` says why it does not wait."""
        _, stdout, _ = self._pipes
        if has_exited(self.pid):
            self.end_reason = f"{DOES_NOT}: it has ended before"
        elif unread(stdout):
            self.end_reason = f"{DOES_NOT}: it has written to stdout before"
        return not self.end_reason and time.monotonic() < self._since + WAITS_FOR

    def _kill_if_stopped(self) -> None:
        """Kill it if it was stopped before it has read its request; one that loads is waited for."""
        if stat_fields(self.pid)[0] in STOPPED:
            self.kill_if_unread()

    def ask(self, request: bytes, deadline: float, log: Log, stop: Stop = NEVER) -> Output:
        """Have it answer a request, when it is ready.

        :raises NotBegunError: when the request must be run by another process.
        :raises BrokenOffError: when the exchange fails.
        """
        pipes = self._pipes
        self._pipes = []
        meanwhile = BEGUN_WITHIN, self._kill_if_stopped
        return Conversation(self, pipes, request, log, stop=stop, meanwhile=meanwhile).run(deadline)

    def finish(self, stopped: str, give_up: float) -> int:
        """As for ``Asked``."""
        try:
            status = super().finish(stopped, give_up)
            has_begun = self.has_begun()
        finally:
            self.pid = 0
            os.close(self._stdin)
        if not stopped and not has_begun:
            self.end_reason = self.end_reason or f"{DOES_NOT}: it has ended without reading it"
            raise NotBegunError
        return status

    def end(self) -> None:
        """Kill it with its process group, unless it has answered."""
        if self.pid:
            self.finish("not needed", time.monotonic() + REAP_WITHIN)
        close_all(self._pipes)
        self._pipes = []
