"""The Helm chart makes the objects of the kustomize overlays, rendered without Helm: see tests/support/chart.py."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from harness import json_schemas
from nri.v1bridge import BridgeOptions
from tests.support import chart, kubernetes_fields, kustomize
from tests.support.go_templates import TemplateError, Templates
from tests.support.installing import DEPLOY, ROOT
from tests.support.kubernetes_objects import comparable

KUBERNETES = DEPLOY / "kubernetes"
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
    """The hash at the end of a ConfigMap's name is another one in Helm's objects than in kustomize's."""
    return re.sub(r"(name: nri-v1bridge\S*)-[0-9a-f]{10}$", r"\1", text, flags=re.MULTILINE)


def with_options_as_values(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """JSON may be written in several ways, and a file may say what it is."""
    for each in objects:
        if each["kind"] == "ConfigMap" and each["metadata"]["name"].startswith("nri-v1bridge"):
            options = {name: json.loads(text) for name, text in each["data"].items()}
            each["data"] = {name: {**value, "x-what": None} for name, value in options.items()}
    return objects


@pytest.mark.parametrize(("given", "folders"), CASES.values(), ids=CASES)
def test_the_chart_makes_the_objects_of_the_overlays(given: dict[str, Any], folders: list[str]) -> None:
    rendered = {name: without_hashes(text) for name, text in chart.render(given).items()}
    expected = [each for folder in folders for each in kustomize.build(KUBERNETES / folder)]
    ours, theirs = (comparable(with_options_as_values(each)) for each in (chart.objects(rendered), expected))
    assert ours.keys() == theirs.keys()
    for name, each in ours.items():
        assert each == theirs[name], name


@pytest.mark.parametrize("given", VARIANTS.values(), ids=VARIANTS)
def test_all_fields_of_all_objects_are_fields_of_kubernetes(given: dict[str, Any]) -> None:
    for each in chart.objects(chart.render(given)):
        assert kubernetes_fields.faults(each) == []


@pytest.mark.parametrize("folder", ["outside", "pre-registered", "uninstall"])
def test_all_fields_of_the_overlays_are_fields_of_kubernetes(folder: str) -> None:
    for each in kustomize.build(KUBERNETES / "overlays" / folder):
        assert kubernetes_fields.faults(each) == []


def test_a_field_in_the_wrong_place_is_found() -> None:
    (found,) = [each for each in kustomize.build(KUBERNETES / "overlays/outside") if each["kind"] == "DaemonSet"]
    found["spec"]["maxUnavailable"] = 1
    found["spec"]["template"]["spec"]["containers"][0]["image"] = 3
    assert kubernetes_fields.faults(found) == [
        "DaemonSet.spec.maxUnavailable: unknown field",
        "DaemonSet.spec.template.spec.containers[0].image: found 3, expected text",
    ]


def test_gos_own_templates_render_the_same(tmp_path: Path) -> None:
    program = shutil.which("go")
    if program is None:
        pytest.skip("Go is not installed")
    settings = {"GOCACHE": f"{tmp_path}/cache", "GO111MODULE": "off", "GOTOOLCHAIN": "local", "HOME": str(tmp_path)}
    inherited = {name: os.environ[name] for name in ("PATH", "GOROOT") if name in os.environ}
    render = f"{tmp_path}/render"
    command = [program, "build", "-o", render, str(ROOT / "tests/support/render_chart/main.go")]
    done = subprocess.run(
        command, env=inherited | settings, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for name, given in VARIANTS.items():
        ours, gos = chart.render(given), chart.render_with_go(render, given)
        assert comparable(chart.objects(ours)) == comparable(chart.objects(gos)), name
        assert ours["NOTES.txt"] == gos["NOTES.txt"], name


def test_the_default_configuration_and_options_are_the_samples() -> None:
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
def test_the_schema_refuses_wrong_values(given: dict[str, Any], where: str) -> None:
    with pytest.raises(jsonschema.ValidationError) as found:
        chart.values(given)
    assert ".".join(map(str, found.value.absolute_path)) == where


def test_every_value_is_used_and_is_in_the_schema() -> None:
    text = "".join(chart.FILES.values())
    for name in chart.values():
        assert f".Values.{name}" in text
    group = chart.SCHEMA["properties"]["groups"]["items"]["properties"]
    for name in group:
        assert f"$group.{name}" in text or name == "name"
    assert chart.values().keys() | {"global"} == chart.SCHEMA["properties"].keys()


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


def test_another_configuration_replaces_pods_where_that_is_asked_for() -> None:
    def names(**given: Any) -> set[str]:
        return {each["metadata"]["name"] for each in chart.objects(chart.render(given))}

    changed = {"10-konfine.conf": "{}"}
    assert names() == names(configuration=changed)
    before, after = (names(configurationRollout="pods", **more) for more in ({}, {"configuration": changed}))
    assert before != after
    assert names() != names(bridgeOptions={"logLevel": "debug"})


def test_the_notes_say_how_to_see_each_group_and_how_to_end_an_uninstallation() -> None:
    notes = chart.render(GROUPS)["NOTES.txt"]
    assert all(f"rollout status daemonset/nri-v1bridge-{name}\n" in notes for name in ("canary", "rest"))
    assert "helm -n kube-system uninstall nri" in chart.render({"mode": "uninstall"})["NOTES.txt"]


def test_the_chart_has_what_helm_needs() -> None:
    about = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())
    assert about["apiVersion"] == "v2"
    assert about["name"] == chart.CHART.name
    assert all(isinstance(about[name], str) for name in ("version", "appVersion", "description", "kubeVersion"))
    ignored = (chart.CHART / ".helmignore").read_text().split()
    assert ignored == ["examples/"]
    assert {path.name for path in chart.CHART.iterdir()} == {
        *(".helmignore", "Chart.yaml", "values.yaml", "values.schema.json", "templates", "examples")
    }
    jsonschema.Draft7Validator.check_schema(chart.SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        "{{ .Missing }}",
        "{{ if .a }}",
        "{{ end }}",
        "{{ else if .a }}",
        "{{ upper .a }}",
        "{{ .a.b }}",
        '{{ .a | default "b" | lookup }}',
        "{{ block }}",
        '{{ printf "%d" 3 }}',
        "{{ (len .a }}",
        "{{ .a .a }}",
    ],
)
def test_a_template_that_is_not_in_the_subset_is_refused(text: str) -> None:
    with pytest.raises((TemplateError, KeyError)):
        Templates({"a": text}).render("a", {"a": "text"})


def test_helm_renders_the_same_and_finds_nothing_to_lint(tmp_path: Path) -> None:
    if shutil.which("helm") is None:
        pytest.skip("helm is not installed")
    for name, given in VARIANTS.items():
        (tmp_path / "values.yaml").write_text(yaml.safe_dump(given))
        for command in (["lint", "--strict"], ["template", "nri"]):
            done = subprocess.run(
                ["helm", *command, chart.CHART, "--namespace=kube-system", f"--values={tmp_path}/values.yaml"],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
        made = [each for each in yaml.safe_load_all(done.stdout) if each is not None]
        assert comparable(made) == comparable(chart.objects(chart.render(given))), name
