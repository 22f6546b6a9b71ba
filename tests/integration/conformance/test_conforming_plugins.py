"""The plugins of this project, in Python and compiled, and the examples in other languages keep the contract."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from nri.testing.conformance import CHECKS, FAILS, HOLDS, assert_conforms, check, report
from tests.support import page_examples
from tests.support.cgroup_node import install_own
from tests.support.host import Host

ROOT = Path(__file__).parents[3]
PLUGINS = (
    "clearcfs",
    "konfine",
    "logger",
    "device-injector",
    "hook-injector",
    "ulimit-adjuster",
    "qos",
)


def keeps_all(path: Path, *, but: tuple[str, ...] = ()) -> None:
    """``but`` names the checks that can't judge it."""
    outcomes = check(path)
    others = [outcome.id for outcome in outcomes if outcome.verdict != HOLDS]
    assert others == [*but], report(outcomes)
    assert FAILS not in [outcome.verdict for outcome in outcomes], report(outcomes)


@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_sample_plugin_keeps_every_rule(host: Host, plugin: str) -> None:
    keeps_all(install_own(host, plugin), but=("resident",))  # it is a script


@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_compiled_sample_plugin_keeps_every_rule(binaries: Path, plugin: str) -> None:
    keeps_all(binaries / plugin)


def test_the_sample_plugins_are_all_there_are(binaries: Path) -> None:
    compiled = {
        path.name for path in binaries.iterdir() if path.is_file() and os.access(path, os.X_OK)
    }
    assert set(PLUGINS) == {
        name for name in compiled if not name.startswith("nri") and name != "v1bridge"
    }


def test_the_compiled_command_has_the_checks(binaries: Path) -> None:
    command = [f"{binaries}/nri", "conformance", f"{binaries}/clearcfs"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == f"{len(CHECKS)} checks: {len(CHECKS)} hold: it conforms"


def test_the_example_in_c_keeps_every_rule(tmp_path: Path) -> None:
    keeps_all(page_examples.c(tmp_path), but=("resident",))  # which nri.skel alone has


def test_the_example_in_shell_conforms(tmp_path: Path) -> None:
    assert_conforms(page_examples.shell(tmp_path))


def test_the_example_in_shell_pleases_shellcheck(tmp_path: Path) -> None:
    program = shutil.which("shellcheck")
    if program is None:
        pytest.skip("shellcheck is not installed")
    done = subprocess.run(
        [program, page_examples.shell(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.stdout == ""


def test_smallest_plugin_breaks_what_it_leaves_out(tmp_path: Path) -> None:
    """The reference of the benchmark answers anything, so a broken request is lost on it."""
    page_examples.need("cc", "gcc")
    noop = tmp_path / "noop"
    subprocess.run(["cc", "-O2", "-o", noop, ROOT / "bench/noop.c"], check=True)
    broken = {outcome.id for outcome in check(noop) if outcome.verdict == FAILS}
    assert broken == {"broken"}
