"""deploy/monitoring: rules and dashboard agree with the metrics, and with promtool."""

import json
import re
from pathlib import Path

import pytest
import yaml

from nri.cli.commands import COMMANDS
from tests.support import exposition, prometheus
from tests.support.exposition import UP
from tests.support.prometheus import MONITORING, promtool

RULES = prometheus.rules()
DASHBOARD = json.loads((MONITORING / "nri.dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
REQUIRED = {
    "timeseries": {"legend", "tooltip"},
    "stat": {
        "graphMode",
        "colorMode",
        "justifyMode",
        "textMode",
        "wideLayout",
        "showPercentChange",
        "percentChangeColorMode",
        "orientation",
        "reduceOptions",
    },
    "table": {"frameIndex", "showHeader"},
}
"""The options that Grafana's schema of each kind of panel requires (jsonschema/*.json of grafana-foundation-sdk)."""
SHOWN = [
    expression for panel in prometheus.dashboard_expressions().values() for expression in panel
]
EXPRESSIONS = [*(rule["expr"] for rule in RULES), *SHOWN]
PARTS = ("_bucket", "_sum", "_count")
ALL = {exposition.name(metric): {*exposition.labels(metric)} for metric in exposition.metrics()}
HISTOGRAMS = [metric.name for metric in exposition.metrics() if metric.type == "histogram"]
LABELS: dict[str, set[str]] = {UP: set()} | {
    name: labels for name, labels in ALL.items() if name not in HISTOGRAMS
}
LABELS |= {name + part: {*ALL[name], "le"} for name in HISTOGRAMS for part in PARTS}
OTHER_LABELS = {"instance", "job", "file"}
OTHER_COMMANDS = {"systemctl status nri-metrics", "journalctl -t nri-v1bridge -n 100"}


def used(*expressions: str) -> set[str]:
    return {
        name for expression in expressions for name in re.findall(r"nri_v1bridge_\w+", expression)
    }


def test_every_metric_is_used_and_every_used_one_exists() -> None:
    names = used(*EXPRESSIONS)
    assert names - set(LABELS) == set()
    bare = {re.sub(rf"({'|'.join(PARTS)})$", "", name) for name in names}
    assert {UP, *ALL} - bare - names == set()


def test_only_labels_that_exist_are_used() -> None:
    for expression in EXPRESSIONS:
        known = set().union(*(LABELS[name] for name in used(expression)), OTHER_LABELS)
        named = re.findall(r"(\w+)(?:=~|!~|!=|=)\"", expression)
        for labels in re.findall(r"(?:by|without) \(([^)]*)\)", expression):
            named += [label.strip() for label in labels.split(",")]
        assert set(named) - known == set(), expression


def test_each_rule_has_a_command_of_nri_and_a_test() -> None:
    tests = (MONITORING / "nri.rules.test.yaml").read_text()
    for rule in RULES:
        command = rule["annotations"]["description"].rpartition("Run there: ")[2]
        verb = re.fullmatch(r"nri (\w+)(?: --check)?", command)
        assert command in OTHER_COMMANDS or (verb is not None and verb[1] in COMMANDS), rule[
            "alert"
        ]
        assert f'alertname="{rule["alert"]}"' in tests


def test_dashboard_expressions_follow_the_choice_of_nodes() -> None:
    for expression in [target["expr"] for panel in PANELS for target in panel["targets"]]:
        assert expression.count("nri_v1bridge_") == expression.count('instance=~"$instance"'), (
            expression
        )


def test_dashboard_has_what_the_schemas_of_grafana_require() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len({*ids})
    for panel in PANELS:
        assert panel["options"].keys() >= REQUIRED[panel["type"]], panel["title"]
        assert panel["fieldConfig"].keys() == {"defaults", "overrides"}, panel["title"]
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24, panel["title"]
        assert all({"refId", "expr"} <= target.keys() for target in panel["targets"]), panel[
            "title"
        ]
    for variable in DASHBOARD["templating"]["list"]:
        assert isinstance(variable["query"], str), variable["name"]


@pytest.mark.prometheus
def test_promtool_finds_no_fault_and_the_tests_of_the_rules_pass(tmp_path: Path) -> None:
    prometheus.need_prometheus()
    rules = MONITORING / "nri.rules.yaml"
    promtool("check", "rules", "--lint=all", "--lint-fatal", rules)
    promtool("test", "rules", MONITORING / "nri.rules.test.yaml")
    document = yaml.safe_load((MONITORING / "prometheus.yaml").read_text())
    document["rule_files"] = [str(rules)]
    for job in document["scrape_configs"]:
        job.pop("kubernetes_sd_configs", None)  # which Debian's promtool does not know
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(document))
    promtool("check", "config", "--lint=all", "--lint-fatal", tmp_path / "prometheus.yml")
