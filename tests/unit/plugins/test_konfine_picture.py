"""The picture of who has which CPUs, as `nri status --cpus` prints it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.machines import MACHINES
from nri.cgroups.topology import Topology
from nri.cli.commands import nri
from nri.cli.cpus import WIDTH, Owners, draw, read
from tests.support.giving import GivingNode

PAGES = Path(__file__).parents[3]


def picture(node: GivingNode) -> list[str]:
    return draw(Owners(read(node.conf["run"])), Topology.read(node.sys))


def test_page_has_the_picture_of_such_a_node(tmp_path: Path) -> None:
    node = GivingNode(tmp_path, packages=2, cores=8, threads=2, isolated="14-15,30-31")
    node.conf |= {
        "systemReserved": [0, 16],
        "pools": [
            {"name": "batch", "max": 4, "classes": ["batch"]},
            {"name": "io", "cpus": "12-13", "classes": ["io"]},
        ],
    }
    batch: dict[str, Any] = {"annotations": {"qos.class": "batch"}, "cpu": {"shares": 2048}}
    for name, options in (
        ("web/web", {}),
        ("web/app", {}),
        ("db/db", {}),
        ("db/main", {"ask": 4}),
        ("cache/main", {"ask": "3+shared"}),
        ("net/fast", {"ask": 1}),
        ("job/one", batch),
        ("job/two", batch),
    ):
        node.start(name, **options)
    node.stop("db/main")
    assert "\n".join(picture(node)) in (PAGES / "docs/cpus.md").read_text()


@pytest.mark.parametrize("machine", sorted(MACHINES))
def test_each_machine_fits_into_80_columns_with_each_cpu_once(tmp_path: Path, machine: str) -> None:
    node = GivingNode(tmp_path, **MACHINES[machine])  # type: ignore[arg-type] # of one table
    node.start("web")
    node.start("db/main", ask=1, labels={"io.kubernetes.pod.name": "d\x1b[31m"})
    lines = picture(node)
    assert max(map(len, lines)) <= WIDTH
    assert not any("\x1b" in line for line in lines)
    rows = [line[5:] for line in lines[: lines.index("", 2)] if line[:5].strip().isdigit()]
    signs = "".join(rows).replace(" ", "").replace("|", "")
    assert (len(signs), signs.count("a")) == (int(lines[0].split()[0]), 1)


def test_further_containers_share_a_sign(tmp_path: Path) -> None:
    node = GivingNode(tmp_path, cores=50)
    for number in range(40):
        node.start(f"p{number}/main", ask=1)
    lines = picture(node)
    assert len([line for line in lines if line.startswith("+  ")]) == 6
    assert sum([line.count("+") for line in lines if line[:5].strip().isdigit()]) == 6


def test_command_prints_it_or_says_that_there_is_no_record(tmp_path: Path) -> None:
    node = GivingNode(tmp_path, cores=4)
    run = ["status", "--cpus", "--run", node.conf["run"]]
    none = CliRunner().invoke(nri, run)
    assert (none.exit_code, "no CPUs are given out here: " in none.output) == (1, True)
    node.start("db/main", ask=1)
    shown = CliRunner().invoke(nri, run)
    assert (shown.exit_code, "a  0  shop/db/main" in shown.output.replace("    ", "  ")) == (
        0,
        True,
    )
    document = json.loads(CliRunner().invoke(nri, [*run, "-o", "json"]).output)
    assert [entry["name"] for entry in document["containers"].values()] == ["shop/db/main"]
    both = CliRunner().invoke(nri, [*run, "--check"])
    assert "--check and --cpus exclude each other" in both.output


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"boot": "other"}, "it was of another boot"),
        ({"containers": {"/a": {"kind": "later"}}}, "is damaged; konfine's next event"),
        ({"incomplete": "there was none"}, "is damaged; konfine's next event"),
        (None, "is damaged: "),
        ({"x": 1}, ""),
    ],
)
def test_file_that_says_nothing_is_named(
    tmp_path: Path, change: dict[str, Any] | None, said: str
) -> None:
    node = GivingNode(tmp_path, cores=4)
    node.start("db/main", ask=1)
    node.record.write_text("{" if change is None else json.dumps(node.state() | change))
    shown = CliRunner().invoke(nri, ["status", "--cpus", "--run", node.conf["run"]])
    assert (shown.exit_code, said in shown.output) == (1 if said else 0, True)
