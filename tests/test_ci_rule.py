"""The rule of conftest.py, on a test run of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = """
import pytest

@pytest.mark.runtime
def test_runtime(): pytest.skip("needs the Debian package runc")

@pytest.mark.prometheus
@pytest.mark.skipif(True, reason="needs root")
def test_marked(): pass

def test_other(): pytest.skip("not here")

@pytest.mark.runtime
@pytest.mark.xfail(strict=True)
def test_known_fault(): assert False
"""


@pytest.mark.parametrize(
    ("ci", "outcome"),
    # one is skipped while it runs and fails, the other before and is an error; both end the run with status 1
    [
        ("true", "1 failed, 1 skipped, 1 xfailed, 1 error"),
        ("", "3 skipped, 1 xfailed"),
        ("false", "3 skipped, 1 xfailed"),
    ],
)
def test_in_ci_a_skipped_test_with_a_runtime_or_prometheus_has_failed(
    tmp_path: Path, ci: str, outcome: str
) -> None:
    (tmp_path / "test_cases.py").write_text(CASES)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nmarkers = runtime: a real runtime\n  prometheus: a real one\n"
    )
    rule = Path(__file__).with_name("conftest.py").read_text()
    (tmp_path / "conftest.py").write_text(rule)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=tmp_path,
        env={
            **os.environ,
            "CI": ci,
            "PYTEST_ADDOPTS": "",
            "PYTHONPATH": str(Path(__file__).parent.parent),
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert outcome in done.stdout
    assert done.returncode == (1 if ci == "true" else 0)
    for reason in ("needs the Debian package runc", "needs root"):
        assert reason in done.stdout
