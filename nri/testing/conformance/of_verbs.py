"""Checks of the verbs beside ``invoke``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nri.config import PluginEntry
from nri.config.plugin_conf import UNCHECKED, check_conf
from nri.testing.conformance.contract import CheckGroup
from nri.testing.conformance.errors import BrokenRuleError, NotJudgedError
from nri.testing.conformance.requests import encode, request
from nri.types import DecodeError, gojson
from nri.types.v1 import STATES, VERSION, State

if TYPE_CHECKING:
    from nri.testing.conformance.trial import Trial

GROUP = CheckGroup("The command line")

_SECTION = "what-a-plugin-reports-about-itself"


@GROUP.must("no-verb", "exit-status", "Without a verb, usage is on stderr, and the exit status is 2")
def _no_verb(trial: Trial) -> None:
    trial.must_answer()
    reply = trial.run()
    if reply.stopped or reply.status != 2 or not reply.stderr:
        raise BrokenRuleError("exit status 2, and the usage on stderr", reply.ending)


@GROUP.should("unknown-verb", _SECTION, "An unknown verb is answered by a result with the error `invalid arg VERB`")
def _unknown_verb(trial: Trial) -> None:
    trial.must_answer()
    reply = trial.run("start", stdin=encode(request(State.CREATE, trial.new_id(), trial.conf)))
    found = reply.result().get("error")
    if found != "invalid arg start":
        raise BrokenRuleError('the error "invalid arg start"', gojson.describe(found))


@GROUP.should("help", _SECTION, "--help, -h and help print the usage, and the exit status is 0")
def _help(trial: Trial) -> None:
    trial.must_answer()
    for verb in ("--help", "-h", "help"):
        reply = trial.run(verb)
        if reply.stopped or reply.status != 0 or not reply.stdout.strip():
            printed = "" if reply.stdout.strip() else ", and nothing on stdout"
            raise BrokenRuleError("the usage on stdout, and exit status 0", f"{reply.ending}{printed}, for {verb}")


@GROUP.should(
    "version", _SECTION, "version and --version print type, version, the contract's and the states, as JSON"
)
def _version(trial: Trial) -> None:
    trial.must_answer()
    for verb in ("version", "--version"):
        about = trial.run(verb).result()
        for key, right in (("type", trial.type), ("nri", VERSION)):
            if about.get(key) != right:
                raise BrokenRuleError(f'"{key}": "{right}"', f'{gojson.describe(about.get(key))} for "{key}"')
        if not isinstance(about.get("version"), str):
            raise BrokenRuleError('"version" with a string', gojson.describe(about.get("version")))
        states = about.get("states", [])
        if not isinstance(states, list) or not set(map(str, states)) <= set(STATES):
            expected = f'"states" with some of {", ".join(STATES)}'
            raise BrokenRuleError(expected, gojson.shorten(repr(states)))


@GROUP.should("schema", _SECTION, "schema prints a JSON Schema (2020-12) of conf")
def _schema(trial: Trial) -> None:
    trial.must_answer()
    _printed_schema(trial)


@GROUP.should("schema-conf", _SECTION, "The schema accepts the conf that is given")
def _schema_conf(trial: Trial) -> None:
    trial.must_answer()
    if trial.conf is None:
        raise NotJudgedError("no conf is given")
    try:
        schema = _printed_schema(trial)
    except BrokenRuleError:
        raise NotJudgedError("it prints no schema") from None
    for fault in check_conf(PluginEntry(type=trial.type, conf=trial.conf), schema):
        raise BrokenRuleError(
            "a conf that the schema accepts", f"{fault.path.removeprefix('plugins[0].')}: {fault.message}"
        )


def _printed_schema(trial: Trial) -> Any:
    reply = trial.run("schema")
    if reply.stopped or reply.status != 0:
        raise BrokenRuleError("a JSON Schema on stdout, and exit status 0", reply.ending)
    try:
        schema = gojson.loads(reply.stdout)
    except DecodeError as error:
        raise BrokenRuleError("a JSON Schema on stdout", str(error)) from None
    for fault in check_conf(PluginEntry(type=trial.type), schema):
        if fault.message.startswith(UNCHECKED):
            raise BrokenRuleError("a JSON Schema (2020-12)", f"one by which a conf {fault.message}")
    return schema
