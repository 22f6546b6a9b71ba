"""What `nri new` makes passes its own tests and the usual checks, and runs: without a node, again at every save."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import tomllib
from pathlib import Path
from typing import IO

import pytest

from nri.authoring.new import KINDS, make, module_name
from tests.integration.cli.running import COMMAND, SOURCE
from tests.support.linters import run_module
from tests.support.v2_template import ROOT, filled, launchable
from tests.support.waiting import SOON


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A folder with a plugin of each kind, v0.1 and v2 apart; one has a module of another name."""
    for folder in ("v01", "v2"):
        (tmp_path / folder).mkdir()
    for kind in KINDS:
        make(kind, kind, str(tmp_path / ("v2" if kind == "v2" else "v01")))
    make("json", "bare", str(tmp_path / "v01"))
    for name in ("a", "a-name-that-is-longer-than-most"):
        filled(tmp_path / "v2", name)
    return tmp_path


def test_each_kind_passes_its_own_tests_and_the_usual_checks(made: Path) -> None:
    said = run_module(made, "pytest", "-q", "-W", "error", "-p", "no:cacheprovider")
    assert re.search(r"^\d+ passed", said, re.MULTILINE)
    modules = sorted(str(path.relative_to(made)) for path in made.rglob("*.py"))
    assert len(modules) == 2 * (len(KINDS) + 3)
    run_module(made, "mypy", "--strict", "--cache-dir", str(made / "cache"), *modules)
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]
    select = [rule for rule in rules["lint"]["select"] if not rule.startswith("D")]
    chosen = [f"--select={','.join(select)}", f"--ignore={','.join(rules['lint']['ignore'])}"]
    form = ["--line-length=118", f"--target-version={rules['target-version']}"]
    of_project = [*form, *chosen, "--per-file-ignores=test_*.py:S,test_*.py:PLR"]
    for folder in made.glob("v*/*"):
        options = of_project if folder.parent.name == "v2" else []
        run_module(folder, "ruff", "check", "--isolated", "--no-cache", *options, ".")


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_runs_with_the_entry_beside_it(made: Path, kind: str) -> None:
    folder = made / ("v2" if kind == "v2" else "v01") / kind
    assert kind[:5] in run_module(folder, "nri.cli.entry", "simulate", f"{module_name(kind)}.py")


def test_runtime_starts_the_v2_plugin_with_its_configuration(tmp_path: Path) -> None:
    source = filled(tmp_path, "cpu-level")
    json.loads((source.parent / "conf.json").read_text())
    (tmp_path / "conf.d").mkdir()
    (source.parent / "conf.json").rename(tmp_path / "conf.d/cpu-level.conf")
    plugin = tmp_path / "10-cpu-level"
    launchable(source, plugin)
    annotation = "level.cpu-level.example.com=middle"
    words = ("simulate", str(plugin), "--config-dir", "conf.d", "--annotation", annotation)
    shown = run_module(tmp_path, "nri.cli.entry", *words)
    changed = "env -LEVEL, env LEVEL, linux.resources.cpu.shares"
    assert re.search(
        r"^Configure .*\n  wants CreateContainer, StopContainer$", shown, re.MULTILINE
    ), shown
    assert re.search(rf"^CreateContainer .*\n  sets {re.escape(changed)}$", shown, re.MULTILINE), (
        shown
    )
    assert "web-0/app-0 stops" in shown


PLUGIN = """from nri import skel


class Greeter(skel.Plugin):
    type = "greeter"

    def invoke(self, request):
        print("hello")
        return request.new_result(self.type)


if __name__ == "__main__":
    skel.main(Greeter())
"""


def until_it_waits(output: IO[str]) -> list[str]:
    """Return the lines before the one that says so."""
    lines = itertools.takewhile(
        lambda line: not line.startswith("-- exit status 0; waiting"), output
    )
    return [line.strip() for line in lines]


def test_simulate_runs_again_at_every_save(tmp_path: Path) -> None:
    file = tmp_path / "greeter.py"

    def save(text: str) -> None:
        (tmp_path / "new").write_text(text)
        (tmp_path / "new").rename(file)

    save(PLUGIN)
    other = tmp_path / "bin/other"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho '{}'\n")
    other.chmod(0o755)
    command = [*COMMAND, "simulate", "--watch", str(file), str(other)]
    environment = {"PYTHONPATH": SOURCE, "PATH": os.defpath, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        shown = until_it_waits(watching.stdout)
        assert (shown[1].split()[:4], shown[2]) == (["create", "web-0", "greeter", "ok"], "hello")
        save(PLUGIN.replace("hello", "goodbye"))
        assert until_it_waits(watching.stdout)[2] == "goodbye"
        other.write_text('#!/bin/sh\necho \'{"metadata": {"a": "new"}}\'\n')
        assert any("a=new" in line for line in until_it_waits(watching.stdout))
        watching.send_signal(signal.SIGINT)
        assert watching.wait(SOON) == 0
