"""Rules for all tests, and the compiled executables.

Where everything is installed, in CI, a skipped test with a real runtime, Prometheus or kubectl has failed. The
caller's umask does not decide what modes the files of a test have, and ``nohup`` or a shell's ``&`` do not decide
which signals its processes ignore. The version of the machine's cgroups decides which tests of the kernel's own run:
see tests/support/cgroup_versions.py.
"""

import os
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.cgroup_versions import (
    pytest_collection_modifyitems,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_testnodedown,
)

__all__ = [
    "pytest_collection_modifyitems",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
    "pytest_testnodedown",
]


NEVER_SKIPPED_IN_CI = ("runtime", "prometheus", "kubectl")
"""The markers of these tests."""


def pytest_configure() -> None:
    # No verdict depends on time; in CI none depends on chance. `make test` and `make fuzz` go on searching.
    settings.register_profile("nri", deadline=None, derandomize=os.environ.get("CI") == "true")
    settings.load_profile("nri")
    os.environ.setdefault("COLUMNS", "80")  # what commands print is compared with pages for people
    os.umask(0o022)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    is_marked = any(item.get_closest_marker(name) for name in NEVER_SKIPPED_IN_CI)
    # An expected failure is reported as skipped, too.
    is_skipped = report.skipped and not hasattr(report, "wasxfail")
    if is_skipped and os.environ.get("CI") == "true" and is_marked:
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        report.outcome = "failed"
        report.longrepr = f"this test must not be skipped in CI: {why}"
    return report


@pytest.fixture(scope="session")
def binaries() -> Path:
    """The folder of the compiled executables, which are built if the sources have changed."""
    root = Path(__file__).parent.parent
    done = subprocess.run([root / "tools/binaries"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.fail(f"tools/binaries failed:\n{done.stdout}{done.stderr}", pytrace=False)
    return root / "dist/nri"
