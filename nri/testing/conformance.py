"""The contract of docs/spec.md as checks that run an executable in any language.

    from nri.testing.conformance import assert_conforms

    assert_conforms("dist/web/web", conf={"cpus": "2-3"})

``check`` returns the outcome of each check, ``nri conformance`` prints them. What can be seen from outside is
checked; without a request of one's own the requests are harmless to the node. Each is a MUST of the specification, on
which a host relies; what a plugin reports about itself, ``nri check`` looks at.
"""

from __future__ import annotations

import copy
import itertools
import json
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from nri.adjust import AdjustError
from nri.client.resident import Resident
from nri.client.standing import about
from nri.client.unstartable import explain
from nri.client.waiting import NotBegunError
from nri.errors import NRIError, escape
from nri.process.children import alive_in
from nri.process.conversation import (
    Asked,
    BrokenOffError,
    Conversation,
    Output,
    readable,
    start,
)
from nri.testing.invoking import take_changes
from nri.testing.pods import Pod
from nri.types import DecodeError, gojson
from nri.types.gojson import describe, shorten
from nri.types.v1 import STATES, VERSION, Request, Result, State

__all__ = [
    "CHECKS",
    "FAILS",
    "HOLDS",
    "NOT_JUDGED",
    "Outcome",
    "assert_conforms",
    "check",
    "report",
]

Judge = Callable[["Trial"], None]

HOLDS = "holds"
FAILS = "fails"
NOT_JUDGED = "not judged"

TIMEOUT = 10.0
"""Seconds for each run of the plugin: the default deadline of a host."""

GRACE = 0.5
"""Seconds that a process may take to end after the plugin's: it does not continue to work."""

FIRST = "exit-0"
"""The check whose fault leaves all others open."""

_WORDS = {HOLDS: "ok", FAILS: "FAIL", NOT_JUDGED: "-"}


class BrokenRuleError(NRIError):
    """A plugin does not keep a rule: what the contract expects, and what was found."""

    def __init__(self, expected: str, found: str) -> None:
        self.expected = expected
        self.found = found
        super().__init__(f"found {found}, expected {expected}")


class NotJudgedError(NRIError):
    """A check does not apply to this plugin, or nothing can be said; the message is the reason."""


class Outcome(NamedTuple):
    """The outcome of one check for one plugin."""

    id: str
    """A short name, unique among all checks."""
    section: str
    """The anchor of the section in docs/spec.md."""
    title: str
    """The rule, as a sentence without its full stop."""
    verdict: str = HOLDS
    """``HOLDS``, ``FAILS`` or ``NOT_JUDGED``."""
    expected: str = ""
    """For ``FAILS``, what the contract expects."""
    found: str = ""
    """For ``FAILS``, what was found; for ``NOT_JUDGED``, the reason."""


def check(
    binary: str | os.PathLike[str],
    *,
    conf: Any = None,
    request: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    checks: Iterable[str] = (),
) -> list[Outcome]:
    """Check that an executable keeps the contract; return the outcome of each check, in order.

    Runs the executable some 50 times: see docs/testing.md.

    :param conf: the plugin conf of the requests, a JSON value; None for none.
    :param request: what the requests are made of, a JSON object such as ``nri invoke`` takes; by default one about a
        container that does not exist. The plugin acts on the container of this one.
    :param annotations: in addition to those of the request.
    :param timeout: seconds for each run.
    :param checks: the ids of some of ``CHECKS``; all by default.
    """
    trial = Trial(binary, conf, request, annotations, timeout)
    return [_judged(CHECKS[id_], _JUDGES[id_], trial) for id_ in checks or CHECKS]


def _judged(holds: Outcome, judge: Judge, trial: Trial) -> Outcome:
    try:
        if trial.fault is not None:
            raise (
                trial.fault
                if holds.id == FIRST
                else NotJudgedError("an ordinary create is not answered")
            )
        judge(trial)
    except BrokenRuleError as error:
        return holds._replace(verdict=FAILS, expected=error.expected, found=error.found)
    except NotJudgedError as reason:
        return holds._replace(verdict=NOT_JUDGED, found=str(reason))
    return holds


def assert_conforms(binary: str | os.PathLike[str], **options: Any) -> None:
    """Assert that an executable keeps the contract; the options are those of ``check``.

    :raises AssertionError: with the report of the checks that fail.
    """
    if failed := [outcome for outcome in check(binary, **options) if outcome.verdict == FAILS]:
        raise AssertionError(f"{binary} does not conform:\n{report(failed)}")


