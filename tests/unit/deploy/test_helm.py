"""The Helm chart makes the objects of the kustomize overlays, rendered without Helm: see tests/support/chart.py."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from harness import json_schemas
from nri.v1bridge import BridgeOptions
from tests.support import chart, kustomize
from tests.support.go_templates import TemplateError
from tests.support.installing import DEPLOY, ROOT, run
from tests.support.kubernetes_objects import comparable, unknown_fields

GROUPS = yaml.safe_load((chart.CHART / "examples/groups.yaml").read_text())
CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "outside": ({}, ["overlays/outside"]),
    "pre-registered": ({"mode": "pre-registered"}, ["overlays/pre-registered"]),
    "uninstall": ({"mode": "uninstall"}, ["overlays/uninstall"]),
    "groups": (GROUPS, ["groups/canary", "groups/rest"]),
}
VARIANTS: dict[str, dict[str, Any]] = {
    **{name: given for name, (given, _) in CASES.items()},
    "pods": {"configurationRollout": "pods", **GROUPS},
    "surge": {"maxSurge": 1, "maxUnavailable": 0},
    "tags": {"image": {"tag": "1.0"}, "groups": [{"name": "a", "tag": "2.0"}, {"name": "b"}]},
    "markup": {"configuration": {"30-odd.conf": 'a "quoted" <tag> & \u00fcber\n\ttab\n'}},
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


@pytest.mark.parametrize("given", VARIANTS.values(), ids=VARIANTS)
def test_objects_have_only_fields_of_kubernetes_and_are_what_helm_renders(
    given: dict[str, Any], tmp_path: Path
) -> None:
    objects = chart.objects(chart.render(given))
    assert [fault for each in objects for fault in unknown_fields(each)] == []
    configurations = [each for each in objects if each["metadata"]["name"].startswith("nri-configuration")]
    if "configuration" in given:
        assert given["configuration"].items() <= configurations[0]["data"].items()
    if shutil.which("helm") is None:
        return
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(given))
    options = (chart.CHART, "--namespace=kube-system", f"--values={tmp_path}/values.yaml")
    run("helm", "lint", "--strict", *options)
    made = yaml.safe_load_all(run("helm", "template", "nri", *options).stdout)
    assert comparable(each for each in made if each is not None) == comparable(objects)


def test_image_tag_is_that_of_the_group_or_of_all() -> None:
    objects = chart.objects(chart.render(VARIANTS["tags"]))
    images = {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]["containers"][0]["image"]
        for each in objects
        if each["kind"] == "DaemonSet"
    }
    assert {name: image.rpartition(":")[2] for name, image in images.items()} == {
        "nri-v1bridge-a": "2.0",
        "nri-v1bridge-b": "1.0",
    }


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
        ({"maxUnavailable": "1"}, "maxUnavailable"),
        ({"configuration": {"10.json": "{}"}}, "configuration"),
        ({"configuration": {"10.conf": {"version": "0.1"}}}, "configuration.10.conf"),
        ({"configuration": {"10-konfine.conf": None, "20-clearcfs.conf": None}}, "configuration"),
        ({"groups": []}, "groups"),
        ({"groups": [{"name": "A"}]}, "groups.0.name"),
        ({"groups": [{"name": "a", "configMap": {}}]}, "groups.0"),
        ({"image": {"tag": 1.0}}, "image.tag"),
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


def test_every_value_is_used_and_is_in_the_schema() -> None:
    jsonschema.Draft7Validator.check_schema(chart.SCHEMA)
    text = "".join(chart.FILES.values())
    assert [name for name in chart.values() if f".Values.{name}" not in text] == []
    group = chart.SCHEMA["properties"]["groups"]["items"]["properties"]
    assert [name for name in group if f"$group.{name}" not in text and name != "name"] == []
    assert chart.values().keys() | {"global"} == chart.SCHEMA["properties"].keys()


def test_another_configuration_replaces_pods_where_that_is_asked_for() -> None:
    def names(**given: Any) -> set[str]:
        return {each["metadata"]["name"] for each in chart.objects(chart.render(given))}

    changed = {"10-konfine.conf": "{}"}
    assert names() == names(configuration=changed)
    before, after = (names(configurationRollout="pods", **more) for more in ({}, {"configuration": changed}))
    assert before != after
    assert names() != names(bridgeOptions={"logLevel": "debug"})


def test_notes_name_each_group_and_how_to_end_an_uninstallation() -> None:
    notes = chart.render(GROUPS)["NOTES.txt"]
    assert all(f"rollout status daemonset/nri-v1bridge-{name}\n" in notes for name in ("canary", "rest"))
    assert "helm -n kube-system uninstall nri" in chart.render({"mode": "uninstall"})["NOTES.txt"]
