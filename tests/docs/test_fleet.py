"""docs/fleet.md has the tables that bench/fleet.py computes, and its sentences the figures of the tables."""

from __future__ import annotations

import re

from bench import fleet, rollout
from tests.support.installing import DEPLOY
from tests.support.kustomize import build

PAGE = fleet.PAGE.read_text()


def row(table: str, name: str) -> list[str]:
    """Return the cells of a row, after its name."""
    (line,) = [line for line in table.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_the_tables_are_those_that_the_program_makes() -> None:
    assert fleet.written(PAGE) == PAGE, "run: python -m bench.fleet --write"


def test_the_sentences_say_what_the_tables_say() -> None:
    running = rollout.figures()["running"]
    half = int(row(running, "one DaemonSet, maxUnavailable: 1%")[0]) / rollout.FLEET
    assert "half of the fleet has the plugin then" in PAGE and 0.4 < half < 0.6
    days = float(row(running, "one DaemonSet, maxUnavailable: 1")[-1].removesuffix(" h")) / 24
    assert "needs six days if all is well" in PAGE and round(days) == 6
    assert row(running, "one DaemonSet, maxSurge: 1%")[:2] == ["10000", "10000"]
    assert "about 15 seconds of a replacement" in PAGE and rollout.Plan(waves=()).replacing == 15
    sizes, limits = ([getattr(wave, name) for wave in rollout.waves()] for name in ("nodes", "max_unavailable"))
    assert f"have {', '.join(map(str, sizes[:-1]))} and {sizes[-1]} nodes" in PAGE
    assert f"of {', '.join(map(str, limits[:-1]))} and {limits[-1]}, and an hour's pause" in PAGE
    assert f"medians of {len(rollout.SEEDS)} rollouts" in PAGE


def test_the_simulation_has_the_probe_and_the_limits_of_the_manifests() -> None:
    (found,) = [each["spec"] for each in build(DEPLOY / "kubernetes/overlays/outside") if each["kind"] == "DaemonSet"]
    (bridge,) = [each for each in found["template"]["spec"]["containers"] if each["name"] == "bridge"]
    probe = bridge["readinessProbe"]
    assert (probe["periodSeconds"], probe["failureThreshold"]) == (rollout.PERIOD, rollout.FAILURES)
    assert found["minReadySeconds"] == rollout.Plan(waves=()).min_ready
    assert f"`minReadySeconds`: {found['minReadySeconds']}," in PAGE.replace("\n", " ")


def test_every_figure_of_the_performance_page_that_is_used_is_there() -> None:
    known = fleet.performance()
    assert known["no plugin"] < fleet.event_with_two() < known["three plugins, preforked"]


def test_a_name_of_a_row_on_the_performance_page_is_of_one_row_only() -> None:
    rows = re.findall(r"^\| ([^|]+) \| [0-9.]+ ", fleet.FIGURES.read_text(), re.MULTILINE)
    assert rows and len(rows) == len(set(rows)), "bench.fleet reads figures by the names of their rows"


def test_each_table_has_its_place_once() -> None:
    assert sorted(re.findall(r"<!-- table (\w+) -->", PAGE)) == sorted(fleet.figures())
