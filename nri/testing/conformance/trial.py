"""The plugin under test: runs it as a host does, and compares what it answers.

Every run has a deadline, and its output is bounded. Beside the three variables of the contract, its environment has
:data:`MARK`, by which the processes that it leaves are found and killed.
"""

from __future__ import annotations

import copy
import itertools
import json
import os
import secrets
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nri.client.resident import NotBegunError, Resident
from nri.client.unstartable import explain
from nri.errors import NRIError, escape
from nri.process.conversation import MAX_OUTPUT, Asked, BrokenOffError, Conversation, Lines, readable, start
from nri.process.spawn import PLUGIN_ENVIRONMENT
from nri.types import DecodeError, gojson
from nri.types.v1 import EXTENSIONS, STATES, VERSION, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from nri.process.conversation import Output

MARK = "NRI_CONFORMANCE"
"""The variable that every run of a plugin has, and that its descendants inherit."""

GRACE = 0.5
"""Seconds that a process may take to end after the plugin's: it does not continue to work."""

CHANGEABLE: dict[str, Any] = {
    "process": {"args": ["sh"], "cwd": "/", "env": ["PATH=/bin"]},
    "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
    "hooks": {},
    "linux": {"devices": []},
}
"""What ``spec`` of a ``setup`` has beside the rest: all that a plugin can change."""

_AT_ONCE = 8
_READY = "a resident that is ready before each request, and as it was before the last"


class BrokenRuleError(NRIError):
    """A plugin does not keep a rule: what the contract expects, and what was found."""

    def __init__(self, expected: str, found: str) -> None:
        self.expected, self.found = expected, found
        super().__init__(f"found {found}, expected {expected}")


class NotJudgedError(NRIError):
    """A check does not apply to this plugin, or nothing can be said; the message is the reason."""


class Reply:
    """What one run of the plugin leaves: its output and how it ended.

    :param timeout: seconds that it had, for messages.
    """

    def __init__(self, output: Output, timeout: float) -> None:
        self.stdout, self.stderr, self.status = output.stdout, output.stderr, output.status
        self.stopped = output.stopped
        self._timeout = timeout

    @property
    def ending(self) -> str:
        """How it ended in words, with the end of its stderr."""
        if self.stopped == "deadline":
            return f"no end within {self._timeout:g} s; it was killed"
        if self.stopped:
            return "more than 1 MiB on stdout; it was killed"
        how = f"signal {-self.status}" if self.status < 0 else f"exit status {self.status}"
        return f"{how}, and " + (f"on stderr: {gojson.shorten(self.stderr)}" if self.stderr else "nothing on stderr")

    def document(self) -> dict[str, Any]:
        """Return the JSON object on stdout.

        :raises BrokenRuleError: if stdout has anything else, or more.
        """
        expected, shown = "one JSON object on stdout, and nothing else", readable(self.stdout[:200])
        try:
            value = gojson.loads(self.stdout)
        except DecodeError as error:
            raise BrokenRuleError(expected, f"{shown!r}: {error}" if shown else "nothing on stdout") from None
        if not isinstance(value, dict):
            raise BrokenRuleError(expected, f"{shown!r}")
        return value

    def result(self) -> dict[str, Any]:
        """Return the result that a successful run has written.

        :raises BrokenRuleError: if it did not end with status 0, or stdout has no JSON object.
        """
        if self.stopped or self.status != 0:
            raise BrokenRuleError("a result, and exit status 0", self.ending)
        return self.document()


