"""The Helm chart makes the objects of the kustomize overlays, rendered without Helm: see tests/support/chart.py."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest
import yaml

from harness import json_schemas
from nri.v1bridge import BridgeOptions
from tests.support import chart, kustomize
from tests.support.go_templates import TemplateError
from tests.support.installing import DEPLOY, ROOT
from tests.support.kubernetes_objects import comparable

GROUPS = yaml.safe_load((chart.CHART / "examples/groups.yaml").read_text())
CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "outside": ({}, ["overlays/outside"]),
    "pre-registered": ({"mode": "pre-registered"}, ["overlays/pre-registered"]),
    "uninstall": ({"mode": "uninstall"}, ["overlays/uninstall"]),
    "groups": (GROUPS, ["groups/canary", "groups/rest"]),
}


def without_hashes(text: str) -> str:
    """The hash at the end of a ConfigMap's name differs between Helm's objects and kustomize's."""
    return re.sub(r"(name: nri-v1bridge\S*)-[0-9a-f]{10}$", r"\1", text, flags=re.MULTILINE)


def with_options_as_values(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """JSON may be written in several ways, and a file may say what it is."""
    for each in objects:
        if each["kind"] == "ConfigMap" and each["metadata"]["name"].startswith("nri-v1bridge"):
            options = {name: json.loads(text) for name, text in each["data"].items()}
            each["data"] = {name: {**value, "x-what": None} for name, value in options.items()}
    return objects


@pytest.mark.parametrize(("given", "folders"), CASES.values(), ids=CASES)
def test_chart_makes_the_objects_of_the_overlays(given: dict[str, Any], folders: list[str]) -> None:
    rendered = {name: without_hashes(text) for name, text in chart.render(given).items()}
    expected = [each for folder in folders for each in kustomize.build(DEPLOY / "kubernetes" / folder)]
    ours, theirs = (comparable(with_options_as_values(each)) for each in (chart.objects(rendered), expected))
    assert ours == theirs


def test_default_configuration_and_options_are_the_samples() -> None:
    values = chart.values()
    samples = {path.name: path.read_text() for path in (ROOT / "conf/resource.d").glob("*.conf")}
    assert values["configuration"] == samples
    BridgeOptions.parse(json.dumps(values["bridgeOptions"]))
    for text in values["configuration"].values():
        json_schemas.validator("host-config").validate(json.loads(text))


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"mode": "inside"}, "mode"),
        ({"maxUnavailble": 3}, ""),
        ({"configuration": {"10.json": "{}"}}, "configuration"),
        ({"configuration": {"10-konfine.conf": None, "20-clearcfs.conf": None}}, "configuration"),
        ({"groups": []}, "groups"),
        ({"groups": [{"name": "A"}]}, "groups.0.name"),
    ],
)
def test_schema_refuses_wrong_values(given: dict[str, Any], where: str) -> None:
    with pytest.raises(jsonschema.ValidationError) as refused:
        chart.values(given)
    assert ".".join(map(str, refused.value.absolute_path)) == where


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"maxSurge": 1}, "exactly one of maxSurge and maxUnavailable"),
        ({"maxUnavailable": 0}, "exactly one of maxSurge and maxUnavailable"),
        ({"groups": [{"name": "a"}, {"name": ""}]}, "a group without a name beside others"),
    ],
)
def test_values_that_contradict_each_other_are_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(TemplateError, match=reason):
        chart.render(given)
