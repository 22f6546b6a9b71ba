"""The hook's one deadline: the time from its start in which everything has to be done.

A runtime waits for its hooks, and one that hangs keeps the container in between. What may block is given what is
left (stdin, the plugins), has a time of its own (stderr), or does not block (files are opened with O_NONBLOCK). For
everything else, as a file system that does not answer, a timer of the kernel ends the process after the deadline.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # the signal module would import enum
import os
import time

from nri.errors import NRIError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

GRACE = 0.5
"""Seconds after the deadline in which the process kills its plugin, says why, and ends by itself."""


class LateError(NRIError):
    """The deadline has passed."""


class Deadline:
    """A deadline for the whole process.

    :param started: when it began, of :func:`time.monotonic`; now by default.
    """

    def __init__(self, seconds: float, started: float | None = None) -> None:
        self.seconds = seconds
        self.at = (time.monotonic() if started is None else started) + seconds
        self.doing = "starting"
        """The current step, for the message."""

    def left(self) -> float:
        """Return the seconds until the deadline, 0 when it has passed."""
        return max(0.0, self.at - time.monotonic())

    def passed(self, what: str) -> str:
        """Return the message that the deadline has passed, with what was not done."""
        return f"not done within {self.seconds:g} s: {what}"

    def enforce(self, report: Callable[[str], None]) -> None:
        """End the process with exit status 1, shortly after the deadline, whatever it waits for.

        :param report: says in a line what was not done. If that hangs too, the kernel ends the process (SIGALRM).
        """

        def end(_number: int, _frame: object) -> None:
            _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)
            _signal.setitimer(_signal.ITIMER_REAL, GRACE)
            report(self.passed(self.doing))
            os._exit(1)  # the guard sees it, and kills what is running

        _signal.signal(_signal.SIGALRM, end)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGALRM,))
        _signal.setitimer(_signal.ITIMER_REAL, max(0.001, self.at + GRACE - time.monotonic()))