class Trial:
    """One plugin, which is run from any thread.

    :param path: the absolute path of the executable.
    :param plugin_type: its type, the first word of argv.
    :param conf: ``{"conf": value}`` for its requests, or nothing.
    :param given: what the requests are made of; None for a container that does not exist.
    :param annotations: more of them for each request.
    :param timeout: seconds for each run.
    :param until: when all runs must be over, of :func:`time.monotonic`.
    :ivar life: each state with the reply to its request, in the order of a life.
    :ivar leaves_stdin: whether the plugin does not read its stdin.
    :ivar at_once: the fault of several runs at the same time; then the plugin is run for one request at a time.
    """

    def __init__(
        self,
        path: str,
        plugin_type: str,
        conf: dict[str, Any],
        given: Mapping[str, Any] | None,
        annotations: Mapping[str, str],
        timeout: float,
        until: float,
    ) -> None:
        self.type, self.conf = plugin_type, conf
        self._path, self._given, self._annotations = path, given, annotations
        self._timeout, self._until = timeout, until
        self.life: dict[str, Reply] = {}
        self.leaves_stdin = False
        self.at_once: BrokenRuleError | None = None
        self._mark, self._numbers = secrets.token_hex(8), itertools.count(1)
        self._broken: BrokenRuleError | None = None
        self._late: BrokenRuleError | None = None
        self._steady: Any = None

    # What several checks look at

    def prepare(self) -> None:
        """Run a container's life, from ``setup`` to ``delete``, and several runs at once.

        If ``create`` is not answered, nothing else is run.
        """
        try:
            self.life = {State.CREATE: self.invoke(self.request(State.CREATE))}
            self.plain.result()
        except BrokenRuleError as error:
            self._broken = error
            return
        try:
            container = self.new_id()
            self.life = {state: self.invoke(self.request(state, container)) for state in STATES}
            first, second = (self._form(self.invoke(self.request(State.CREATE))) for _ in range(2))
            self._steady = first if first == second else None
            self.leaves_stdin = self._leaves_unread(encode(self.request(State.CREATE)))
            self._run_at_once()
        except BrokenRuleError as error:
            self._late = error

    def _run_at_once(self) -> None:
        try:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                for reply in list(pool.map(lambda _: self.invoke(self.request(State.CREATE)), range(_AT_ONCE))):
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

    def results(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the states of the life that have a result, each with it.

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
        """Raise :class:`NotJudgedError` if not even an ordinary ``create`` is answered.

        :raises BrokenRuleError: if there was no time to find out.
        """
        if self._broken is not None:
            raise NotJudgedError("an ordinary create is not answered")
        if self._late is not None:
            raise self._late

    def must_read(self) -> None:
        """Raise :class:`NotJudgedError` if the plugin leaves its stdin unread: it cannot refuse what is there."""
        self.must_answer()
        if self.leaves_stdin:
            raise NotJudgedError("it leaves its stdin unread, as it may")

    # Requests and replies

    def new_id(self) -> str:
        """Return an id that no other request has; all are of the same length. A given request keeps its own."""
        given = (self._given or {}).get("id")
        return given if isinstance(given, str) and given else f"nri-conformance-{self._mark}-{next(self._numbers):04}"

    def request(self, state: str, container: str = "") -> dict[str, Any]:
        """Return a request as a host writes it; of a new container if none is named."""
        container = container or self.new_id()
        if self._given is not None:
            value = copy.deepcopy(dict(self._given)) | self.conf
            value |= {"version": VERSION, "state": str(state), "id": container}
            if not isinstance(value.get("spec"), dict):
                value["spec"] = {}
            spec = value["spec"]
        else:
            spec = {
                "resources": {
                    "cpu": {"shares": 512, "quota": 50000, "period": 100000},
                    "memory": {"limit": 268435456},
                },
                "namespaces": {"pid": "", "mount": "", "network": "/proc/1200/ns/net"},
                "cgroupsPath": f"/nri-conformance/{container}",
                "annotations": {
                    "io.kubernetes.cri.container-type": "container",
                    "io.kubernetes.cri.container-name": "web",
                },
            }
            value = self.conf | {"version": VERSION, "state": str(state), "id": container}
            value |= {"sandboxID": f"{container}-pod", "spec": spec}
            value["labels"] = {"app": "web", "io.kubernetes.pod.namespace": "nri-conformance"}
        if self._annotations:
            spec["annotations"] = {**(spec.get("annotations") or {}), **self._annotations}
        if state == State.SETUP:
            spec.update(copy.deepcopy(CHANGEABLE))
        if state in (State.SETUP, State.RESIZE):
            value["extensions"] = dict(EXTENSIONS)
        return value

    def invoke(self, value: Any, **how: Any) -> Reply:
        """Run ``TYPE invoke`` with a request, a JSON value or bytes, on its stdin."""
        return self.run("invoke", stdin=value if isinstance(value, bytes) else encode(value), **how)

    def answer(self, value: Any, **how: Any) -> dict[str, Any]:
        """Return the result that a request, a JSON value or bytes, gets.

        :raises BrokenRuleError: if there is none.
        """
        self.must_answer()
        return self.invoke(value, **how).result()

    def same_as_create(self, reply: Reply, what: str) -> None:
        """Compare the result in a reply with that of an ordinary ``create``; ids do not count.

        :param what: the difference between the two requests, for the error.
        """
        result = reply.result()
        if self._steady is not None and self._form(reply) != self._steady:
            raise BrokenRuleError(f"the same result as {what}", gojson.shorten(gojson.dumps(result).decode()))

    def _form(self, reply: Reply) -> tuple[Any, int]:
        """Return the result without the numbers of containers, for a comparison, and the exit status."""
        head, *rest = reply.stdout.split(f"nri-conformance-{self._mark}-".encode())
        document = b"ID".join([head, *(part[4:] for part in rest)])
        try:
            return gojson.loads(document), reply.status
        except ValueError:
            return document, reply.status

    # Runs

    def run(
        self,
        *words: str,
        stdin: bytes = b"",
        before: str = "",
        stdout: int | None = None,
        environment: Mapping[str, str] = PLUGIN_ENVIRONMENT,
    ) -> Reply:
        """Run the plugin, and return what it leaves.

        :param words: those of its command line after the type.
        :param before: commands of sh(1) that are run before, in the same process.
        :param stdout: as for :func:`nri.process.conversation.start`.
        :raises BrokenRuleError: if it cannot be started or watched, or no time is left.
        """
        deadline = self._deadline()
        pid, pipes = self._start(words, deadline, environment, self._mark, before, stdout)
        return self._converse(Asked(pid), pipes, stdin, deadline)

    def left_behind(self, stdin: bytes) -> list[str]:
        """Run ``TYPE invoke``; return the names of the processes that run on after its end, and kill these."""
        deadline, mark = self._deadline(), secrets.token_hex(8)
        pid, pipes = self._start(["invoke"], deadline, PLUGIN_ENVIRONMENT, mark)
        asked = _Survived(pid, mark)
        try:
            self._converse(asked, pipes, stdin, deadline)
            return asked.names
        finally:
            _end_all(mark)

    @contextmanager
    def resident(self) -> Iterator[Callable[[bytes], Reply]]:
        """Run ``TYPE serve``, and yield a function that returns what the resident leaves for one request.

        :raises BrokenRuleError: if it cannot be started, or is not ready for a request.
        """
        until = self._deadline()
        try:
            resident = Resident(self._path, self.type)
        except OSError as error:
            raise self._not_started(error) from None

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
            pid = resident.pid
            resident.end()
            _await_end_of_group(pid)

    def end(self) -> None:
        """Kill all processes that the runs have left."""
        _end_all(self._mark)

    def _leaves_unread(self, stdin: bytes) -> bool:
        """Run ``TYPE invoke``; return whether the plugin ends with some of its stdin unread."""
        deadline = self._deadline()
        pid, pipes = self._start(["invoke"], deadline, PLUGIN_ENVIRONMENT, self._mark)
        other_end = os.open(f"/proc/self/fd/{pipes[0]}", os.O_RDONLY | os.O_NONBLOCK)  # of the same pipe
        try:
            self._converse(Asked(pid), pipes, stdin, deadline)
            return bool(os.read(other_end, 1))
        finally:
            os.close(other_end)

    def _deadline(self) -> float:
        now = time.monotonic()
        if now >= self._until:
            raise BrokenRuleError("all checks to be done in the time for them", "no time left for this one")
        return min(now + self._timeout, self._until)

    def _start(
        self,
        words: Any,
        deadline: float,
        environment: Mapping[str, str],
        mark: str,
        before: str = "",
        out: int | None = None,
    ) -> tuple[int, list[int]]:
        path, argv = self._path, [self.type, *words]
        if before:
            path, argv = "/bin/sh", ["sh", "-c", f'{before}; exec "$0" "$@"', self._path, *words]
        try:
            return start(path, argv, deadline, {**environment, MARK: mark}, stdout=out)
        except OSError as error:
            raise self._not_started(error) from None

    def _not_started(self, error: OSError) -> BrokenRuleError:
        return BrokenRuleError("an executable that can be started", explain(self._path, error))

    def _converse(self, asked: Asked, pipes: list[int], stdin: bytes, deadline: float) -> Reply:
        lines = Lines(MAX_OUTPUT, lambda line: None)
        try:
            output = Conversation(asked, pipes, stdin, lines, MAX_OUTPUT).run(deadline)
        except BrokenOffError as error:
            raise BrokenRuleError("a run that can be watched", f"{error.strerror}, while it ran") from None
        return Reply(output, self._timeout)


class _Survived(Asked):
    """A run of the plugin that is asked, before its group is killed, what it has left."""

    def __init__(self, pid: int, mark: str) -> None:
        super().__init__(pid)
        self._mark = mark
        self.names: list[str] = []

    def finish(self, stopped: str, give_up: float) -> int:
        until = time.monotonic() + GRACE
        while not stopped and (found := _marked(self._mark)) and time.monotonic() < until:
            time.sleep(0.005)
        self.names = [] if stopped else [_name(pid) for pid in found]
        return super().finish(stopped, give_up)


def encode(value: object) -> bytes:
    """Return the JSON of a request, in ASCII and compact, as a host of this project writes it."""
    return json.dumps(value, separators=(",", ":")).encode()


def _await_end_of_group(pid: int) -> None:
    """Wait, at most :data:`GRACE` seconds, for the end of a killed group whose leader was reaped."""
    until = time.monotonic() + GRACE
    while pid and time.monotonic() < until:
        try:
            os.killpg(pid, 0)
        except OSError:
            return
        time.sleep(0.005)


def _marked(mark: str) -> list[int]:
    """Return the processes whose environment has the mark."""
    return [pid for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()] if _has(mark, pid)]


def _has(mark: str, pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"{MARK}={mark}".encode() in file.read().split(b"\0")
    except OSError:
        return False  # another user's, or it has ended


def _end_all(mark: str) -> None:
    for _ in range(100):  # one may fork while its siblings are killed
        found = _marked(mark)
        if not found:
            return
        for pid in found:
            try:
                pidfd = os.pidfd_open(pid)
            except OSError:
                continue  # it has ended
            try:
                if _has(mark, pid):  # the number is not another process's by now
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            except OSError:
                pass
            finally:
                os.close(pidfd)


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return escape(file.read().rstrip("\n"))
    except OSError:
        return "?"