def report(outcomes: Sequence[Outcome]) -> str:
    """Return one line for each check, with what was expected and found where it fails, and a summary."""
    lines: list[str] = []
    width = max(map(len, CHECKS))
    for outcome in outcomes:
        text = outcome.title
        if outcome.verdict == NOT_JUDGED:
            text = f"not judged: {escape(outcome.found)}"
        lines.append(f"{_WORDS[outcome.verdict]:4}  {outcome.id:{width}}  {text}")
        if outcome.verdict == FAILS:
            lines.append(f"      expected {escape(outcome.expected)}")
            lines.append(f"      found    {escape(outcome.found)}")
            lines.append(f"      docs/spec.md#{outcome.section}")
    numbers = Counter([outcome.verdict for outcome in outcomes])
    counts = [f"{numbers[HOLDS]} hold"]
    if numbers[FAILS]:
        counts.append(f"{numbers[FAILS]} fail")
    if numbers[NOT_JUDGED]:
        counts.append(f"{numbers[NOT_JUDGED]} not judged")
    conforms = "it does not conform" if numbers[FAILS] else "it conforms"
    plural = "s" if len(outcomes) > 1 else ""
    summary = f"{len(outcomes)} check{plural}: {', '.join(counts)}: {conforms}"
    return "\n".join([*lines, "", summary])


_STOPPED = {"deadline": "no end before its deadline", "output": "more than 1 MiB"}


def ending(output: Output) -> str:
    """Return how a run has ended in words, with the end of its stderr."""
    if output.stopped:
        return f"{_STOPPED[output.stopped]}: killed"
    how = output.ending or "exit status 0"
    if output.stderr:
        return f"{how}, and on stderr: {shorten(output.stderr)}"
    return f"{how}, and nothing on stderr"


def result_of(output: Output) -> dict[str, Any]:
    """Return the result that a run has written.

    :raises BrokenRuleError: it did not end by itself with status 0, or stdout has no JSON object, or more.
    """
    if output.stopped or output.status:
        raise BrokenRuleError("one result of at most 1 MiB, and exit status 0", ending(output))
    expected = "one JSON object on stdout, and nothing else"
    shown = readable(output.stdout[:200])
    try:
        value = gojson.loads(output.stdout)
    except DecodeError as error:
        found = f"{shown!r}: {error}" if shown else "nothing on stdout"
        raise BrokenRuleError(expected, found) from None
    if not isinstance(value, dict):
        raise BrokenRuleError(expected, f"{shown!r}")
    return value


class Trial:
    """One plugin, which is run as a host does it: each run has a deadline, and its output is bounded.

    The parameters are those of ``check``.

    :ivar path: the executable's, absolute; ``type`` is its name.
    :ivar timeout: seconds for each run.
    :ivar fault: why an ordinary ``create`` is not answered; then nothing else is tried.
    :ivar results: each state whose request was answered, with its result, in the order of a life.
    :ivar unanswered: each other one, with what is wrong.
    :ivar last: the process of the last run.
    """

    def __init__(
        self,
        binary: str | os.PathLike[str],
        conf: Any,
        request: Mapping[str, Any] | None,
        annotations: Mapping[str, str] | None,
        timeout: float,
    ) -> None:
        self.path = os.path.abspath(binary)
        self.type = os.path.basename(self.path)
        self.conf = {} if conf is None else {"conf": conf}
        self._given = request or {}
        self._annotations = annotations or {}
        self.timeout = timeout
        self._prefix = f"nri-conformance-{secrets.token_hex(8)}"
        self._numbers = itertools.count(1)
        self.last = _Watched(0)
        self.fault: BrokenRuleError | None = None
        self.unanswered: dict[str, BrokenRuleError] = {}
        self.results: dict[str, dict[str, Any]] = {}
        try:
            self.answer(self.request(State.CREATE))
        except BrokenRuleError as error:
            self.fault = error
            return
        container = self.new_id()
        for state in STATES:
            try:
                self.results[state] = self.answer(self.request(state, container))
            except BrokenRuleError as error:
                self.unanswered[state] = error

    def new_id(self) -> str:
        """Return an id that no other request has. A given request keeps its own."""
        given = self._given.get("id")
        if isinstance(given, str) and given:
            return given
        return f"{self._prefix}-{next(self._numbers)}"

    def request(self, state: str, container: str = "", **more: Any) -> dict[str, Any]:
        """Return a request as a host writes it, with more keys; of a new container if none is named."""
        container = container or self.new_id()
        made = Pod("nri-conformance").container(container)
        if state in made.pod.profile.states:
            sent = made.request(state).to_value()
        else:
            sent = made.request(State.CREATE).to_value()
        value = copy.deepcopy({**(self._given or sent), **self.conf})
        value |= {"version": VERSION, "state": str(state), "id": container}
        spec = value["spec"] if isinstance(value.get("spec"), dict) else {}
        if self._annotations:
            spec["annotations"] = {**(spec.get("annotations") or {}), **self._annotations}
        if state == State.SETUP:
            spec = {**sent["spec"], **spec}
        return value | {"spec": spec} | more

    def invoke(self, value: Any, stdout: int | None = None) -> Output:
        """Run ``TYPE invoke`` with a request, a JSON value or bytes, on its stdin; return its output.

        :param stdout: as for ``nri.process.conversation.start``.
        :raises BrokenRuleError: if it cannot be started or watched.
        """
        stdin = value if isinstance(value, bytes) else gojson.dumps(value)
        deadline = time.monotonic() + self.timeout
        try:
            pid, pipes = start(self.path, [self.type, "invoke"], deadline, stdout=stdout)
            self.last = _Watched(pid)
            return Conversation(self.last, pipes, stdin, lambda line: None).run(deadline)
        except BrokenOffError as error:
            raise BrokenRuleError(
                "a run that can be watched", f"{error.strerror}, while it ran"
            ) from None
        except OSError as error:
            raise BrokenRuleError(
                "an executable that can be started", explain(self.path, error)
            ) from None

    def answer(self, value: Any) -> dict[str, Any]:
        """Return the result that a request, a JSON value or bytes, gets.

        :raises BrokenRuleError: if there is none.
        """
        return result_of(self.invoke(value))

    def answer_without_error(self, value: dict[str, Any], label: str) -> None:
        """Send a request.

        :raises BrokenRuleError: there is no result, or it has an error.
        """
        error = self.answer(value).get("error")
        if not error:
            return
        shown = f"the error {shorten(repr(error))} in answer to {label}"
        if not self.conf:
            shown += "; if it misses its conf, give that (--conf)"
        raise BrokenRuleError("a result without error", shown)


