"""The fixtures in a test run of their own: what they give, which marker chooses, and that nothing loads early."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nri

ROOT = str(Path(nri.__file__).parents[1])
TESTS = """
import sys

import pytest

EARLY = sorted(name for name in sys.modules if name.startswith(("nri.testing", "nri.pytest_plugin")))


def test_nothing_was_loaded():
    assert EARLY == ["nri.pytest_plugin"]


def test_the_default(nri_cgroups, nri_pod):
    assert (nri_cgroups.kind, nri_cgroups.driver, nri_cgroups.cpus) == ("v2", "cgroupfs", "0-7")
    nri_cgroups.add(nri_pod.container("web"))


@pytest.mark.nri_cgroups("v1", driver="systemd", cpus="0-3")
def test_a_marker(nri_pod, nri_cgroups):
    assert (nri_cgroups.kind, nri_cgroups.driver, nri_cgroups.cpus) == ("v1", "systemd", "0-3")
    assert nri_pod.container("web").cgroups_path.count(":") == 2
    nri_cgroups.add(nri_pod)


@pytest.mark.parametrize("nri_cgroups", ["v1", "v2", {"kind": "hybrid"}], indirect=True)
def test_a_parameter(nri_cgroups, nri_pod):
    nri_cgroups.add(nri_pod.container("web"))
    print(nri_cgroups.kind)


@pytest.mark.nri_cgroups(driver="systemd")
def test_a_pod_alone(nri_pod):
    assert nri_pod.cgroup_driver == "systemd"
"""


def test_the_fixtures(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    options = ["-p", "no:nri", "-p", "nri.pytest_plugin"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        *options,
        "--strict-markers",
        "-p",
        "no:cacheprovider",
        "-q",
    ]
    environment = {"PYTHONPATH": ROOT, "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [*command, "-W", "error", "test_it.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 passed" in done.stdout
