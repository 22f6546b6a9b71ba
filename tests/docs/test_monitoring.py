"""docs/monitoring.md: its tables are those of the code and of the alert rules."""

import re
from pathlib import Path

import pytest
import yaml

from nri.metrics.series import EVENTS, series
from nri.metrics.table import TABLE, UP, UP_HELP
from nri.v1bridge.bridge import Bridge
from tests.support.prometheus import rules

PAGE = (Path(__file__).parents[2] / "docs/monitoring.md").read_text()


def rows(header: str) -> list[list[str]]:
    """The cells of the page's table with this header."""
    (body,) = re.findall(rf"^{re.escape(header)}\n\|[ |-]+\n((?:\|.*\n)*)", PAGE, re.MULTILINE)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in body.splitlines()]


def test_the_table_has_all_metrics_with_their_help_texts() -> None:
    expected = [(UP, "gauge", (), UP_HELP), *((row.name, row.kind, row.labels, row.help) for row in TABLE)]

    found = rows("| metric | type | labels | meaning |")

    assert found == [
        [f"`{name}`", kind, ", ".join(f"`{label}`" for label in labels), text]
        for name, kind, labels, text in expected
    ]


@pytest.mark.parametrize(
    "row", rows("| plugins | for 2 states each | for 3 states each | on 1000 nodes, for 2 states |")
)
def test_the_numbers_of_series_are_those_of_the_table(row: list[str]) -> None:
    plugins, two, three, fleet = [int(cell) for cell in row]

    assert [two, three] == [series(plugins=plugins, states=states) for states in (2, 3)]
    assert fleet == 1000 * two


def test_the_numbers_of_the_text_are_those_of_the_table() -> None:
    of_a_plugin = series(plugins=2, states=0) - series(plugins=1, states=0)
    of_a_state = series(plugins=1, states=3) - series(plugins=1, states=2)
    of_an_event = series(plugins=1, events=2) - series(plugins=1, events=1)

    assert (
        f"A plugin has {of_a_plugin} series and {of_a_state} for each of its states; an event has {of_an_event}"
        in PAGE
    )
    assert f"with the {EVENTS} events" in PAGE


def test_the_bridge_handles_as_many_events() -> None:
    handlers = re.compile(r"(?:run|stop|remove|create|start|update|post_\w+)_(?:pod_sandbox|container)")

    assert len([name for name in vars(Bridge) if handlers.fullmatch(name)]) == EVENTS


def test_the_alerts_are_those_of_the_rules() -> None:
    found = [row[:3] for row in rows("| alert | severity | for | what to do |")]

    assert found == [[f"`{rule['alert']}`", rule["labels"]["severity"], rule["for"]] for rule in rules()]


def test_the_port_is_the_same_everywhere() -> None:
    folder = Path(__file__).parents[2] / "deploy/monitoring"
    (job,) = yaml.safe_load((folder / "prometheus.yaml").read_text())["scrape_configs"]
    (target,) = job["static_configs"][0]["targets"]

    for name in ("README.md", "nri-metrics.service"):
        assert target in (folder / name).read_text()
