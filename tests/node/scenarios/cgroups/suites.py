"""The unit and integration tests of cgroups and of the plugins, on the kernel's own cgroup v2 files."""

from __future__ import annotations

import subprocess
import sys

FOLDERS = ("tests/unit/cgroups", "tests/unit/plugins", "tests/unit/skel")


def test_the_suites_pass_on_cgroup_v2() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "4", "-p", "no:cacheprovider", "--timeout=600", *FOLDERS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout[-20000:], done.stderr[-2000:])
    assert done.returncode == 0
