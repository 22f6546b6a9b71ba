"""Checks of a plugin that opts in as a resident."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.testing.conformance.contract import CheckGroup
from nri.testing.conformance.errors import BrokenRuleError, NotJudgedError
from nri.testing.conformance.requests import encode, request
from nri.types import gojson
from nri.types.serve import VERSION
from nri.types.v1 import STATES, State

if TYPE_CHECKING:
    from nri.testing.conformance.trial import Trial

GROUP = CheckGroup("The resident")

_NO_REQUEST = b"nonsense"


@GROUP.must("resident", "residents", "A resident answers request after request as a process for each does")
def _resident(trial: Trial) -> None:
    trial.must_answer()
    try:
        number = trial.run("version").result().get("resident")
    except BrokenRuleError:
        raise NotJudgedError("it reports nothing about itself") from None
    if number is None:
        raise NotJudgedError("it does not opt in")
    if number != VERSION:
        raise BrokenRuleError(f'"resident": {VERSION}', gojson.describe(number))
    status = trial.run("invoke", stdin=_NO_REQUEST).status
    container = trial.new_id()
    with trial.runner.resident() as ask:
        for state in STATES:
            found = ask(encode(request(state, container, trial.conf)))
            if found.status != trial.life[state].status:
                expected = f"exit status {trial.life[state].status} for {state}, as of TYPE invoke"
                raise BrokenRuleError(expected, found.ending)
            if found.status == 0:
                found.document()
        if (found := ask(_NO_REQUEST)).status != status:
            raise BrokenRuleError(f"exit status {status} for text that is not JSON, as of TYPE invoke", found.ending)
        for _ in range(2):
            container = trial.new_id()
            trial.same_as_create(
                ask(encode(request(State.CREATE, container, trial.conf))), container, "of TYPE invoke"
            )
