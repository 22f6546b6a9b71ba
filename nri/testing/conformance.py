"""The contract of docs/spec.md as checks that run an executable in any language.

    from nri.testing.conformance import assert_conforms

    assert_conforms("dist/web/web", conf={"cpus": "2-3"})

:func:`check` returns the outcome of each check, ``nri conformance`` prints them. What can be seen from outside is
checked; without a request of one's own the requests are harmless to the node. Each is a MUST of the specification, on
which a host relies; what a plugin reports about itself, ``nri check`` looks at.
"""

from __future__ import annotations

import copy
import itertools
import json
import os
import secrets
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from nri.adjust.reading import read_adjust, read_updates
from nri.client.unstartable import explain
from nri.errors import NRIError, escape
from nri.process.conversation import (
    MAX_OUTPUT,
    Asked,
    BrokenOffError,
    Conversation,
    Lines,
    Output,
    readable,
    start,
)
from nri.process.spawn import PLUGIN_ENVIRONMENT
from nri.types import DecodeError, gojson
from nri.types.gojson import describe, shorten
from nri.types.v1 import EXTENSIONS, STATES, VERSION, State

__all__ = [
    "CHECKS",
    "FAILS",
    "HOLDS",
    "NOT_JUDGED",
    "Check",
    "CheckOutcome",
    "assert_conforms",
    "check",
    "report",
]

HOLDS, FAILS, NOT_JUDGED = "holds", "fails", "not judged"

TIMEOUT = 10.0
"""Seconds for each run of the plugin: the default deadline of a host."""

MARK = "NRI_CONFORMANCE"
"""The variable that every run of a plugin has beside those of the contract; its descendants inherit it."""

GRACE = 0.5
"""Seconds that a process may take to end after the plugin's: it does not continue to work."""

LOOKS = 4
"""Looks in a row without a process after which there is none: one that is within execve(2) has no environment."""

UNKNOWN = "nri-conformance"
"""A state that no version of the contract has."""

_LARGE = 768 * 1024  # bytes of a request that is larger than a pipe, an argument and a line may be
_WORDS = {HOLDS: "ok", FAILS: "FAIL", NOT_JUDGED: "-"}
_ADJUSTABLE: dict[str, Any] = {  # what `spec` of a `setup` has beside the rest
    "process": {"args": ["sh"], "cwd": "/", "env": ["PATH=/bin"]},
    "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
    "hooks": {},
    "linux": {"devices": []},
}


class BrokenRuleError(NRIError):
    """A plugin does not keep a rule: what the contract expects, and what was found."""

    def __init__(self, expected: str, found: str) -> None:
        self.expected, self.found = expected, found
        super().__init__(f"found {found}, expected {expected}")


class NotJudgedError(NRIError):
    """A check does not apply to this plugin, or nothing can be said; the message is the reason."""


class Check(NamedTuple):
    """One rule of the contract.

    :ivar id: a short name, unique among all checks.
    :ivar section: the anchor of the section in docs/spec.md.
    :ivar title: the rule, as a sentence without its full stop.
    :ivar judge: raises BrokenRuleError or NotJudgedError.
    """

    id: str
    section: str
    title: str
    judge: Callable[[Trial], None]


class CheckOutcome:
    """The outcome of one check for one plugin.

    :ivar check: the :class:`Check`.
    :ivar verdict: :data:`HOLDS`, :data:`FAILS` or :data:`NOT_JUDGED`.
    :ivar expected: for :data:`FAILS`, what the contract expects.
    :ivar found: for :data:`FAILS`, what was found; for :data:`NOT_JUDGED`, the reason.
    """

    def __init__(self, check: Check, verdict: str = HOLDS, expected: str = "", found: str = "") -> None:
        self.check, self.verdict, self.expected, self.found = check, verdict, expected, found


