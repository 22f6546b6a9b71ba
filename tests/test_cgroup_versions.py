"""Tests of other versions of cgroups are left out and counted, on a test run of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.real_cgroups import serving

CASES = """
import pytest

pytestmark = pytest.mark.kernel_cgroups

def test_of_any_version(): pass

@pytest.mark.kernel_cgroups(cpuset=1)
def test_of_v1(): pass

@pytest.mark.kernel_cgroups(cpuset=2)
def test_of_v2(): pass
"""


@pytest.mark.parametrize("processes", [0, 2])
def test_a_test_of_another_version_is_left_out_and_counted(tmp_path: Path, processes: int) -> None:
    (tmp_path / "test_cases.py").write_text(CASES)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = kernel_cgroups: as in pyproject.toml\n")
    (tmp_path / "conftest.py").write_text(Path(__file__).with_name("conftest.py").read_text())

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-n", str(processes)],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_ADDOPTS": "", "PYTHONPATH": str(Path(__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=True,
    )

    mounts = serving()
    if isinstance(mounts, str):  # each test gives its reason where it is skipped
        assert "3 tests ran on no version" in done.stdout
        assert "left out" not in done.stdout
    else:
        cpu, cpuset = mounts["cpu"].version, mounts["cpuset"].version
        assert f"the kernel's cgroups: 2 tests ran on cpu v{cpu} and cpuset v{cpuset}\n" in done.stdout
        assert f"1 left out, for other versions: test_cases.py::test_of_v{3 - cpuset}\n" in done.stdout
