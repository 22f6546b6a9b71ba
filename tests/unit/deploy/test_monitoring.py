"""deploy/monitoring: rules, dashboard and unit agree with the metrics, with promtool, and with systemd."""

from __future__ import annotations

import configparser
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from nri.cli.commands import COMMANDS
from nri.metrics.server import LOOPBACK, parse_address
from nri.metrics.table import HISTOGRAM, TABLE, UP
from tests.support import prometheus
from tests.support.installing import run
from tests.support.prometheus import MONITORING, promtool
from tests.support.systemd_units import read_unit

RULES = prometheus.rules()
PANELS = [
    panel for panel in json.loads((MONITORING / "nri.dashboard.json").read_text())["panels"] if panel["type"] != "row"
]
SHOWN = [expression for panel in prometheus.dashboard_expressions().values() for expression in panel]
EXPRESSIONS = [*(rule["expr"] for rule in RULES), *SHOWN]
PARTS = ("_bucket", "_sum", "_count")
LABELS = {row.name: {*row.labels} for row in TABLE if row.kind != HISTOGRAM} | {UP: set()}
LABELS |= {row.name + part: {*row.labels, "le"} for row in TABLE if row.kind == HISTOGRAM for part in PARTS}
OF_THE_TARGET = {"instance", "job"}
OTHER_COMMANDS = {"systemctl status nri-metrics", "journalctl -t nri-v1bridge -n 100"}


def used(expressions: list[str]) -> set[str]:
    return {name for expression in expressions for name in re.findall(r"nri_v1bridge_\w+", expression)}


def test_only_metrics_that_exist_are_used() -> None:
    assert used(EXPRESSIONS) - set(LABELS) == set()


def test_every_metric_is_used() -> None:
    names = {re.sub(rf"({'|'.join(PARTS)})$", "", name) for name in used(EXPRESSIONS)}

    assert {UP, *(row.name for row in TABLE)} - names - used(EXPRESSIONS) == set()


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_only_labels_that_exist_are_used(expression: str) -> None:
    known = set().union(*(LABELS[name] for name in used([expression])), OF_THE_TARGET, {"file"})
    named = re.findall(r"(\w+)(?:=~|!~|!=|=)\"", expression)
    named += [
        label.strip()
        for labels in re.findall(r"(?:by|without) \(([^)]*)\)", expression)
        for label in labels.split(",")
    ]

    assert set(named) - known == set()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_a_rule_tells_the_node_how_bad_it_is_and_what_to_run_there(rule: dict[str, Any]) -> None:
    description = rule["annotations"]["description"]
    command = description.rpartition("Run there: ")[2]

    assert rule["for"]
    assert rule["labels"]["severity"] in ("info", "warning", "critical")
    assert rule["annotations"]["summary"].endswith(".")
    assert "{{ $labels.instance }}" in description
    verb = re.fullmatch(r"nri (\w+)(?: --check)?", command)
    assert command in OTHER_COMMANDS or (verb is not None and verb[1] in COMMANDS)


def test_every_rule_has_a_test() -> None:
    text = (MONITORING / "nri.rules.test.yaml").read_text()

    assert [rule["alert"] for rule in RULES if f'alertname="{rule["alert"]}"' not in text] == []


def test_the_panels_lie_side_by_side() -> None:
    cells = [
        (x, y)
        for panel in PANELS
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in PANELS}) == len({panel["title"] for panel in PANELS}) == len(PANELS)


def test_every_expression_of_the_dashboard_follows_the_choice_of_nodes() -> None:
    targets = [target["expr"] for panel in PANELS for target in panel["targets"]]

    for expression in targets:
        assert expression.count("nri_v1bridge_") == expression.count('instance=~"$instance"'), expression


@pytest.mark.prometheus
def test_promtool_finds_no_fault_and_the_tests_of_the_rules_pass(tmp_path: Path) -> None:
    prometheus.need_prometheus()
    rules = MONITORING / "nri.rules.yaml"
    promtool("check", "rules", "--lint=all", "--lint-fatal", rules)
    promtool("test", "rules", MONITORING / "nri.rules.test.yaml")
    document = yaml.safe_load((MONITORING / "prometheus.yaml").read_text())
    document["rule_files"] = [str(rules)]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(document))
    promtool("check", "config", "--lint=all", "--lint-fatal", tmp_path / "prometheus.yml")


@pytest.mark.prometheus
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_the_tests_of_the_rules_notice_a_rule_that_never_fires(tmp_path: Path, rule: dict[str, Any]) -> None:
    prometheus.need_prometheus()
    document = yaml.safe_load((MONITORING / "nri.rules.yaml").read_text())
    for each in document["groups"][0]["rules"]:
        if each["alert"] == rule["alert"]:
            each["for"] = "10h"
    (tmp_path / "nri.rules.yaml").write_text(yaml.safe_dump(document))
    shutil.copy(MONITORING / "nri.rules.test.yaml", tmp_path)

    done = run("promtool", "test", "rules", tmp_path / "nri.rules.test.yaml", check=False)

    assert done.returncode != 0


@pytest.fixture
def unit() -> configparser.ConfigParser:
    return read_unit(MONITORING / "nri-metrics.service", strict=False)


def test_the_unit_serves_loopback_and_has_nothing_of_root_but_the_user(
    unit: configparser.ConfigParser, installed: Path
) -> None:
    service = unit["Service"]
    program, *arguments = service["ExecStart"].split()

    assert (installed / program.lstrip("/")).resolve().name == "nri"
    assert arguments[:2] == ["metrics", "--listen"]
    assert parse_address(arguments[2])[0] == LOOPBACK
    assert not {"User", "DynamicUser", "PrivateUsers"} & set(service)  # the socket is root's
    assert (service["CapabilityBoundingSet"], service["NoNewPrivileges"]) == ("", "yes")
    assert (service["TemporaryFileSystem"], service["BindReadOnlyPaths"]) == ("/run", "/run/nri")
    assert (service["ProtectSystem"], service["IPAddressDeny"], service["IPAddressAllow"]) == (
        *("strict", "any", "localhost"),
    )


def test_systemd_finds_nothing_wrong_with_the_unit_and_little_exposed(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed (Debian's package systemd)")
    copy = tmp_path / "nri-metrics.service"
    text = (MONITORING / "nri-metrics.service").read_text()
    copy.write_text(text.replace("/opt/nri/lib/nri ", "/bin/true "))  # it must exist, here
    done = run("systemd-analyze", "verify", "--man=no", copy, check=False)
    if "Failed to" in done.stderr and "manager" in done.stderr:
        pytest.skip(f"systemd-analyze does not work here: {done.stderr.strip()}")
    assert (done.returncode, [line for line in done.stderr.splitlines() if "nri-metrics" in line]) == (0, [])
    done = run("systemd-analyze", "security", "--offline=true", "--threshold=20", copy, check=False)
    if "unrecognized option" in done.stderr or "Failed to" in done.stderr:
        pytest.skip(f"systemd-analyze security --offline does not work here (systemd 250): {done.stderr.strip()}")
    assert done.returncode == 0, done.stdout[-200:]