def check(
    binary: str | os.PathLike[str],
    *,
    conf: Any = None,
    plugin_type: str = "",
    request: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    checks: Sequence[Check] = (),
) -> list[CheckOutcome]:
    """Check that an executable keeps the contract; return the outcome of each check, in order.

    Runs the executable some 50 times: see docs/testing.md. When it returns, none of these processes runs.

    :param conf: the plugin conf of the requests, a JSON value; None for none.
    :param plugin_type: the plugin's type; by default the name of the file.
    :param request: what the requests are made of, a JSON object such as ``nri invoke`` takes; by default one about a
        container that does not exist. The plugin acts on the container of this one.
    :param annotations: in addition to those of the request.
    :param timeout: seconds for each run.
    :param checks: some of :data:`CHECKS`; all by default.
    """
    path = os.path.abspath(binary)
    given = {} if conf is None else {"conf": conf}
    trial = Trial(path, plugin_type or os.path.basename(path), given, request, annotations or {}, timeout)
    try:
        trial.prepare()
        return [_judged(rule, trial) for rule in checks or CHECKS]
    finally:
        trial.end()


def _judged(check: Check, trial: Trial) -> CheckOutcome:
    try:
        check.judge(trial)
    except BrokenRuleError as error:
        return CheckOutcome(check, FAILS, error.expected, error.found)
    except NotJudgedError as reason:
        return CheckOutcome(check, NOT_JUDGED, found=str(reason))
    return CheckOutcome(check)


def assert_conforms(binary: str | os.PathLike[str], **options: Any) -> None:
    """Assert that an executable keeps the contract; the options are those of :func:`check`.

    :raises AssertionError: with the report of the checks that fail.
    """
    if failed := [outcome for outcome in check(binary, **options) if outcome.verdict == FAILS]:
        raise AssertionError(f"{binary} does not conform:\n{report(failed)}")


def report(outcomes: Sequence[CheckOutcome]) -> str:
    """Return one line for each check, with what was expected and found where it fails, and a summary."""
    lines: list[str] = []
    width = max(len(rule.id) for rule in CHECKS)
    for outcome in outcomes:
        rule = outcome.check
        text = f"not judged: {escape(outcome.found)}" if outcome.verdict == NOT_JUDGED else rule.title
        lines.append(f"{_WORDS[outcome.verdict]:4}  {rule.id:{width}}  {text}")
        if outcome.verdict == FAILS:
            lines.append(f"      expected {escape(outcome.expected)}")
            lines.append(f"      found    {escape(outcome.found)}")
            lines.append(f"      docs/spec.md#{rule.section}")
    verdicts = [outcome.verdict for outcome in outcomes]
    counts = {"hold": verdicts.count(HOLDS), "fail": verdicts.count(FAILS), "not judged": verdicts.count(NOT_JUDGED)}
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count or verdict == "hold")
    plural = "s" if len(outcomes) > 1 else ""
    conforms = "it does not conform" if counts["fail"] else "it conforms"
    return "\n".join([*lines, "", f"{len(outcomes)} check{plural}: {said}: {conforms}"])


