"""The deadline of a process that a container's start waits for: all of its work must be done by then.

A process that hangs blocks the container. Reading stdin and running plugins get the time that is left; stderr has a
timeout of its own; files are opened with O_NONBLOCK. For everything else that may block, such as a file system that
does not respond, a kernel timer ends the process after the deadline.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # the signal module would import enum
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

GRACE = 0.5
"""Seconds after the deadline in which the process kills its plugin, reports why, and exits by itself."""


def end_by_sigint() -> None:
    """Have SIGINT end the process, unless the caller has it ignored: the interpreter would raise an exception."""
    if _signal.getsignal(_signal.SIGINT) != _signal.SIG_IGN:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


class Deadline:
    """A deadline for a process that started at the time ``started`` of ``time.monotonic``; by default now."""

    def __init__(self, seconds: float, started: float | None = None) -> None:
        self.seconds = seconds
        if started is None:
            started = time.monotonic()
        self.at = started + seconds
        self.doing = "starting"
        """The current step, for the message."""

    def left(self) -> float:
        """Return the seconds until the deadline, 0 when it has passed."""
        return max(0.0, self.at - time.monotonic())

    def passed(self, task: str) -> str:
        """Return the message that the deadline has passed before ``task`` was done."""
        return f"not done within {self.seconds:g} s: {task}"

    def enforce(self, report: Callable[[str], None]) -> None:
        """Start the timer that ends the process with exit status 1 shortly after the deadline.

        :param report: writes the message. If it blocks too, the kernel ends the process (SIGALRM).
        """

        def end(_number: int, _frame: object) -> None:
            _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)
            _signal.setitimer(_signal.ITIMER_REAL, GRACE)
            report(self.passed(self.doing))
            os._exit(1)  # the watchdog then kills the plugin

        _signal.signal(_signal.SIGALRM, end)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGALRM,))
        _signal.setitimer(_signal.ITIMER_REAL, max(0.001, self.at + GRACE - time.monotonic()))

    def release(self) -> None:
        """Stop the timer of ``enforce``: what follows may take any time."""
        _signal.setitimer(_signal.ITIMER_REAL, 0)
        _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)
