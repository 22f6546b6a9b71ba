"""Checks of the states, and of requests that come again, or without those that should precede them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nri.testing.conformance.contract import CheckGroup
from nri.testing.conformance.errors import BrokenRuleError
from nri.testing.conformance.requests import request
from nri.types.gojson import shorten
from nri.types.v1 import State

if TYPE_CHECKING:
    from nri.testing.conformance.trial import Trial

GROUP = CheckGroup("States")

UNKNOWN = "nri-conformance"
"""A state that no version of the contract has."""


@GROUP.must("every-state", "states", "Every state of the contract is answered")
def _every_state(trial: Trial) -> None:
    trial.must_answer()
    for state, reply in trial.life.items():
        try:
            reply.result()
        except BrokenRuleError as error:
            raise BrokenRuleError(f"{error.expected}, in answer to {state}", error.found) from None


@GROUP.must("unknown-state", "states", "A state that means nothing to the plugin is answered without error")
def _unknown_state(trial: Trial) -> None:
    result = trial.answer(request(UNKNOWN, trial.new_id(), trial.conf))
    _no_error(trial, result, f"the state {UNKNOWN!r}")


@GROUP.must("no-state", "the-request", "A request whose state is missing or empty is answered without error")
def _no_state(trial: Trial) -> None:
    value = request("", trial.new_id(), trial.conf)
    _no_error(trial, trial.answer(value), "the state ''")
    del value["state"]
    _no_error(trial, trial.answer(value), "a request without state")


@GROUP.must("delete-alone", "states", "Delete needs no create before it, and may come twice")
def _delete_alone(trial: Trial) -> None:
    container = trial.new_id()
    for what in ("a delete of a container without create", "a second delete"):
        _no_error(trial, trial.answer(request(State.DELETE, container, trial.conf)), what)


@GROUP.should("create-twice", "running-a-plugin", "The same create again does not fail where the first did not")
def _create_twice(trial: Trial) -> None:
    container = trial.new_id()
    first, second = (trial.answer(request(State.CREATE, container, trial.conf)) for _ in range(2))
    if second.get("error") and not first.get("error"):
        raise BrokenRuleError("no error, as the first time", f"the error {shorten(str(second['error']))!r}")


@GROUP.must("late-create", "late-create", "A create with `late` is answered")
def _late_create(trial: Trial) -> None:
    trial.answer(request(State.CREATE, trial.new_id(), trial.conf) | {"late": True})


@GROUP.must("sandbox", "the-request", "A request about a sandbox is answered")
def _sandbox(trial: Trial) -> None:
    container = trial.new_id()
    trial.answer(request(State.CREATE, container, trial.conf) | {"sandboxID": container})


def _no_error(trial: Trial, result: dict[str, Any], what: str) -> None:
    if error := result.get("error"):
        hint = "" if trial.conf is not None else "; if it misses its conf, give that (--conf)"
        found = f"the error {shorten(repr(error))} in answer to {what}{hint}"
        raise BrokenRuleError("a result without error", found)
