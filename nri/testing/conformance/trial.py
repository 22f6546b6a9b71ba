"""The plugin under test: runs it as a host does, and keeps what several checks look at.

Every run has a deadline, and its output is bounded. Beside the three variables of the contract, its environment has
:data:`nri.testing.conformance.remains.MARK`, by which the processes that it leaves are found and killed.
"""

from __future__ import annotations

import itertools
import os
import secrets
import select
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from nri.process.conversation import Conversation
from nri.process.launch import MAX_OUTPUT, start
from nri.process.lines import Lines
from nri.process.spawn import PLUGIN_ENVIRONMENT
from nri.process.wait import POLL_WITHOUT_PIDFD, await_end, has_exited, kill_group, pidfd_or_none
from nri.testing.conformance import remains
from nri.testing.conformance.errors import BrokenRuleError, NotJudgedError
from nri.testing.conformance.replies import Reply, not_started
from nri.testing.conformance.requests import encode, request
from nri.types import gojson
from nri.types.v1 import STATES, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_AT_ONCE = 8
_PAUSE = 0.005  # seconds between the pieces of a request that arrives slowly


class Trial:
    """One plugin, with the time that its runs have.

    :param binary: the absolute path of the executable.
    :param plugin_type: its type, the first word of argv.
    :param conf: for its requests; None for none.
    :param timeout: seconds for each run.
    :param until: when all runs must be over, of :func:`time.monotonic`.
    :ivar life: each state with the reply to its request, in the order of a life.
    :ivar leaves_stdin: whether the plugin does not read its stdin.
    :ivar at_once: the fault of several runs at the same time; then the plugin is run for one request at a time.
    """

    def __init__(self, binary: str, plugin_type: str, conf: Any, timeout: float, until: float) -> None:
        self.binary, self.type, self.conf = binary, plugin_type, conf
        self.mark = secrets.token_hex(8)
        self.life: dict[str, Reply] = {}
        self.life_id = ""
        self._timeout, self._until = timeout, until
        self._numbers = itertools.count(1)
        self.at_once: BrokenRuleError | None = None
        self.leaves_stdin = False
        self._broken: BrokenRuleError | None = None
        self._steady: tuple[str, Any] | None = None

    # What several checks look at

    def prepare(self) -> None:
        """Run a container's life, from ``setup`` to ``delete``, and several runs at once.

        If ``create`` is not answered, nothing else is run.
        """
        self.life_id = self.new_id()
        try:
            self.life[State.CREATE] = self.invoke(request(State.CREATE, self.life_id, self.conf))
            self.life[State.CREATE].result()
        except BrokenRuleError as error:
            self._broken = error
            return
        self.life_id = self.new_id()
        self.life = {state: self.invoke(request(state, self.life_id, self.conf)) for state in STATES}
        first, second = (self._form(*self.create()) for _ in range(2))
        self._steady = ("same", first) if first == second else None
        self.leaves_stdin = self._is_left(encode(request(State.CREATE, self.new_id(), self.conf)))
        values = [request(State.CREATE, self.new_id(), self.conf) for _ in range(_AT_ONCE)]
        try:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                for reply in list(pool.map(self.invoke, values)):
                    reply.result()
        except BrokenRuleError as error:
            self.at_once = error

    @property
    def plain(self) -> Reply:
        """The reply to an ordinary ``create``.

        :raises BrokenRuleError: if the plugin cannot be started.
        """
        if State.CREATE not in self.life:
            raise self._broken or NotJudgedError("there was no run")
        return self.life[State.CREATE]

    def results(self) -> Iterable[tuple[str, dict[str, Any]]]:
        """Yield each state of the life with its result, where there is one.

        :raises NotJudgedError: if there is none at all.
        """
        found = []
        for state, reply in self.life.items():
            try:
                found.append((state, reply.document()))
            except BrokenRuleError:
                continue
        if not found:
            raise NotJudgedError("there is no result")
        return found

    def must_answer(self) -> None:
        """Raise :class:`NotJudgedError` if not even an ordinary ``create`` is answered."""
        if self._broken is not None:
            raise NotJudgedError("an ordinary create is not answered")

    def must_read(self) -> None:
        """Raise :class:`NotJudgedError` if the plugin leaves its stdin unread: it cannot refuse what is there."""
        self.must_answer()
        if self.leaves_stdin:
            raise NotJudgedError("it leaves its stdin unread, as it may")

    # Runs

    def new_id(self) -> str:
        """Return an id that no other request has; all are of the same length."""
        return f"nri-conformance-{self.mark}-{next(self._numbers):04}"

    def create(self, **changes: Any) -> tuple[Reply, str]:
        """Return the reply to an ordinary ``create`` of a new container, and its id.

        :param changes: keys of the request with other values.
        """
        container = self.new_id()
        return self.invoke(request(State.CREATE, container, self.conf) | changes), container

    def answer(self, value: Any, **how: Any) -> dict[str, Any]:
        """Return the result that a request gets.

        :param value: the request: a JSON value, or bytes.
        :raises BrokenRuleError: if there is none.
        """
        self.must_answer()
        return self.invoke(value, **how).result()

    def same_answer(self, value: Any, container: str, what: str, **how: Any) -> None:
        """Compare the result that a request gets with that of an ordinary ``create``; ids do not count.

        :param what: the difference between the two requests, for the error.
        """
        self.must_answer()
        reply = self.invoke(value, **how)
        result = reply.result()
        if self._steady is not None and self._form(reply, container) != self._steady[1]:
            shown = gojson.shorten(gojson.dumps(result).decode())
            raise BrokenRuleError(f"the same result as {what}", shown)

    def invoke(self, value: Any, **how: Any) -> Reply:
        """Run ``TYPE invoke`` with a request, a JSON value or bytes, on its stdin."""
        return self.run("invoke", stdin=value if isinstance(value, bytes) else encode(value), **how)

    def run(
        self,
        *words: str,
        stdin: bytes = b"",
        pieces: int = 1,
        before: str = "",
        stdout: int | None = None,
        environment: Mapping[str, str] = PLUGIN_ENVIRONMENT,
    ) -> Reply:
        """Run the plugin.

        :param words: those of its command line after the type.
        :param pieces: the number of pieces in which stdin is written, with pauses between them.
        :param before: commands of sh(1) that are run before, in the same process.
        :param stdout: as for :func:`nri.process.launch.start`.
        :raises BrokenRuleError: if it cannot be started.
        """
        deadline = self._deadline()
        pid, pipes = self._start(words, deadline, before, stdout, environment)
        if pieces > 1:
            _write_slowly(pipes[0], stdin, pieces)
            pipes[0], stdin = os.open(os.devnull, os.O_WRONLY), b""
        output = Conversation(pid, pipes, stdin, Lines(MAX_OUTPUT, lambda line: None), MAX_OUTPUT).run(deadline)
        return Reply(output, self._timeout)

    def left_behind(self, value: Any) -> list[str]:
        """Return the names of the processes that run on after the plugin has ended, and kill its process group."""
        self.must_answer()
        deadline = self._deadline()
        mark = secrets.token_hex(8)
        pid, pipes = self._start(("invoke",), deadline, "", None, PLUGIN_ENVIRONMENT, mark)
        try:
            _write_slowly(pipes[0], encode(value), 1)
            _drain(pid, pipes[1:], deadline)
            return remains.left_behind(mark, pid) if has_exited(pid) else []
        finally:
            kill_group(pid)
            for fd in pipes[1:]:
                os.close(fd)
            await_end(pid, None)
            remains.end_all(mark)

    def _is_left(self, stdin: bytes) -> bool:
        """Run the plugin; return whether some of its stdin, which a pipe can hold, is still unread at its end."""
        deadline = self._deadline()
        pid, pipes = self._start(("invoke",), deadline, "", None, PLUGIN_ENVIRONMENT)
        other_end = os.open(f"/proc/self/fd/{pipes[0]}", os.O_RDONLY | os.O_NONBLOCK)  # of the same pipe
        try:
            Conversation(pid, pipes, stdin, Lines(MAX_OUTPUT, lambda line: None), MAX_OUTPUT).run(deadline)
            return bool(os.read(other_end, 1))
        finally:
            os.close(other_end)

    def end(self) -> None:
        """Kill all processes that the runs have left."""
        remains.end_all(self.mark)

    def _start(
        self,
        words: Iterable[str],
        deadline: float,
        before: str,
        stdout: int | None,
        environment: Mapping[str, str],
        mark: str = "",
    ) -> tuple[int, list[int]]:
        path, argv = self.binary, [self.type, *words]
        if before:
            path, argv = "/bin/sh", ["sh", "-c", f'{before}; exec "$0" "$@"', self.binary, *words]
        try:
            return start(path, argv, deadline, {**environment, remains.MARK: mark or self.mark}, stdout=stdout)
        except OSError as error:
            raise not_started(self.binary, error) from None

    def _deadline(self) -> float:
        now = time.monotonic()
        if now >= self._until:
            raise BrokenRuleError("all checks to be done in the time for them", "no time left for this one")
        return min(now + self._timeout, self._until)

    def _form(self, reply: Reply, container: str) -> Any:
        """Return the result without the container's id, for a comparison."""
        try:
            return gojson.loads(reply.stdout.replace(container.encode(), b"ID")), reply.status
        except ValueError:
            return reply.stdout, reply.status


def _write_slowly(fd: int, data: bytes, pieces: int) -> None:
    """Write a request that a pipe can hold in pieces, and close the pipe. The plugin need not read it."""
    size = -(-len(data) // pieces)
    try:
        for at in range(0, len(data), size):
            if at:
                time.sleep(_PAUSE)
            os.write(fd, data[at : at + size])
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