class Reply:
    """The output and the exit of one run of the plugin.

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
        return f"{how}, and " + (f"on stderr: {shorten(self.stderr)}" if self.stderr else "nothing on stderr")

    def has_ended(self, status: int) -> bool:
        """Return whether it ended by itself with this exit status."""
        return not self.stopped and self.status == status

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
        if not self.has_ended(0):
            raise BrokenRuleError("a result, and exit status 0", self.ending)
        return self.document()


class Trial:
    """One plugin, which is run as a host does it: each run has a deadline, and its output is bounded.

    :param path: the absolute path of the executable.
    :param plugin_type: its type, the first word of argv.
    :param conf: ``{"conf": value}`` for its requests, or nothing.
    :param given: what the requests are made of; None for a container that does not exist.
    :param annotations: more of them for each request.
    :param timeout: seconds for each run.
    :ivar life: each state with the reply to its request, in the order of a life.
    """

    def __init__(
        self,
        path: str,
        plugin_type: str,
        conf: dict[str, Any],
        given: Mapping[str, Any] | None,
        annotations: Mapping[str, str],
        timeout: float,
    ) -> None:
        self.type, self.conf = plugin_type, conf
        self._path, self._given, self._annotations, self._timeout = path, given, annotations, timeout
        self._mark, self._numbers = secrets.token_hex(8), itertools.count(1)
        self._ordinary = self.request(State.CREATE)
        self._unanswered: BrokenRuleError | None = None
        self._steady: dict[str, Any] | None = None  # the result of an ordinary create, if each run has the same
        self._leaves_stdin = False
        self.life: dict[str, Reply] = {}

    def prepare(self) -> None:
        """Run a container's life, from ``setup`` to ``delete``; if ``create`` is not answered, nothing else."""
        try:
            self.life = {State.CREATE: self.invoke(self._ordinary)}
            first = self.plain.result()
        except BrokenRuleError as error:
            self._unanswered = error
            return
        self._steady = first if self.invoke(self._ordinary).stdout == self.plain.stdout else None
        container = self.new_id()
        self.life = {state: self.invoke(self.request(state, container)) for state in STATES}
        self._leaves_stdin = self._leaves_unread(encode(self._ordinary))

    @property
    def plain(self) -> Reply:
        """The reply to an ordinary ``create``.

        :raises BrokenRuleError: if the plugin cannot be started.
        """
        if State.CREATE not in self.life:
            raise self._unanswered or NotJudgedError("there was no run")
        return self.life[State.CREATE]

    def results(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the states of the life that have a result, each with it.

        :raises NotJudgedError: if there is none at all.
        """
        results = []
        for state, reply in self.life.items():
            with suppress(BrokenRuleError):
                results.append((state, reply.document()))
        if not results:
            raise NotJudgedError("there is no result")
        return results

    def must_answer(self) -> None:
        """Raise :class:`NotJudgedError` if not even an ordinary ``create`` is answered."""
        if self._unanswered is not None:
            raise NotJudgedError("an ordinary create is not answered")

    def must_read(self) -> None:
        """Raise :class:`NotJudgedError` if the plugin leaves its stdin unread: it cannot refuse what is there."""
        self.must_answer()
        if self._leaves_stdin:
            raise NotJudgedError("it leaves its stdin unread, as it may")

    def new_id(self) -> str:
        """Return an id that no other request has. A given request keeps its own."""
        given = (self._given or {}).get("id")
        return given if isinstance(given, str) and given else f"nri-conformance-{self._mark}-{next(self._numbers)}"

    def request(self, state: str, container: str = "") -> dict[str, Any]:
        """Return a request as a host writes it; of a new container if none is named."""
        container = container or self.new_id()
        value = {"sandboxID": f"{container}-pod", "spec": _spec(container), "labels": _LABELS, **self.conf}
        if self._given is not None:
            value = dict(self._given) | self.conf
        value = copy.deepcopy(value) | {"version": VERSION, "state": str(state), "id": container}
        spec = value["spec"] = value["spec"] if isinstance(value.get("spec"), dict) else {}
        if self._annotations:
            spec["annotations"] = {**(spec.get("annotations") or {}), **self._annotations}
        if state == State.SETUP:
            spec.update(copy.deepcopy(_ADJUSTABLE))
        if state in (State.SETUP, State.RESIZE):
            value["extensions"] = dict(EXTENSIONS)
        return value

    def ordinary(self) -> dict[str, Any]:
        """Return the request of an ordinary ``create``, for :meth:`same_as_create`."""
        return copy.deepcopy(self._ordinary)

    def invoke(self, value: Any, stdout: int | None = None) -> Reply:
        """Run ``TYPE invoke`` with a request, a JSON value or bytes, on its stdin."""
        return self.run("invoke", stdin=value if isinstance(value, bytes) else encode(value), stdout=stdout)

    def answer(self, value: Any) -> dict[str, Any]:
        """Return the result that a request, a JSON value or bytes, gets.

        :raises BrokenRuleError: if there is none.
        """
        self.must_answer()
        return self.invoke(value).result()

    def same_as_create(self, reply: Reply, difference: str) -> None:
        """Compare the result in a reply with that of an ordinary ``create``.

        :param what: the difference between the two requests, for the error.
        """
        result = reply.result()
        if self._steady is not None and result != self._steady:
            raise BrokenRuleError(f"the same result as {difference}", shorten(gojson.dumps(result).decode()))

    def run(self, *words: str, stdin: bytes = b"", stdout: int | None = None) -> Reply:
        """Run the plugin, and return what it leaves.

        :param words: those of its command line after the type.
        :param stdout: as for :func:`nri.process.conversation.start`.
        :raises BrokenRuleError: if it cannot be started or watched.
        """
        pid, pipes = self._start(words, self._mark, stdout)
        return self._converse(Asked(pid), pipes, stdin)

    def left_behind(self, stdin: bytes) -> list[str]:
        """Run ``TYPE invoke``; return the names of the processes that run on after its end, and kill these."""
        mark = secrets.token_hex(8)
        pid, pipes = self._start(["invoke"], mark)
        asked = _Survived(pid, mark)
        try:
            self._converse(asked, pipes, stdin)
            return asked.names
        finally:
            _end_all(mark)

    def end(self) -> None:
        """Kill all processes that the runs have left."""
        _end_all(self._mark)

    def _leaves_unread(self, stdin: bytes) -> bool:
        """Run ``TYPE invoke``; return whether the plugin ends with some of its stdin unread."""
        pid, pipes = self._start(["invoke"], self._mark)
        other_end = os.open(f"/proc/self/fd/{pipes[0]}", os.O_RDONLY | os.O_NONBLOCK)  # of the same pipe
        try:
            self._converse(Asked(pid), pipes, stdin)
            return bool(os.read(other_end, 1))
        finally:
            os.close(other_end)

    def _start(self, words: Iterable[str], mark: str, stdout: int | None = None) -> tuple[int, list[int]]:
        environment = {**PLUGIN_ENVIRONMENT, MARK: mark}
        try:
            deadline = time.monotonic() + self._timeout
            return start(self._path, [self.type, *words], deadline, environment, stdout=stdout)
        except OSError as error:
            raise self._not_started(error) from None

    def _not_started(self, error: OSError) -> BrokenRuleError:
        return BrokenRuleError("an executable that can be started", explain(self._path, error))

    def _converse(self, asked: Asked, pipes: list[int], stdin: bytes) -> Reply:
        lines = Lines(MAX_OUTPUT, lambda line: None)
        try:
            output = Conversation(asked, pipes, stdin, lines, MAX_OUTPUT).run(time.monotonic() + self._timeout)
        except BrokenOffError as error:
            raise BrokenRuleError("a run that can be watched", f"{error.strerror}, while it ran") from None
        return Reply(output, self._timeout)


_LABELS = {"app": "web", "io.kubernetes.pod.namespace": "nri-conformance"}


def _spec(container: str) -> dict[str, Any]:
    return {
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


class _Survived(Asked):
    """A run of the plugin that is asked, before its group is killed, what it has left."""

    def __init__(self, pid: int, mark: str) -> None:
        super().__init__(pid)
        self._mark = mark
        self.names: list[str] = []

    def finish(self, stopped: str, give_up: float) -> int:
        until, missed = time.monotonic() + GRACE, 0
        running: dict[int, str] = {}
        while not stopped and missed < LOOKS and time.monotonic() < until:
            running = _marked(self._mark)
            missed = 0 if running else missed + 1
            time.sleep(0.005)
        self.names = [*running.values()]
        return super().finish(stopped, give_up)


def encode(value: object) -> bytes:
    """Return the JSON of a request, in ASCII and compact, as a host of this project writes it."""
    return json.dumps(value, separators=(",", ":")).encode()


def _marked(mark: str) -> dict[int, str]:
    """Return the processes whose environment has the mark, with their names."""
    names = {}
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
        try:
            with open(f"/proc/{pid}/environ", "rb") as environment, open(f"/proc/{pid}/comm", "rb") as name:
                if f"{MARK}={mark}".encode() in environment.read().split(b"\0"):
                    names[pid] = escape(readable(name.read()).rstrip("\n"))
        except OSError:
            continue  # another user's, or it has ended
    return names


def _end_all(mark: str) -> None:
    for _ in range(100):  # one may fork while its siblings are killed
        if not (running := _marked(mark)):
            return
        for pid in running:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)


# The rules, in the order of a report

_CHECKS: list[Check] = []


def _rule(id: str, section: str, title: str) -> Callable[[Callable[[Trial], None]], None]:
    return lambda judge: _CHECKS.append(Check(id, section, title, judge))


def _answered(id: str, section: str, title: str, requests: Callable[[Trial], Iterable[Any]]) -> None:
    """Add a rule by which each of some requests has a result."""

    def judge(trial: Trial) -> None:
        for value in requests(trial):
            trial.answer(value)

    _CHECKS.append(Check(id, section, title, judge))


def _refused(id: str, section: str, title: str, stdins: Callable[[Trial], Mapping[str, bytes]]) -> None:
    """Add a rule by which what is on stdin, by its name, is refused."""

    def judge(trial: Trial) -> None:
        trial.must_read()
        for label, stdin in stdins(trial).items():
            reply = trial.invoke(stdin)
            if not reply.has_ended(1) or not reply.stderr:
                shown = f"{reply.ending}, for {label}"
                if reply.status == 0 and reply.stdout:
                    shown += f"; stdout: {shorten(reply.stdout.decode(errors='replace'))!r}"
                raise BrokenRuleError("exit status 1, and the reason on stderr", shown)

    _CHECKS.append(Check(id, section, title, judge))


@_rule("exit-0", "exit-status", "A request is answered with exit status 0, at most 1 MiB, before the deadline")
def _exit_0(trial: Trial) -> None:
    if not trial.plain.has_ended(0):
        raise BrokenRuleError("exit status 0, and at most 1 MiB on stdout", trial.plain.ending)


@_rule("one-result", "the-result", "Stdout has one JSON object, and nothing else")
def _one_result(trial: Trial) -> None:
    if trial.plain.stopped:
        raise NotJudgedError("it was killed")
    trial.plain.document()


@_rule("result-keys", "the-result", "`plugin` is the type, `version` the request's, `error` always a string")
def _result_keys(trial: Trial) -> None:
    for state, result in trial.results():
        for key, right in (("plugin", trial.type), ("version", VERSION)):
            if result.get(key) != right:
                raise BrokenRuleError(f'"{key}": "{right}"', f"{_at(result, key)} in answer to {state}")
        if not isinstance(result.get("error"), str):
            raise BrokenRuleError('"error" with a string', f"{_at(result, 'error')} in answer to {state}")


@_rule("metadata-strings", "the-result", "`metadata` is an object of strings, if it is there")
def _metadata_strings(trial: Trial) -> None:
    for state, result in trial.results():
        metadata = result.get("metadata")
        if metadata is None:
            continue
        if not isinstance(metadata, dict):
            raise BrokenRuleError('"metadata" with an object', f"{describe(metadata)} in answer to {state}")
        for key, value in metadata.items():
            if not isinstance(value, str):
                shown = f"{describe(value)} for {shorten(repr(key))} in answer to {state}"
                raise BrokenRuleError("metadata whose values are strings", shown)


@_rule("changes-elsewhere", "the-result", "A result asks for changes only in answer to states that allow it")
def _changes_elsewhere(trial: Trial) -> None:
    allowed = {
        "cgroupsPath": (State.SETUP,),
        "adjust": (State.SETUP,),
        "updates": (State.SETUP, State.RESIZE, State.DELETE),
    }
    for state, result in trial.results():
        for key, states in allowed.items():
            if result.get(key) and state not in states:
                raise BrokenRuleError(
                    f'"{key}" only in answer to {", ".join(states)}', f'"{key}" in answer to {state}'
                )


@_rule("changes-form", "adjust", "`adjust`, `updates` and `cgroupsPath` have the form that hosts demand")
def _changes_form(trial: Trial) -> None:
    for state, result in trial.results():
        if not isinstance(path := result.get("cgroupsPath") or "", str):
            raise BrokenRuleError('"cgroupsPath" with a string', describe(path))
        try:
            if result.get("adjust") is not None:
                read_adjust(result["adjust"])
            if result.get("updates") is not None:
                read_updates(result["updates"])
        except DecodeError as error:
            raise BrokenRuleError("changes with a valid form", f"in answer to {state}: {error}") from None


@_rule("every-state", "states", "Every state of the contract is answered")
def _every_state(trial: Trial) -> None:
    trial.must_answer()
    for state, reply in trial.life.items():
        try:
            reply.result()
        except BrokenRuleError as error:
            raise BrokenRuleError(f"{error.expected}, in answer to {state}", error.found) from None


@_rule("unknown-state", "states", "A state that means nothing to the plugin is answered without error")
def _unknown_state(trial: Trial) -> None:
    without = trial.request("")
    del without["state"]
    _no_error(trial, trial.request(UNKNOWN), f"the state {UNKNOWN!r}")
    _no_error(trial, trial.request(""), "the state ''")
    _no_error(trial, without, "a request without state")


@_rule("delete-alone", "states", "Delete needs no create before it, and may come twice")
def _delete_alone(trial: Trial) -> None:
    container = trial.new_id()
    for label in ("a delete of a container without create", "a second delete"):
        _no_error(trial, trial.request(State.DELETE, container), label)


_answered(
    "late-create",
    "late-create",
    "A create with `late` is answered",
    lambda trial: [trial.ordinary() | {"late": True}],
)

_LEAST: dict[str, Any] = {"version": VERSION, "state": "create", "id": "nri-conformance"}
_answered(
    "missing-keys",
    "the-request",
    "A missing key is its empty value",
    lambda _: ({}, _LEAST, _LEAST | {"spec": {}}),
)


@_rule("null-keys", "json", "Null is equal to a missing key, for every key")
def _null_keys(trial: Trial) -> None:
    keys = (
        "conf",
        "version",
        "state",
        "id",
        "sandboxID",
        "pid",
        "spec",
        "labels",
        "results",
        "late",
        "extensions",
        "undecided",
    )
    trial.answer(dict.fromkeys(keys))
    nulls = dict.fromkeys(("conf", "pid", "results", "late", "extensions"))
    trial.same_as_create(trial.invoke(nulls | trial.ordinary()), "without the keys that are null")


@_rule("unknown-keys", "the-request", "Unknown keys are ignored")
def _unknown_keys(trial: Trial) -> None:
    trial.must_answer()
    value = trial.ordinary()
    for place in (value, value["spec"]):
        place["nriConformance"] = {"unknown": [1, None, "x"]}
    trial.same_as_create(trial.invoke(value), "without the unknown keys")


_RESULTS = [
    {"plugin": "first", "version": VERSION, "error": "", "metadata": {"cpus": "2-3"}},
    {"plugin": "second", "version": VERSION, "error": "", "nriConformance": {"unknown": [1]}, "state": 5},
    None,
]
_answered(
    "previous-results",
    "the-request",
    "Results of the plugins before, with unknown keys, are read over",
    lambda trial: [trial.ordinary() | {"results": _RESULTS}],
)


@_rule("any-resources", "the-request", "`spec.resources` may hold any JSON")
def _any_resources(trial: Trial) -> None:
    odd = {"numbers": [2**70, -1, 0.5, 1e300], "unified": {"memory.high": "max"}, "none": None, "": [True, [[]], {}]}
    kinds: tuple[Any, ...] = (odd, [], "text", 1.5)
    for resources in kinds:
        value = trial.ordinary()
        value["spec"]["resources"] = resources
        trial.answer(value)


_CONFS: tuple[Any, ...] = ("text", 1.5, True, [], {"nriConformance": [1]})
_answered(
    "any-conf",
    "the-result",
    "A `conf` of any type is answered by a result, whose error may refuse it",
    lambda trial: [trial.ordinary() | {"conf": conf} for conf in _CONFS],
)


@_rule("text", "json", "Texts may have any characters, escaped or as UTF-8, and white space does not matter")
def _text(trial: Trial) -> None:
    text = 'grüße 世界 \U0001f600 \u2028 "quoted" \\ \x01\x1b[31m\n\t\x7f'
    value = trial.ordinary()
    value["labels"] = {text: text}
    value["spec"]["annotations"] = {text: text, "empty": "", "": "empty"}
    trial.answer(encode(value))
    trial.answer(json.dumps(value, ensure_ascii=False).encode())
    spaced = json.dumps(trial.ordinary(), indent=2).replace("\n", "\r\n\t")
    trial.same_as_create(trial.invoke(f" \n{spaced}\n\n".encode()), "in compact JSON")


@_rule("large", "running-a-plugin", "A request of several 100 KiB is answered")
def _large(trial: Trial) -> None:
    value = trial.request(State.CREATE)
    annotations = value["spec"].setdefault("annotations", {})
    annotations["large"] = "x" * (_LARGE // 2)
    annotations |= {f"annotation-{number:05}": "y" * 40 for number in range(_LARGE // 2 // 64)}
    trial.answer(value)


_refused(
    "not-json",
    "exit-status",
    "What is empty or no JSON is reported on stderr, and the exit status is 1",
    lambda _: {f"{text!r} on stdin": text for text in (b"", b"nonsense\n", b"\x00\xff\x00", b'{"state": create}')},
)


def _beginnings(trial: Trial) -> dict[str, bytes]:
    whole = encode(trial.ordinary())
    sizes = (1, len(whole) // 2, len(whole) - 1)
    return {f"the first {size} bytes of a request": whole[:size] for size in sizes}


_refused(
    "truncated",
    "exit-status",
    "A request that is cut off is reported on stderr, and the exit status is 1",
    _beginnings,
)


@_rule("full-stdout", "exit-status", "The exit status is not 0 if the result cannot be written")
def _full_stdout(trial: Trial) -> None:
    trial.must_answer()
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        reply = trial.invoke(trial.ordinary(), stdout=full)
    finally:
        os.close(full)
    if reply.stopped or reply.status == 0:
        shown = f"{reply.ending}, where every write fails with ENOSPC"
        raise BrokenRuleError("an exit status that is not 0, best 1", shown)


@_rule("leaves-nothing", "running-a-plugin", "No process runs on when the plugin has ended")
def _leaves_nothing(trial: Trial) -> None:
    trial.must_answer()
    for state in (State.CREATE, State.DELETE):
        if names := trial.left_behind(encode(trial.request(state))):
            raise BrokenRuleError("no process", f"{', '.join(names)}, running on after {state}")


@_rule("no-verb", "exit-status", "Without a verb, usage is on stderr, and the exit status is 2")
def _no_verb(trial: Trial) -> None:
    trial.must_answer()
    reply = trial.run()
    if not reply.has_ended(2) or not reply.stderr:
        raise BrokenRuleError("exit status 2, and the usage on stderr", reply.ending)


CHECKS: tuple[Check, ...] = tuple(_CHECKS)
"""All checks, in the order of a report."""


def _at(result: dict[str, Any], key: str) -> str:
    return f'{describe(result[key])} for "{key}"' if key in result else f'no "{key}"'


def _no_error(trial: Trial, value: dict[str, Any], label: str) -> None:
    if error := trial.answer(value).get("error"):
        hint = "" if trial.conf else "; if it misses its conf, give that (--conf)"
        shown = f"the error {shorten(repr(error))} in answer to {label}{hint}"
        raise BrokenRuleError("a result without error", shown)