class _Watched(Asked):
    """A process that ends by itself, and may leave others in its session.

    :ivar left: their names, ``GRACE`` after its end.
    """

    left: Sequence[str] = ()

    def finish(self, stopped: str, give_up: float) -> int:
        """End what is left, and note it."""
        until = time.monotonic() + GRACE
        names = [] if stopped else _others(self.pid)
        while names and time.monotonic() <= until:
            time.sleep(0.02)
            names = _others(self.pid)
        self.left = names
        return super().finish(stopped, give_up)


def _others(session: int) -> list[str]:
    """Return the names of the processes in a session, but for its leader and those that have ended."""
    names = []
    for pid in sorted({*alive_in({session})} - {session}):
        with suppress(OSError), open(f"/proc/{pid}/comm", "rb") as name:  # it may have ended
            names.append(readable(name.read().rstrip(b"\n")))
    return names


# The rules, in the order of a report

CHECKS: dict[str, Outcome] = {}
"""All checks by their ids, in the order of a report, each as the outcome that holds."""

_JUDGES: dict[str, Judge] = {}


def _rule(id: str, section: str, title: str) -> Callable[[Judge], None]:
    """Add a rule, with a function that raises BrokenRuleError or NotJudgedError."""
    CHECKS[id] = Outcome(id, section, title)
    return lambda judge: _JUDGES.update({id: judge})


def _answered(
    id: str, section: str, title: str, requests: Callable[[Trial], Iterable[Any]]
) -> None:
    """Add a rule by which each of some requests has a result."""

    @_rule(id, section, title)
    def _judge(trial: Trial) -> None:
        for value in requests(trial):
            trial.answer(value)


_ONE = (
    "A request is answered by one JSON object of at most 1 MiB, and exit status 0, before "
    "the deadline"
)


@_rule(FIRST, "exit-status", _ONE)
def _exit_0(trial: Trial) -> None:
    trial.answer(trial.request(State.CREATE))


@_rule(
    "result-keys",
    "the-result",
    "`plugin` is the type, `version` the request's, all texts are strings",
)
def _result_keys(trial: Trial) -> None:
    for state, result in trial.results.items():
        for key, right in (("plugin", trial.type), ("version", VERSION)):
            if result.get(key) != right:
                raise BrokenRuleError(
                    f'"{key}": "{right}"', f"{_at(result, key)} in answer to {state}"
                )
        if not isinstance(result.get("error"), str):
            raise BrokenRuleError(
                '"error" with a string', f"{_at(result, 'error')} in answer to {state}"
            )
        metadata = result.get("metadata") or {}
        is_right = isinstance(metadata, dict) and {*map(type, metadata.values())} <= {str}
        if not is_right:
            shown = f"{shorten(gojson.dumps(metadata).decode())} in answer to {state}"
            raise BrokenRuleError('"metadata" with an object of strings', shown)


