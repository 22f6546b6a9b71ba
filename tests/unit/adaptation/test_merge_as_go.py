"""Adjustments and updates merged as NRI's own adaptation does, and a table of where this one differs.

Source: ``tests/golden/nri-0.12/merge.json``, which pkg/adaptation of containerd/nri 0.12 has made.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format

from nri.adaptation import EventError
from tests.support.merged import merge

RECORD = json.loads((Path(__file__).parents[2] / "golden/nri-0.12/merge.json").read_text())
# The runtime's, not the merging's.
FAILS_OR_VALIDATES = {
    "plugin errs",
    "UpdateContainer errs",
    "StopContainer errs",
    "validator rejects",
}
SCENARIOS = [
    scenario for scenario in RECORD["scenarios"] if scenario["name"] not in FAILS_OR_VALIDATES
]

EMPTY: dict[str, Any] = {"resources": {"memory": {}, "cpu": {}}, "rdt": {}}
DIFFERENT: dict[str, dict[str, Any]] = {
    # NRI 0.12 puts removals of sysctls among the annotations, where they have no effect. Later versions do not.
    "sysctl removed": {"hooks": {}, "linux": {**EMPTY, "sysctl": {"-net.old": ""}}},
    "sysctl removed, alone": {"hooks": {}, "linux": {**EMPTY, "sysctl": {"-zzz": ""}}},
}
"""Scenarios with another outcome here, by their names, and that outcome."""


def merged(scenario: dict[str, Any]) -> dict[str, Any]:
    """Return the outcome of a scenario here, in the words of the record."""
    responses = [(plugin["name"], plugin.get("response")) for plugin in scenario["plugins"]]
    try:
        response = merge(scenario["event"], RECORD["container"], responses, scenario["resources"])
    except EventError as error:
        return {"error": str(error)}
    found = json_format.MessageToDict(response, preserving_proto_field_name=True)
    return {"error": "", "adjust": found.get("adjust", {}), "update": found.get("update", [])}


def as_go(scenario: dict[str, Any]) -> dict[str, Any]:
    return {name: scenario[name] for name in ("error", "adjust", "update") if name in scenario}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario["name"])
def test_verdict_result_and_words_are_those_of_nris_own_adaptation(
    scenario: dict[str, Any],
) -> None:
    go = as_go(scenario)
    if (adjust := DIFFERENT.get(scenario["name"])) is not None:
        assert go != {**go, "adjust": adjust}, "it does not differ any more"
        go["adjust"] = adjust
    assert merged(scenario) == go


def test_every_difference_is_one_of_a_scenario() -> None:
    assert set(DIFFERENT) <= {scenario["name"] for scenario in SCENARIOS}
    assert len(SCENARIOS) > 80
