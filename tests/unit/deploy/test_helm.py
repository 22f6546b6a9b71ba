"""The Helm chart makes the objects of the kustomize overlays, rendered without Helm."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable
from typing import Any

import jsonschema
import pytest
import yaml

from harness import json_schemas
from nri.v1bridge import BridgeOptions
from tests.support import kustomize
from tests.support.go_templates import TemplateError, Templates
from tests.support.installing import DEPLOY, ROOT

CHART = DEPLOY / "helm/nri"
FILES = {path.name: path.read_text() for path in (CHART / "templates").iterdir()}
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
GROUPS = yaml.safe_load((CHART / "examples/groups.yaml").read_text())
CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "outside": ({}, ["overlays/outside"]),
    "pre-registered": ({"mode": "pre-registered"}, ["overlays/pre-registered"]),
    "uninstall": ({"mode": "uninstall"}, ["overlays/uninstall"]),
    "groups": (GROUPS, ["groups/canary", "groups/rest"]),
}


UNORDERED = {"volumeMounts": "mountPath", "containers": "name", "volumes": "name"}
"""Lists whose order means nothing, each with the key that names an element. Init containers run in order."""


def comparable(objects: Iterable[dict[str, Any]]) -> dict[tuple[str, str], Any]:
    """Return the objects by kind and name, with unordered lists in one order."""
    in_order = [_sorted(each) for each in objects]
    named = {(each["kind"], each["metadata"]["name"]): each for each in in_order}
    assert len(named) == len(in_order), "two objects have one name"
    return named


def _sorted(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _sorted(item, name) for name, item in value.items()}
    if isinstance(value, list):
        items = [_sorted(item) for item in value]
        return sorted(items, key=lambda item: str(item[UNORDERED[key]])) if key in UNORDERED else items
    return value


def values(given: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the default values overlaid by what is given, as Helm does: maps are merged, null removes a key.

    :raises jsonschema.ValidationError: the schema refuses them.
    """
    merged = _overlaid(yaml.safe_load((CHART / "values.yaml").read_text()), given or {})
    jsonschema.Draft7Validator(SCHEMA).validate(merged)
    return merged


def _overlaid(base: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    merged = copy.deepcopy(base)
    for key, value in given.items():
        if isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = _overlaid(merged[key], value)
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = copy.deepcopy(value)
    return merged


def render(given: dict[str, Any] | None = None) -> dict[str, str]:
    """Return the text of each file that is not a library of definitions."""
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    chart = {"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]}
    root = {"Values": values(given), "Release": {"Name": "nri", "Namespace": "kube-system"}, "Chart": chart}
    templates = Templates(FILES)
    return {name: templates.render(name, root) for name in FILES if not name.startswith("_")}


def objects(rendered: dict[str, str]) -> list[dict[str, Any]]:
    """Return the Kubernetes objects of rendered files."""
    texts = [text for name, text in rendered.items() if name.endswith(".yaml")]
    return [each for text in texts for each in yaml.safe_load_all(text) if each is not None]


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
    rendered = {name: without_hashes(text) for name, text in render(given).items()}
    expected = [each for folder in folders for each in kustomize.build(DEPLOY / "kubernetes" / folder)]
    ours, theirs = (comparable(with_options_as_values(each)) for each in (objects(rendered), expected))
    assert ours == theirs


def test_default_configuration_and_options_are_the_samples() -> None:
    defaults = values()
    samples = {path.name: path.read_text() for path in (ROOT / "conf/resource.d").glob("*.conf")}
    assert defaults["configuration"] == samples
    BridgeOptions.parse(json.dumps(defaults["bridgeOptions"]))
    for text in defaults["configuration"].values():
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
        values(given)
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
        render(given)