@_rule(
    "changes",
    "adjust",
    "Changes have the form that hosts demand, in answer to states that allow them",
)
def _changes(trial: Trial) -> None:
    for state, result in trial.results.items():
        if not any(map(result.get, ("cgroupsPath", "adjust", "updates"))):
            continue
        try:
            take_changes(
                Request.from_value(trial.request(state), "request"),
                Result.from_value(result, "result"),
            )
        except (AdjustError, DecodeError) as error:
            raise BrokenRuleError(
                "changes that a host takes", f"in answer to {state}: {error}"
            ) from None


@_rule("every-state", "states", "Every state of the contract is answered")
def _every_state(trial: Trial) -> None:
    for state, error in trial.unanswered.items():
        raise BrokenRuleError(f"{error.expected}, in answer to {state}", error.found)


@_rule(
    "unknown-state", "states", "A state that means nothing to the plugin is answered without error"
)
def _unknown_state(trial: Trial) -> None:
    for state in ("nri-conformance", ""):
        trial.answer_without_error(trial.request(state), f"the state {state!r}")
    without = trial.request("")
    del without["state"]
    trial.answer_without_error(without, "a request without state")


@_rule("delete-alone", "states", "Delete needs no create before it, and may come twice")
def _delete_alone(trial: Trial) -> None:
    container = trial.new_id()
    for label in ("a delete of a container without create", "a second delete"):
        trial.answer_without_error(trial.request(State.DELETE, container), label)


_LEAST: dict[str, Any] = {"version": VERSION, "state": "create", "id": "nri-conformance"}
_NULLS = dict.fromkeys(("conf", "pid", "results", "late", "extensions", "undecided"))
_ALL_NULLS = dict.fromkeys(("version", "state", "id", "sandboxID", "spec", "labels", *_NULLS))
_UNKNOWN = {"nriConformance": {"unknown": [1, None, "x"]}}
_RESULTS = [
    {"plugin": "first", "version": VERSION, "error": "", "metadata": {"cpus": "2-3"}},
    {"plugin": "second", "version": VERSION, "error": "", **_UNKNOWN, "state": 5},
    None,
]
_ODD: dict[str, Any] = {
    "numbers": [2**70, -1, 0.5, 1e300],
    "unified": {"memory.high": "max"},
    "none": None,
    "": [True, [[]], {}],
}
_ANY: tuple[Any, ...] = (_ODD, [], "text", 1.5)


def _creates(**values: Iterable[Any]) -> Callable[[Trial], Iterable[Any]]:
    """Return what makes ordinary creates with each of the values for a key."""
    return lambda trial: [
        trial.request(State.CREATE, **{key: value})
        for key, allowed in values.items()
        for value in allowed
    ]


def _in_spec(trial: Trial, **more: Any) -> dict[str, Any]:
    value = trial.request(State.CREATE)
    value["spec"] |= more
    return value


_answered("late-create", "late-create", "A create with `late` is answered", _creates(late=[True]))
_answered(
    "missing-keys",
    "the-request",
    "A missing key is its empty value",
    lambda _: ({}, _LEAST, _LEAST | {"spec": {}}),
)
_answered(
    "null-keys",
    "json",
    "Null is equal to a missing key, for every key",
    lambda trial: (_ALL_NULLS, _NULLS | trial.request(State.CREATE)),
)
_answered(
    "unknown-keys",
    "the-request",
    "Unknown keys are ignored",
    lambda trial: [_in_spec(trial, **_UNKNOWN) | _UNKNOWN],
)
_answered(
    "previous-results",
    "the-request",
    "Results of the plugins before, with unknown keys, are read over",
    _creates(results=[_RESULTS]),
)
_answered(
    "any-resources",
    "the-request",
    "`spec.resources` may hold any JSON",
    lambda trial: [_in_spec(trial, resources=resources) for resources in _ANY],
)
_answered(
    "any-conf",
    "the-result",
    "A `conf` of any type is answered by a result, whose error may refuse it",
    _creates(conf=("text", 1.5, True, [], _UNKNOWN)),
)


def _texts(trial: Trial) -> Iterable[bytes]:
    text = 'grüße 世界 \U0001f600 \u2028 "quoted" \\ \x01\x1b[31m\n\t\x7f'
    value = _in_spec(trial, annotations={text: text, "empty": "", "": "empty"}) | {
        "labels": {text: text}
    }
    spaced = json.dumps(trial.request(State.CREATE), indent=2).replace("\n", "\r\n\t")
    return (
        gojson.dumps(value),
        json.dumps(value, ensure_ascii=False).encode(),
        f" \n{spaced}\n\n".encode(),
    )


