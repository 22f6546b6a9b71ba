"""What the end-to-end tests need of the machine: root, Debian and its mirror; without them they are skipped."""

import functools
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import debian
from harness.containerd import cgroups, releases
from harness.containerd.bridged import LOG, configure, connected, log, prepared
from harness.containerd.cri import Cri
from harness.containerd.enclosure import SYSTEM_PATH
from harness.containerd.instance import Containerd, Release
from tests.support.real_cgroups import one_gives_out_cpus
from tests.support.waiting import until

ROOT = Path(__file__).parent.parent.parent
CACHE = ROOT / ".cache/containerd"

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
        if "cpu" not in cgroups.hierarchies():
            pytest.skip(
                "needs cgroup v1 hierarchies: these tests read their knobs, and this machine has v2 alone"
            )
        missing = [
            PACKAGES[p]
            for p in (*programs, "/bin/busybox", "unshare")
            if not shutil.which(p, path=SYSTEM_PATH)
        ]
        if missing:
            pytest.skip(f"needs the Debian package {', '.join(missing)}")

    return check


@pytest.fixture(scope="session")
def find_containerd(need: Callable[..., None]) -> Callable[..., Release]:
    """`find_containerd(1, 7)` is a containerd of that generation, the machine's own or Debian's, or skips."""

    @functools.cache
    def find(*generation: int) -> Release | str:
        try:
            return releases.find(generation, cache=CACHE, pauses=debian.PAUSES)
        except debian.UnavailableError as error:
            return str(error)

    def find_or_skip(*generation: int) -> Release:
        need("runc")
        found = find(*generation)
        if isinstance(found, str):
            pytest.skip(found)
        return found

    return find_or_skip


@pytest.fixture(scope="session")
def containerd_1_6(find_containerd: Callable[..., Release]) -> Release:
    """The last generation that runs v0.1 plugins for pods and containers; it has no NRI v2."""
    return find_containerd(1, 6)


@pytest.fixture(scope="session")
def containerd_1_7(find_containerd: Callable[..., Release]) -> Release:
    """The first generation with NRI v2; it runs no v0.1 plugins."""
    return find_containerd(1, 7)


@pytest.fixture(scope="session")
def containerd_2(find_containerd: Callable[..., Release]) -> Release:
    """NRI v2, and v0.1 plugins for the pod sandbox only."""
    return find_containerd(2)


@pytest.fixture(scope="session", params=["containerd_1_7", "containerd_2"])
def containerd_v2(request: pytest.FixtureRequest) -> Release:
    """Each generation with NRI v2."""
    release: Release = request.getfixturevalue(request.param)
    return release


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make install` lays out, with the compiled binaries: the directory that is its DESTDIR."""
    destination = tmp_path_factory.mktemp("install")
    for command in (["tools/binaries"], ["tools/install", str(destination)]):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.fail(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}", pytrace=False)
    return destination


@pytest.fixture
def two_cpus() -> Iterator[None]:
    """One CPU to keep and another to give; the test is skipped where there is none, and no other gives any out."""
    if (os.cpu_count() or 1) < 2:
        pytest.skip("needs two CPUs")
    with one_gives_out_cpus():
        yield


@pytest.fixture
def fresh_containerd(containerd_v2: Release, installed: Path) -> Iterator[Containerd]:
    """A containerd of each generation with NRI v2, which has launched the bridge: for a test that breaks them."""
    with Containerd(release=containerd_v2, prepare=prepared(installed)) as containerd:
        yield containerd
        print(log(containerd))  # shown when the test fails


@pytest.fixture(scope="module")
def shared_containerd(containerd_v2: Release, installed: Path) -> Iterator[Containerd]:
    """The same for the tests of a module."""
    with Containerd(release=containerd_v2, prepare=prepared(installed)) as containerd:
        # Before 1.7.26 containerd does not synchronize a bridge that it launches.
        until(
            lambda: connected(containerd) == 1 or containerd.release.version < (1, 7, 26),
            "the bridge",
        )
        yield containerd


@pytest.fixture
def containerd(shared_containerd: Containerd) -> Iterator[Containerd]:
    """The module's containerd, without the plugins and the log of earlier tests."""
    bin_dir = shared_containerd.enclosure.opt_nri / "bin"
    installed = set(os.listdir(bin_dir))
    os.truncate(shared_containerd.enclosure.root / LOG, 0)
    yield shared_containerd
    print(log(shared_containerd))  # shown when the test fails
    configure(shared_containerd)
    for name in set(os.listdir(bin_dir)) - installed:
        (bin_dir / name).unlink()


@pytest.fixture
def cri(containerd: Containerd) -> Iterator[Cri]:
    """A client of the module's containerd; its pods are removed after the test, without plugins."""
    with containerd.cri() as cri:
        yield cri
        configure(containerd)
        cri.remove_pods()
