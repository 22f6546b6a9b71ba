"""The unit tests of cgroups and of the plugins, on the machine's own cgroups."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDERS = (
    "tests/unit/cgroups",
    "tests/unit/plugins",
    "tests/unit/skel",
    "tests/unit/testing/test_as_the_kernel.py",
)


def must_pass(versions: str, record_property: Callable[[str, object], None], *options: str) -> None:
    """Run the tests; they must pass, on these *versions* of the controllers, and leave no cgroup behind.

    :param options: for pytest.
    """
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "4",
        "-p",
        "no:cacheprovider",
        "-p",
        "nri.pytest_plugin",  # the project is not installed there
        "--timeout=600",
        *options,
        *FOLDERS,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout[-20000:], done.stderr[-2000:])
    assert done.returncode == 0
    summary = done.stdout[done.stdout.index("the kernel's cgroups: ") :].splitlines()
    record_property("summary", "\n".join(summary))
    assert summary[0].endswith(f" tests ran on {versions}")
    assert not list(Path("/sys/fs/cgroup").glob("**/nri-test-*"))