def _large(trial: Trial) -> dict[str, Any]:
    """Return a request that is larger than a pipe, an argument and a line may be."""
    many = {f"annotation-{number:05}": "y" * 40 for number in range(6000)}
    return _in_spec(trial, annotations={"large": "x" * 384 * 1024, **many})


_answered(
    "text",
    "json",
    "Texts may have any characters, escaped or as UTF-8, and any white space between",
    _texts,
)
_answered(
    "large",
    "running-a-plugin",
    "A request of several 100 KiB is answered",
    lambda trial: [_large(trial)],
)


@_rule(
    "broken",
    "exit-status",
    "What is empty, no JSON, or cut off is reported on stderr, and the exit status is 1",
)
def _broken(trial: Trial) -> None:
    whole = gojson.dumps(trial.request(State.CREATE))
    large = gojson.dumps(_large(trial))
    trial.invoke(large)
    if trial.last.sent < len(large):
        raise NotJudgedError("it leaves its stdin unread, as it may")
    texts = (b"", b"nonsense\n", b"\x00\xff\x00", b'{"state": create}')
    stdins = {f"{text!r} on stdin": text for text in texts}
    sizes = (1, len(whole) // 2, len(whole) - 1)
    stdins |= {f"the first {size} bytes of a request": whole[:size] for size in sizes}
    for label, stdin in stdins.items():
        output = trial.invoke(stdin)
        if output.stopped or output.status != 1 or not output.stderr:
            shown = f"{ending(output)}, for {label}"
            if output.status == 0 and output.stdout:
                shown += f"; stdout: {shorten(output.stdout.decode(errors='replace'))!r}"
            raise BrokenRuleError("exit status 1, and the reason on stderr", shown)


@_rule("full-stdout", "exit-status", "The exit status is not 0 if the result cannot be written")
def _full_stdout(trial: Trial) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        output = trial.invoke(trial.request(State.CREATE), stdout=full)
    finally:
        os.close(full)
    if output.stopped or output.status == 0:
        shown = f"{ending(output)}, where every write fails with ENOSPC"
        raise BrokenRuleError("an exit status that is not 0, best 1", shown)


@_rule("leaves-nothing", "running-a-plugin", "No process runs on when the plugin has ended")
def _leaves_nothing(trial: Trial) -> None:
    for state in (State.CREATE, State.DELETE):
        trial.invoke(trial.request(state))
        if trial.last.left:
            raise BrokenRuleError(
                "no process", f"{', '.join(trial.last.left)}, running on after {state}"
            )


@_rule(
    "resident", "residents", "One process answers request after request as a process for each does"
)
def _resident(trial: Trial) -> None:
    standing = about(trial.path, trial.type)
    if standing.state != "ready":
        raise NotJudgedError(standing.reason)
    resident = Resident(trial.path, trial.type)
    try:
        if reason := resident.start(time.monotonic() + trial.timeout):
            raise BrokenRuleError("a resident that becomes ready", reason)
        for container in (trial.new_id(), trial.new_id()):
            for state in STATES:
                _compare(trial, resident, trial.request(state, container))
    except NotBegunError:
        raise NotJudgedError(
            "it did not begin to read a request in time; try again on a quieter machine"
        ) from None
    finally:
        resident.end()


def _compare(trial: Trial, resident: Resident, value: dict[str, Any]) -> None:
    """Have a resident answer a request between two processes for it alone, whose answers may differ, too."""
    before = trial.answer(value)
    state = value["state"]
    answer = result_of(
        resident.ask(gojson.dumps(value), time.monotonic() + trial.timeout, lambda line: None)
    )
    after = trial.answer(value)
    if before == after != answer:
        expected, found = [shorten(gojson.dumps(value).decode(), 300) for value in (after, answer)]
        raise BrokenRuleError(
            f"the answer of a process that is new: {expected}",
            f"{found} as answer {resident.answers} of a resident, to {state}: a request before "
            "left something",
        )
    if not resident.is_ready(trial.timeout):
        if resident.is_alive:
            raise BrokenRuleError(
                "a resident that waits for the next request, or ends", f"neither after {state}"
            )
        if resident.changed:
            change = f", which changes its process: {resident.changed}"
        else:
            change = ""
        raise NotJudgedError(f"it ends after {state}{change}")  # as it may


def _at(result: dict[str, Any], key: str) -> str:
    if key in result:
        return f'{describe(result[key])} for "{key}"'
    return f'no "{key}"'
