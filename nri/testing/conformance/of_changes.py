"""Checks of the extension ``adjust``: which answers may ask for changes, and their form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.adjust.reading import read_adjust, read_updates
from nri.testing.conformance.contract import CheckGroup
from nri.testing.conformance.errors import BrokenRuleError
from nri.testing.conformance.requests import request
from nri.types import DecodeError
from nri.types.gojson import describe
from nri.types.v1 import State

if TYPE_CHECKING:
    from nri.testing.conformance.trial import Trial

GROUP = CheckGroup("Changes")

ANSWERS = {
    "cgroupsPath": (State.SETUP,),
    "adjust": (State.SETUP,),
    "updates": (State.SETUP, State.RESIZE, State.DELETE),
}
"""The keys of a result that ask for something, and the states that they may answer."""


@GROUP.must("changes-elsewhere", "the-result", "A result asks for changes only in answer to the states that allow it")
def _changes_elsewhere(trial: Trial) -> None:
    for state, result in trial.results():
        for key, states in ANSWERS.items():
            if result.get(key) and state not in states:
                expected = f'"{key}" only in answer to {", ".join(states)}'
                raise BrokenRuleError(expected, f'"{key}" in answer to {state}')


@GROUP.must("changes-form", "adjust", "`adjust`, `updates` and `cgroupsPath` have the form that hosts demand")
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


@GROUP.should("changes-unannounced", "changes", "Without `extensions` in the request, the result asks for no changes")
def _changes_unannounced(trial: Trial) -> None:
    value = request(State.SETUP, trial.new_id(), trial.conf)
    del value["extensions"]
    result = trial.answer(value)
    for key in ("adjust", "updates"):
        if result.get(key):
            found = f'"{key}" in answer to a setup without extensions'
            raise BrokenRuleError("an error, or a result without changes", found)
