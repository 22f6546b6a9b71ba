"""The schemas that ``$schema`` of the samples names: ``make install`` lays them down, and an editor can use them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from harness.json_schemas import PLACES

ROOT = Path(__file__).parents[2]
PREFIX = "file://"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make install` lays out, with the compiled binaries: the directory that is its DESTDIR."""
    folder = tmp_path_factory.mktemp("installed")
    for command in (["tools/binaries"], ["tools/install", str(folder)]):
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


def test_every_schema_is_there_under_the_name_that_upgrades_keep(installed: Path) -> None:
    folder = installed / "opt/nri/lib/schemas"
    assert {path.name for path in folder.iterdir()} == {f"{name}.schema.json" for name in PLACES}
    for name, package in PLACES.items():
        source = ROOT / package.replace(".", "/") / "schemas" / f"{name}.schema.json"
        assert (folder / source.name).read_bytes() == source.read_bytes()


def test_schema_of_each_sample_is_installed_and_accepts_it(installed: Path) -> None:
    files = [*(installed / "etc/nri/resource.d").iterdir(), *(ROOT / "conf/resource.d").iterdir()]
    files.append(ROOT / "deploy/systemd/v1bridge.json")
    assert len(files) > 5
    for file in files:
        value = json.loads(file.read_text())
        assert value["$schema"].startswith(PREFIX)
        schema = json.loads((installed / value["$schema"].removeprefix(PREFIX).lstrip("/")).read_text())
        Draft202012Validator.check_schema(schema)
        Draft202012Validator(schema).validate(value)  # a reference to another file would fail here
