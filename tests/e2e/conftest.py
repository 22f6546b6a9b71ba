"""What the end-to-end tests need of the machine: root, and Debian packages; without them they are skipped."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.containerd import Release
from tests.e2e.enclosure import SYSTEM_PATH

# a program, and the Debian package that has it
PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "crun": "crun",
    "/bin/busybox": "busybox-static",
    "unshare": "util-linux",
}


@pytest.fixture(scope="session")
def need() -> Callable[..., None]:
    """`need("runc")` skips the test unless it runs as root and has runc, and what every test needs."""

    def check(*programs: str) -> None:
        if os.geteuid() != 0:
            pytest.skip("needs root")
        missing = [
            PACKAGES[p] for p in (*programs, "/bin/busybox", "unshare") if not shutil.which(p, path=SYSTEM_PATH)
        ]
        if missing:
            pytest.skip(f"needs the Debian package {', '.join(missing)}")

    return check


@pytest.fixture(scope="session")
def containerd_1_6(need: Callable[..., None]) -> Release:
    """Debian's containerd, which is of the last generation that runs v0.1 plugins for pods and containers."""
    need("containerd", "runc")
    release = Release.at(Path("/usr/bin"))
    if release.version[:2] != (1, 6):
        pytest.skip(f"needs containerd 1.6 (package containerd of bookworm), found {release.version}")
    return release
