"""The template of a v2 plugin, filled with a name: its own test, ruff, mypy, and a pod's life in `nri simulate`."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from tests.support.linters import run_module
from tests.support.v2_template import ROOT, TEMPLATE, filled, launchable


@pytest.fixture(params=["cpu-level", "a", "a-name-that-is-longer-than-most"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return filled(tmp_path, request.param).parent


def test_it_has_no_other_placeholders_and_these_files() -> None:
    texts = {path.name: path.read_text() for path in TEMPLATE.iterdir()}
    assert set(texts) == {"plugin.py.txt", "test_plugin.py.txt", "conf.json.txt", "README.md.txt"}
    found = {word for text in texts.values() for word in re.findall(r"@\w*@?", text)}
    assert found - {"@pytest"} == {"@name@", "@class@", "@module@"}
    assert len(texts["README.md.txt"].splitlines()) <= 10


def test_its_own_test_passes(folder: Path) -> None:
    assert re.search(
        r"^1\d passed", run_module(folder, "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"), re.MULTILINE
    )


def test_it_is_typed(folder: Path) -> None:
    modules = sorted(path.name for path in folder.glob("*.py"))
    run_module(folder, "mypy", "--strict", "--cache-dir", str(folder / ".cache"), *modules)


def test_it_passes_the_rules_of_this_project_and_its_format(folder: Path) -> None:
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]
    select = [rule for rule in rules["lint"]["select"] if not rule.startswith("D")]
    options = ["--isolated", f"--line-length={rules['line-length']}", f"--target-version={rules['target-version']}"]
    chosen = [f"--select={','.join(select)}", f"--ignore={','.join(rules['lint']['ignore'])}"]
    run_module(
        folder, "ruff", "check", *options, *chosen, "--per-file-ignores=test_*.py:S,test_*.py:PLR", "--no-cache", "."
    )
    run_module(folder, "ruff", "format", "--check", *options, "--no-cache", ".")


def test_a_runtime_starts_it_with_the_sample_configuration(tmp_path: Path) -> None:
    name = "cpu-level"
    source = filled(tmp_path, name)
    json.loads((source.parent / "conf.json").read_text())
    (tmp_path / "conf.d").mkdir()
    (source.parent / "conf.json").rename(tmp_path / f"conf.d/{name}.conf")
    plugin = tmp_path / f"10-{name}"
    launchable(source, plugin)
    annotation = f"level.{name}.example.com/container.app-0=middle"
    simulate = [
        "nri.cli.entry",
        "simulate",
        "--plugin",
        str(plugin),
        "--config-dir",
        "conf.d",
        "--annotation",
        annotation,
    ]
    shown = run_module(tmp_path, *simulate)
    assert re.search(r"^Configure .*\n  wants CreateContainer, StopContainer$", shown, re.MULTILINE), shown
    assert re.search(
        r"^CreateContainer .*\n  sets env -LEVEL, env LEVEL, linux\.resources\.cpu\.shares$", shown, re.MULTILINE
    ), shown
    assert "web-0/app-0 stops" in shown
