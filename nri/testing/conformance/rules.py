"""The checks, in the order of a report. Each is a function that returns if the plugin keeps the rule.

The level is that of the specification: a host relies on MUST; SHOULD is what other tools and people expect.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from nri.adjust.reading import read_adjust, read_updates
from nri.config import PluginEntry
from nri.config.plugin_conf import UNCHECKED, check_conf
from nri.process.spawn import PLUGIN_ENVIRONMENT
from nri.testing.conformance.trial import BrokenRuleError, NotJudgedError, Trial, encode
from nri.types import DecodeError, gojson, serve
from nri.types.gojson import describe, shorten
from nri.types.v1 import STATES, VERSION, State

if TYPE_CHECKING:
    from nri.testing.conformance.trial import Reply

Judge = Callable[[Trial], None]

MUST, SHOULD = "MUST", "SHOULD"

UNKNOWN = "nri-conformance"
"""A state that no version of the contract has."""

_LARGE = 768 * 1024  # bytes of a request that is larger than a pipe, an argument and a line may be
_ABOUT = "what-a-plugin-reports-about-itself"


class Check(NamedTuple):
    """One rule of the contract."""

    id: str
    """A short name, unique among all checks."""
    level: str
    """:data:`MUST` or :data:`SHOULD`."""
    section: str
    """The anchor of the section in docs/spec.md."""
    title: str
    """The rule, as a sentence without its full stop."""
    judge: Judge
    """Raises BrokenRuleError or NotJudgedError."""


_CHECKS: list[Check] = []


def _rule(id: str, level: str, section: str, title: str) -> Callable[[Judge], Judge]:
    def add(judge: Judge) -> Judge:
        _CHECKS.append(Check(id, level, section, title, judge))
        return judge

    return add


# The result


@_rule("exit-0", MUST, "exit-status", "A request is answered with exit status 0, at most 1 MiB, before the deadline")
def _exit_0(trial: Trial) -> None:
    if trial.plain.stopped or trial.plain.status != 0:
        raise BrokenRuleError("exit status 0, and at most 1 MiB on stdout", trial.plain.ending)


@_rule("one-result", MUST, "the-result", "Stdout has one JSON object, and nothing else")
def _one_result(trial: Trial) -> None:
    if trial.plain.stopped:
        raise NotJudgedError("it was killed")
    trial.plain.document()


@_rule("result-keys", MUST, "the-result", "`plugin` is the type, `version` the request's, `error` always a string")
def _result_keys(trial: Trial) -> None:
    for state, result in trial.results():
        for key, right in (("plugin", trial.type), ("version", VERSION)):
            if result.get(key) != right:
                raise BrokenRuleError(f'"{key}": "{right}"', f"{_at(result, key)} in answer to {state}")
        if not isinstance(result.get("error"), str):
            raise BrokenRuleError('"error" with a string', f"{_at(result, 'error')} in answer to {state}")


@_rule("metadata-strings", MUST, "the-result", "`metadata` is an object of strings, if it is there")
def _metadata_strings(trial: Trial) -> None:
    for state, result in trial.results():
        metadata = result.get("metadata")
        if metadata is None:
            continue
        if not isinstance(metadata, dict):
            raise BrokenRuleError('"metadata" with an object', f"{describe(metadata)} in answer to {state}")
        for key, value in metadata.items():
            if not isinstance(value, str):
                found = f"{describe(value)} for {shorten(repr(key))} in answer to {state}"
                raise BrokenRuleError("metadata whose values are strings", found)


@_rule("changes-elsewhere", MUST, "the-result", "A result asks for changes only in answer to states that allow it")
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


@_rule("changes-form", MUST, "adjust", "`adjust`, `updates` and `cgroupsPath` have the form that hosts demand")
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


@_rule(
    "changes-unannounced", SHOULD, "changes", "Without `extensions` in the request, the result asks for no changes"
)
def _changes_unannounced(trial: Trial) -> None:
    value = trial.request(State.SETUP)
    del value["extensions"]
    result = trial.answer(value)
    for key in ("adjust", "updates"):
        if result.get(key):
            found = f'"{key}" in answer to a setup without extensions'
            raise BrokenRuleError("an error, or a result without changes", found)


# States


@_rule("every-state", MUST, "states", "Every state of the contract is answered")
def _every_state(trial: Trial) -> None:
    trial.must_answer()
    for state, reply in trial.life.items():
        try:
            reply.result()
        except BrokenRuleError as error:
            raise BrokenRuleError(f"{error.expected}, in answer to {state}", error.found) from None


@_rule("unknown-state", MUST, "states", "A state that means nothing to the plugin is answered without error")
def _unknown_state(trial: Trial) -> None:
    without = trial.request("")
    del without["state"]
    _no_error(trial, trial.request(UNKNOWN), f"the state {UNKNOWN!r}")
    _no_error(trial, trial.request(""), "the state ''")
    _no_error(trial, without, "a request without state")


@_rule("delete-alone", MUST, "states", "Delete needs no create before it, and may come twice")
def _delete_alone(trial: Trial) -> None:
    container = trial.new_id()
    for what in ("a delete of a container without create", "a second delete"):
        _no_error(trial, trial.request(State.DELETE, container), what)


@_rule("create-twice", SHOULD, "running-a-plugin", "The same create again does not fail where the first did not")
def _create_twice(trial: Trial) -> None:
    value = trial.request(State.CREATE)
    first, second = trial.answer(value), trial.answer(value)
    if second.get("error") and not first.get("error"):
        raise BrokenRuleError("no error, as the first time", f"the error {shorten(str(second['error']))!r}")


@_rule("late-create", MUST, "late-create", "A create with `late` is answered")
def _late_create(trial: Trial) -> None:
    trial.answer(trial.request(State.CREATE) | {"late": True})


# The request


@_rule("missing-keys", MUST, "the-request", "A missing key is its empty value")
def _missing_keys(trial: Trial) -> None:
    least: dict[str, Any] = {"version": VERSION, "state": "create", "id": trial.new_id()}
    requests: tuple[dict[str, Any], ...] = ({}, least, least | {"spec": {}})
    for value in requests:
        trial.answer(value)


@_rule("null-keys", MUST, "json", "Null is equal to a missing key, for every key")
def _null_keys(trial: Trial) -> None:
    keys = ("conf", "version", "state", "id", "sandboxID", "pid", "spec", "labels", "results", "late", "extensions")
    trial.answer(dict.fromkeys(keys))
    value = trial.request(State.CREATE)
    for key in ("conf", "pid", "results", "late", "extensions"):
        value.setdefault(key)
    trial.must_answer()
    trial.same_as_create(trial.invoke(value), "without the keys that are null")


@_rule("unknown-keys", MUST, "the-request", "Unknown keys are ignored")
def _unknown_keys(trial: Trial) -> None:
    value = trial.request(State.CREATE)
    for place in (value, value["spec"]):
        place["nriConformance"] = {"unknown": [1, None, "x"]}
    trial.must_answer()
    trial.same_as_create(trial.invoke(value), "without the unknown keys")


@_rule("previous-results", MUST, "the-request", "Results of the plugins before, with unknown keys, are read over")
def _previous_results(trial: Trial) -> None:
    results: list[Any] = [
        {"plugin": "first", "version": VERSION, "error": "", "metadata": {"cpus": "2-3"}},
        {"plugin": "second", "version": VERSION, "error": "", "nriConformance": {"unknown": [1]}, "state": 5},
        None,
    ]
    trial.answer(trial.request(State.CREATE) | {"results": results})


@_rule("any-resources", MUST, "the-request", "`spec.resources` may hold any JSON")
def _any_resources(trial: Trial) -> None:
    odd = {"numbers": [2**70, -1, 0.5, 1e300], "unified": {"memory.high": "max"}, "none": None, "": [True, [[]], {}]}
    kinds: tuple[Any, ...] = (odd, [], "text", 1.5)
    for resources in kinds:
        value = trial.request(State.CREATE)
        value["spec"]["resources"] = resources
        trial.answer(value)


@_rule("any-conf", MUST, "the-result", "A `conf` of any type is answered by a result, whose error may refuse it")
def _any_conf(trial: Trial) -> None:
    kinds: tuple[Any, ...] = ("text", 1.5, True, [], {"nriConformance": [1]})
    for conf in kinds:
        trial.answer(trial.request(State.CREATE) | {"conf": conf})


@_rule("text", MUST, "json", "Texts may have any characters, escaped or as UTF-8, and white space does not matter")
def _text(trial: Trial) -> None:
    text = 'grüße 世界 \U0001f600 \u2028 "quoted" \\ \x01\x1b[31m\n\t\x7f'
    value = trial.request(State.CREATE)
    value["labels"] = {text: text}
    value["spec"]["annotations"] = {text: text, "empty": "", "": "empty"}
    trial.answer(encode(value))
    trial.answer(json.dumps(value, ensure_ascii=False).encode())
    spaced = json.dumps(trial.request(State.CREATE), indent=2).replace("\n", "\r\n\t")
    trial.same_as_create(trial.invoke(f" \n{spaced}\n\n".encode()), "in compact JSON")


@_rule("large", MUST, "running-a-plugin", "A request of several 100 KiB is answered")
def _large(trial: Trial) -> None:
    value = trial.request(State.CREATE)
    annotations = value["spec"].setdefault("annotations", {})
    annotations["large"] = "x" * (_LARGE // 2)
    annotations |= {f"annotation-{number:05}": "y" * 40 for number in range(_LARGE // 2 // 64)}
    trial.answer(value)


@_rule("not-json", MUST, "exit-status", "What is empty or no JSON is reported on stderr, and the exit status is 1")
def _not_json(trial: Trial) -> None:
    for text in (b"", b"nonsense\n", b"\x00\xff\x00", b'{"state": create}'):
        _refused(trial, text, f"{text!r} on stdin")


@_rule("truncated", MUST, "exit-status", "A request that is cut off is reported on stderr, and the exit status is 1")
def _truncated(trial: Trial) -> None:
    whole = encode(trial.request(State.CREATE))
    for size in (1, len(whole) // 2, len(whole) - 1):
        _refused(trial, whole[:size], f"the first {size} bytes of a request")


@_rule("wrong-types", SHOULD, "json", "A value of another type than the key's is refused with exit status 1")
def _wrong_types(trial: Trial) -> None:
    wrong: list[dict[str, Any]] = [
        *({"pid": "1234"}, {"state": 1}, {"id": True}, {"spec": "x"}, {"labels": ["x"]}, {"results": {}}),
        *({"spec": {"annotations": "x"}}, {"labels": {"x": 1}}),
    ]
    for changes in wrong:
        value = encode(trial.request(State.CREATE) | changes)
        _refused(trial, value, f"a request with {json.dumps(changes)}")
    _refused(trial, b"[]", "[] on stdin")


# The process


@_rule("full-stdout", MUST, "exit-status", "The exit status is not 0 if the result cannot be written")
def _full_stdout(trial: Trial) -> None:
    trial.must_answer()
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        reply = trial.invoke(trial.request(State.CREATE), stdout=full)
    finally:
        os.close(full)
    if reply.stopped or reply.status == 0:
        found = f"{reply.ending}, where every write fails with ENOSPC"
        raise BrokenRuleError("an exit status that is not 0, best 1", found)


@_rule("surroundings", MUST, "running-a-plugin", "The plugin does not rely on its environment, directory or umask")
def _surroundings(trial: Trial) -> None:
    trial.must_answer()
    for before in ("cd / && umask 022", "cd /proc/self && umask 077"):
        environment = {"PATH": PLUGIN_ENVIRONMENT["PATH"]}
        reply = trial.invoke(trial.request(State.CREATE), before=before, environment=environment)
        trial.same_as_create(reply, "in other surroundings")


@_rule("at-once", MUST, "running-a-plugin", "Several runs at the same time are answered")
def _at_once(trial: Trial) -> None:
    trial.must_answer()
    if trial.at_once is not None:
        raise trial.at_once


@_rule("leaves-nothing", MUST, "running-a-plugin", "No process runs on when the plugin has ended")
def _leaves_nothing(trial: Trial) -> None:
    trial.must_answer()
    for state in (State.CREATE, State.DELETE):
        if names := trial.left_behind(encode(trial.request(state))):
            raise BrokenRuleError("no process", f"{', '.join(names)}, running on after {state}")


# The command line


@_rule("no-verb", MUST, "exit-status", "Without a verb, usage is on stderr, and the exit status is 2")
def _no_verb(trial: Trial) -> None:
    trial.must_answer()
    reply = trial.run()
    if reply.stopped or reply.status != 2 or not reply.stderr:
        raise BrokenRuleError("exit status 2, and the usage on stderr", reply.ending)


@_rule("unknown-verb", SHOULD, _ABOUT, "An unknown verb is answered by a result with the error `invalid arg VERB`")
def _unknown_verb(trial: Trial) -> None:
    trial.must_answer()
    found = trial.run("start", stdin=encode(trial.request(State.CREATE))).result().get("error")
    if found != "invalid arg start":
        raise BrokenRuleError('the error "invalid arg start"', describe(found))


@_rule("help", SHOULD, _ABOUT, "--help, -h and help print the usage, and the exit status is 0")
def _help(trial: Trial) -> None:
    trial.must_answer()
    for verb in ("--help", "-h", "help"):
        reply = trial.run(verb)
        if reply.stopped or reply.status != 0 or not reply.stdout.strip():
            printed = "" if reply.stdout.strip() else ", and nothing on stdout"
            raise BrokenRuleError("the usage on stdout, and exit status 0", f"{reply.ending}{printed}, for {verb}")


@_rule("version", SHOULD, _ABOUT, "version and --version print type, version, the contract's and the states, as JSON")
def _version(trial: Trial) -> None:
    trial.must_answer()
    for verb in ("version", "--version"):
        about = trial.run(verb).result()
        for key, right in (("type", trial.type), ("nri", VERSION)):
            if about.get(key) != right:
                raise BrokenRuleError(f'"{key}": "{right}"', f'{describe(about.get(key))} for "{key}"')
        if not isinstance(about.get("version"), str):
            raise BrokenRuleError('"version" with a string', describe(about.get("version")))
        states = about.get("states", [])
        if not isinstance(states, list) or not set(map(str, states)) <= set(STATES):
            raise BrokenRuleError(f'"states" with some of {", ".join(STATES)}', shorten(repr(states)))


@_rule(
    "schema", SHOULD, _ABOUT, "schema prints a JSON Schema (2020-12) of conf, which accepts the conf that is given"
)
def _schema(trial: Trial) -> None:
    trial.must_answer()
    reply = trial.run("schema")
    if reply.stopped or reply.status != 0:
        raise BrokenRuleError("a JSON Schema on stdout, and exit status 0", reply.ending)
    try:
        schema = gojson.loads(reply.stdout)
    except DecodeError as error:
        raise BrokenRuleError("a JSON Schema on stdout", str(error)) from None
    for fault in check_conf(PluginEntry(type=trial.type, **trial.conf), schema):
        if fault.message.startswith(UNCHECKED):
            raise BrokenRuleError("a JSON Schema (2020-12)", f"one by which a conf {fault.message}")
        if trial.conf:
            where = fault.path.removeprefix("plugins[0].")
            raise BrokenRuleError("a conf that the schema accepts", f"{where}: {fault.message}")


@_rule("resident", MUST, "residents", "A resident answers request after request as a process for each does")
def _resident(trial: Trial) -> None:
    trial.must_answer()
    try:
        number = trial.run("version").result().get("resident")
    except BrokenRuleError:
        raise NotJudgedError("it reports nothing about itself") from None
    if number is None:
        raise NotJudgedError("it does not opt in")
    if number != serve.VERSION:
        raise BrokenRuleError(f'"resident": {serve.VERSION}', describe(number))
    status = trial.invoke(b"nonsense").status
    container = trial.new_id()
    with trial.resident() as ask:
        for state in STATES:
            expected = f"exit status {trial.life[state].status} for {state}, as of TYPE invoke"
            found = _ended(ask(encode(trial.request(state, container))), trial.life[state].status, expected)
            if found.status == 0:
                found.document()
        _ended(ask(b"nonsense"), status, f"exit status {status} for text that is not JSON, as of TYPE invoke")
        for _ in range(2):
            trial.same_as_create(ask(encode(trial.request(State.CREATE))), "of TYPE invoke")


CHECKS: tuple[Check, ...] = tuple(_CHECKS)
"""All checks, in the order of a report."""


def _at(result: dict[str, Any], key: str) -> str:
    return f'{describe(result[key])} for "{key}"' if key in result else f'no "{key}"'


def _no_error(trial: Trial, value: dict[str, Any], what: str) -> None:
    if error := trial.answer(value).get("error"):
        hint = "" if trial.conf else "; if it misses its conf, give that (--conf)"
        found = f"the error {shorten(repr(error))} in answer to {what}{hint}"
        raise BrokenRuleError("a result without error", found)


def _refused(trial: Trial, stdin: bytes, what: str) -> None:
    trial.must_read()
    reply = trial.invoke(stdin)
    found = f"{reply.ending}, for {what}"
    if reply.stopped or reply.status != 1 or not reply.stderr:
        if reply.status == 0 and reply.stdout:
            found += f"; stdout: {shorten(reply.stdout.decode(errors='replace'))!r}"
        raise BrokenRuleError("exit status 1, and the reason on stderr", found)


def _ended(reply: Reply, status: int, expected: str) -> Reply:
    if reply.status != status:
        raise BrokenRuleError(expected, reply.ending)
    return reply
