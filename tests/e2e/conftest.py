"""What the end-to-end tests need of the machine: root, and Debian packages; without them they are skipped."""

import os
import shutil
import subprocess
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
    "podman": "podman",
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


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make install` lays out, with the compiled binaries: the directory that is its DESTDIR."""
    root = Path(__file__).parent.parent.parent
    destination = tmp_path_factory.mktemp("install")
    for command in (["tools/binaries"], ["tools/install", str(destination)]):
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.fail(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}", pytrace=False)
    return destination


@pytest.fixture
def two_cpus() -> None:
    """Skips the test where there is no CPU to keep and another to give."""
    if (os.cpu_count() or 1) < 2:
        pytest.skip("needs two CPUs")
