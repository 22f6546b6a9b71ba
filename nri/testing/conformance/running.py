"""Runs the plugin under test as a host does.

Every run has a deadline, and its output is bounded. Beside the three variables of the contract, its environment has
:data:`nri.testing.conformance.remains.MARK`, by which the processes that it leaves are found and killed.
"""

from __future__ import annotations

import os
import secrets
import select
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nri.client.resident import NotBegunError, Resident
from nri.process.children import POLL_WITHOUT_PIDFD, await_end, has_exited, kill_group, pidfd_or_none
from nri.process.conversation import MAX_OUTPUT, Asked, BrokenOffError, Conversation, Lines, start
from nri.process.spawn import PLUGIN_ENVIRONMENT
from nri.testing.conformance import remains
from nri.testing.conformance.errors import BrokenRuleError
from nri.testing.conformance.replies import Reply, not_started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_READY = "a resident that is ready before each request, and as it was before the last"

_PAUSE = 0.005  # seconds between the pieces of a request that arrives slowly


class PluginRunner:
    """Runs one executable, from any thread.

    :param binary: the absolute path of the executable.
    :param plugin_type: its type, the first word of argv.
    :param timeout: seconds for each run.
    :param until: when all runs must be over, of :func:`time.monotonic`.
    """

    def __init__(self, binary: str, plugin_type: str, timeout: float, until: float) -> None:
        self._binary, self._type, self._timeout, self._until = binary, plugin_type, timeout, until
        self._mark = secrets.token_hex(8)

    def run(
        self,
        words: Sequence[str],
        stdin: bytes = b"",
        *,
        pieces: int = 1,
        before: str = "",
        stdout: int | None = None,
        environment: Mapping[str, str] = PLUGIN_ENVIRONMENT,
    ) -> Reply:
        """Run the plugin, and return what it leaves.

        :param words: those of its command line after the type.
        :param pieces: the number of pieces in which stdin is written, with pauses between them.
        :param before: commands of sh(1) that are run before, in the same process.
        :param stdout: as for :func:`nri.process.conversation.start`.
        :raises BrokenRuleError: if it cannot be started or watched, or no time is left.
        """
        deadline = self._deadline()
        pid, pipes = self._start(words, deadline, {**environment, remains.MARK: self._mark}, before, stdout)
        if pieces > 1:
            _write(pipes[0], stdin, pieces, deadline)
            pipes[0], stdin = os.open(os.devnull, os.O_WRONLY), b""
        return self._converse(pid, pipes, stdin, deadline)

    def leaves_unread(self, stdin: bytes) -> bool:
        """Run ``TYPE invoke``; return whether the plugin ends with some of its stdin unread."""
        deadline = self._deadline()
        pid, pipes = self._start(["invoke"], deadline, {**PLUGIN_ENVIRONMENT, remains.MARK: self._mark})
        other_end = os.open(f"/proc/self/fd/{pipes[0]}", os.O_RDONLY | os.O_NONBLOCK)  # of the same pipe
        try:
            self._converse(pid, pipes, stdin, deadline)
            return bool(os.read(other_end, 1))
        finally:
            os.close(other_end)

    def left_behind(self, stdin: bytes) -> list[str]:
        """Run ``TYPE invoke``; return the names of the processes that run on after its end, and kill these."""
        deadline = self._deadline()
        mark = secrets.token_hex(8)
        pid, pipes = self._start(["invoke"], deadline, {**PLUGIN_ENVIRONMENT, remains.MARK: mark})
        try:
            _write(pipes[0], stdin, 1, deadline)
            _drain(pid, pipes[1:], deadline)
            return remains.left_behind(mark, pid) if has_exited(pid) else []
        finally:
            kill_group(pid)
            for fd in pipes[1:]:
                os.close(fd)
            await_end(pid, None)
            remains.end_all(mark)

    @contextmanager
    def resident(self) -> Iterator[Callable[[bytes], Reply]]:
        """Run ``TYPE serve``, and yield a function that returns what the resident leaves for one request.

        :raises BrokenRuleError: if it cannot be started, or is not ready for a request.
        """
        until = self._deadline()
        try:
            resident = Resident(self._binary, self._type)
        except OSError as error:
            raise not_started(self._binary, error) from None

        def ask(stdin: bytes) -> Reply:
            while not resident.is_ready():
                if not resident.is_alive or time.monotonic() >= until:
                    raise BrokenRuleError(_READY, resident.changed or "its end, or no word from it")
            lines = Lines(MAX_OUTPUT, lambda line: None)
            try:
                return Reply(resident.ask(stdin, self._deadline(), lines, MAX_OUTPUT), self._timeout)
            except (NotBegunError, BrokenOffError):
                raise BrokenRuleError("an answer to each request", "its end") from None

        try:
            if why := resident.start(until):
                raise BrokenRuleError(_READY, why)
            yield ask
        finally:
            resident.end()

    def end(self) -> None:
        """Kill all processes that the runs have left."""
        remains.end_all(self._mark)

    def _deadline(self) -> float:
        now = time.monotonic()
        if now >= self._until:
            raise BrokenRuleError("all checks to be done in the time for them", "no time left for this one")
        return min(now + self._timeout, self._until)

    def _start(
        self,
        words: Sequence[str],
        deadline: float,
        environment: Mapping[str, str],
        before: str = "",
        stdout: int | None = None,
    ) -> tuple[int, list[int]]:
        path, argv = self._binary, [self._type, *words]
        if before:
            path, argv = "/bin/sh", ["sh", "-c", f'{before}; exec "$0" "$@"', self._binary, *words]
        try:
            return start(path, argv, deadline, environment, stdout=stdout)
        except OSError as error:
            raise not_started(self._binary, error) from None

    def _converse(self, pid: int, pipes: list[int], stdin: bytes, deadline: float) -> Reply:
        lines = Lines(MAX_OUTPUT, lambda line: None)
        try:
            output = Conversation(Asked(pid), pipes, stdin, lines, MAX_OUTPUT).run(deadline)
        except BrokenOffError as error:
            raise BrokenRuleError("a run that can be watched", f"{error.strerror}, while it ran") from None
        return Reply(output, self._timeout)


def _write(fd: int, data: bytes, pieces: int, deadline: float) -> None:
    """Write stdin in pieces, and close it. The plugin need not read it."""
    size = -(-len(data) // pieces)
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    left = memoryview(data)
    try:
        while left and (time_left := deadline - time.monotonic()) > 0:
            if poll.poll(time_left * 1000 + 1):
                left = left[os.write(fd, left[:size]) :]
                if left and pieces > 1:
                    time.sleep(_PAUSE)
    except BrokenPipeError:
        pass
    finally:
        os.close(fd)


def _drain(pid: int, outputs: list[int], deadline: float) -> None:
    """Read and drop a process's output until the process ends, or until ``deadline``."""
    pidfd = pidfd_or_none(pid)
    poll = select.poll()
    for fd in (*outputs, *([pidfd] if pidfd is not None else [])):
        poll.register(fd, select.POLLIN)
    try:
        while not has_exited(pid) and (left := deadline - time.monotonic()) > 0:
            for fd, _ in poll.poll((left if pidfd is not None else POLL_WITHOUT_PIDFD) * 1000 + 1):
                if fd != pidfd and not os.read(fd, 65536):
                    poll.unregister(fd)
    finally:
        if pidfd is not None:
            os.close(pidfd)
