"""Checks of a result: that there is one, and its form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nri.testing.conformance.contract import CheckGroup
from nri.testing.conformance.errors import BrokenRuleError, NotJudgedError
from nri.types.gojson import describe, shorten
from nri.types.v1 import VERSION

if TYPE_CHECKING:
    from nri.testing.conformance.trial import Trial

GROUP = CheckGroup("The result")


@GROUP.must("exit-0", "exit-status", "A request is answered with exit status 0, before the deadline")
def _exit_0(trial: Trial) -> None:
    reply = trial.plain
    if reply.stopped == "output":
        raise NotJudgedError("it was killed, since stdout is too long")
    if reply.stopped or reply.status != 0:
        raise BrokenRuleError("exit status 0", reply.ending)


@GROUP.must("output-size", "running-a-plugin", "Stdout has at most 1 MiB")
def _output_size(trial: Trial) -> None:
    if trial.plain.stopped == "output":
        raise BrokenRuleError("at most 1 MiB on stdout", trial.plain.ending)


@GROUP.must("one-result", "the-result", "Stdout has one JSON object, and nothing else")
def _one_result(trial: Trial) -> None:
    if trial.plain.stopped:
        raise NotJudgedError("it was killed")
    trial.plain.document()


@GROUP.must("plugin-name", "the-result", "`plugin` is the plugin's type")
def _plugin_name(trial: Trial) -> None:
    for state, result in trial.results():
        if result.get("plugin") != trial.type:
            raise BrokenRuleError(f'"plugin": "{trial.type}"', f"{_at(result, 'plugin')} in answer to {state}")


@GROUP.must("result-version", "the-result", "`version` is the request's")
def _result_version(trial: Trial) -> None:
    for state, result in trial.results():
        if result.get("version") != VERSION:
            raise BrokenRuleError(f'"version": "{VERSION}"', f"{_at(result, 'version')} in answer to {state}")


@GROUP.must("error-string", "the-result", "`error` is a string, and always there")
def _error_string(trial: Trial) -> None:
    for state, result in trial.results():
        if not isinstance(result.get("error"), str):
            raise BrokenRuleError('"error" with a string', f"{_at(result, 'error')} in answer to {state}")


@GROUP.should("error-line", "the-result", "`error` is one line without control characters")
def _error_line(trial: Trial) -> None:
    for state, result in trial.results():
        error = result.get("error")
        if isinstance(error, str) and not error.isprintable():
            raise BrokenRuleError("one line of printable characters", f"{describe(error)} in answer to {state}")


@GROUP.must("metadata-strings", "the-result", "`metadata` is an object of strings, if it is there")
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


def _at(result: dict[str, Any], key: str) -> str:
    return f'{describe(result[key])} for "{key}"' if key in result else f'no "{key}"'
