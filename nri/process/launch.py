"""Starts one executable, feeds it, reads it, and makes sure that it ends.

The whole process group is killed at the deadline, when the output is too long, and when the process has exited: when
:func:`launch` returns or raises, none of it runs. The exception is a process that the kernel keeps in an
uninterruptible call: it is reaped when it is gone.
"""

from __future__ import annotations

import errno
import os
import time

from nri.process.conversation import Asked, BrokenOffError, Conversation, Lines, Output
from nri.process.spawn import PLUGIN_ENVIRONMENT, pipe, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from nri.process.conversation import Log, Stop

__all__ = ["MAX_OUTPUT", "BrokenOffError", "Output", "Pipes", "launch", "start"]

MAX_OUTPUT = 1024 * 1024
"""Bytes of stdout, and of logged stderr, by default."""

_BUSY_RETRY = 0.01  # seconds between attempts to run a file that is being written


def launch(
    path: str,
    argv: list[str],
    stdin: bytes,
    deadline: float,
    *,
    max_output: int = MAX_OUTPUT,
    log: Log,
    stop: Stop | None = None,
) -> Output:
    """Run ``path`` until it exits, or until ``deadline`` (of :func:`time.monotonic`, in seconds).

    :param stdin: the bytes for its stdin; it need not read them.
    :param log: called with each line of its stderr when it arrives, control characters escaped.
    :param stop: ends it before its deadline.
    :raises BrokenOffError: when it was started, and could not be waited for or read.
    :raises OSError: when it cannot be started.
    """
    started = time.monotonic()
    pid, pipes = start(path, argv, deadline)
    output = Conversation(Asked(pid), pipes, stdin, Lines(max_output, log), max_output, stop=stop).run(deadline)
    output.seconds = time.monotonic() - started
    return output


def start(
    path: str,
    argv: list[str],
    deadline: float,
    environment: Mapping[str, str] = PLUGIN_ENVIRONMENT,
    *,
    stdout: int | None = None,
) -> tuple[int, list[int]]:
    """Start ``path``; return its pid, and our ends of its stdin, stdout and stderr.

    A file that is being written (ETXTBSY) is tried again until ``deadline``.

    :param stdout: a descriptor that becomes its stdout, which the caller closes. Then our end of stdout has no data.
    :raises OSError: when it cannot be started.
    """
    with Pipes() as pipes:
        child_in, child_out, child_err = pipes.theirs
        out = child_out if stdout is None else stdout
        while True:
            try:
                pid = spawn(path, argv, (child_in, out, child_err), environment=environment)
                break
            except OSError as error:
                if error.errno != errno.ETXTBSY or time.monotonic() + _BUSY_RETRY >= deadline:
                    raise
                time.sleep(_BUSY_RETRY)
    return pid, pipes.ours


class Pipes:
    """The pipes of a new process, as a context: its end closes ``theirs``, and after an error ``ours``, too.

    :raises OSError: when a pipe cannot be made; those that were made are closed.
    """

    __slots__ = ("ours", "theirs")

    def __init__(self) -> None:
        made: list[int] = []
        try:
            for _ in range(3):
                made += pipe()
            child_in, to_child, from_child, child_out, from_stderr, child_err = made
            self.ours = [to_child, from_child, from_stderr]
            self.theirs = [child_in, child_out, child_err]
            for fd in self.ours:
                os.set_blocking(fd, False)
        except BaseException:
            _close(made)
            raise

    def __enter__(self) -> Pipes:
        return self

    def __exit__(self, kind: object, *_error: object) -> None:
        _close(self.theirs if kind is None else [*self.ours, *self.theirs])


def _close(descriptors: list[int]) -> None:
    for fd in descriptors:
        os.close(fd)
