"""Runs a program that this process has loaded already in a forked process, with the guarantees of :mod:`.launch`.

The child gets nothing of its parent but the memory: see :mod:`.afresh`. Fork only where there is one thread: a lock
that another thread holds would never be released in the child.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # the signal module would import enum
import os
import select
import time

from nri.process import children
from nri.process.afresh import LoadedProgram
from nri.process.conversation import Asked, Conversation
from nri.process.inherit import SIGNALS
from nri.process.launch import Pipes
from nri.process.lines import Lines
from nri.process.spawn import pipe
from nri.process.wait import give_up_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    from nri.process.conversation import Output
    from nri.process.lines import Log

_LAST_FD = 1 << 20


class ForkedProgram:
    """A process that was forked for a program and waits for its stdin, with our ends of its pipes."""

    def __init__(self, program: LoadedProgram, deadline: float) -> None:
        """Fork it.

        :param deadline: as for :meth:`converse`; the start may take no longer.
        :raises OSError: when no process can be forked.
        """
        with Pipes() as pipes:
            self.pid = _fork(program, pipes.theirs, deadline)
        self._pipes = pipes.ours

    def converse(
        self,
        stdin: bytes,
        deadline: float,
        *,
        max_output: int,
        log: Log,
        meanwhile: Callable[[], None] | None = None,
    ) -> Output:
        """Write ``stdin`` to it and read it until it exits, or until ``deadline``, as ``launch`` does.

        :param meanwhile: called once, if it takes a moment.
        :raises BrokenOffError: when it could not be waited for or read.
        """
        started = time.monotonic()
        asked, lines = Asked(self.pid), Lines(max_output, log)
        pause = None if meanwhile is None else (0.001, meanwhile)
        output = Conversation(asked, self._pipes, stdin, lines, max_output, meanwhile=pause).run(deadline)
        output.seconds = time.monotonic() - started
        return output

    def end(self) -> None:
        """Kill and reap it: it gets no request."""
        Asked(self.pid).finish("unasked", give_up_at(0.0))
        for fd in self._pipes:
            os.close(fd)


def _fork(program: LoadedProgram, descriptors: Sequence[int], deadline: float) -> int:
    """Fork a process that runs ``program``, and return its pid. It leads a group or session as with ``spawn``."""
    children.reap_late()
    with children.Starting(descriptors) as child:
        begun: list[int] = []
        before = _signal.pthread_sigmask(_signal.SIG_BLOCK, SIGNALS)  # our handlers must not run in the child
        try:
            if child.is_reported:
                begun += pipe()
            pid = os.fork()
            if pid == 0:
                _become(program, descriptors, own_session=child.is_reported)
            child.pid = pid
            if child.is_reported:
                _await_session(begun, deadline)
            else:
                _set_group(pid)
        finally:
            for fd in begun:
                os.close(fd)
            _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
    return pid


def _set_group(pid: int) -> None:
    """Set the child's group. Both processes do so, so that it is done when either continues."""
    try:
        os.setpgid(pid, pid)
    except OSError:
        pass  # it has ended


def _await_session(begun: list[int], deadline: float) -> None:
    """Wait until the child leads its session: then it closes its copies of the pipe ``begun``.

    The watchdog kills the sessions that it was told of, and would find nothing in one that does not exist yet.
    """
    os.close(begun.pop())
    poll = select.poll()
    poll.register(begun[0], select.POLLIN)
    poll.poll(max(0.0, deadline - time.monotonic()) * 1000 + 1)


def _become(program: LoadedProgram, descriptors: Sequence[int], *, own_session: bool) -> NoReturn:
    """Be the child: change what an exec and its actions would change, and run the program."""
    try:
        if own_session:
            os.setsid()
        else:
            os.setpgid(0, 0)
        for number, fd in enumerate(descriptors):
            os.dup2(fd, number)
        os.closerange(len(descriptors), _LAST_FD)
        program.run()
    finally:
        os._exit(1)
