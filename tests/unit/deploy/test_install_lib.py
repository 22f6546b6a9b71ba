"""The folders of binaries: an upgrade replaces a link, and keeps a folder that a process runs from."""

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.installing import ROOT, run, sleeper
from tests.support.waiting import SOON, wait_until

TOOLS = ROOT / "tools"
Start = Callable[..., subprocess.Popen[bytes]]


class Upgrades:
    """A folder of binaries that are built anew, and installed."""

    def __init__(self, root: Path) -> None:
        self.dist = root / "dist"
        self.dist.mkdir()
        self.nri = root / "opt/nri"
        self.lib = self.nri / "lib"
        sleeper(self.dist / "v1bridge")
        (self.dist / "_internal").mkdir()
        (self.dist / "_internal/link").symlink_to("../nri")
        self.build("1.2.3", "one")

    def build(self, version: str, content: str = "") -> None:
        (self.dist / "nri").write_text(
            f"#!/bin/sh\n[ $1 = --version ] && echo 'nri {version} (Python 3)'\n"
        )
        (self.dist / "nri").chmod(0o755)
        (self.dist / "_internal/a file").write_text(content)

    def rollback(self) -> list[str]:
        return run(TOOLS / "rollback", self.nri.parent.parent).stdout.splitlines()

    def install(self) -> str:
        """Install; return the name of the folder that is current now."""
        self.said = run(TOOLS / "install-lib", self.dist, self.nri).stdout
        return self.current

    def upgrade(self, content: str) -> str:
        self.build("1.2.3", content)
        return self.install()

    @property
    def folders(self) -> set[str]:
        return {path.name for path in self.nri.iterdir() if path.is_dir() and not path.is_symlink()}

    @property
    def current(self) -> str:
        return os.readlink(self.lib)

    @property
    def previous(self) -> str:
        return os.readlink(self.nri / "lib.previous")


@pytest.fixture
def upgrades(tmp_path: Path) -> Upgrades:
    return Upgrades(tmp_path)


def test_folder_is_named_by_version_and_content(upgrades: Upgrades) -> None:
    names = [upgrades.install()]
    assert re.fullmatch(r"lib\.1\.2\.3-[0-9a-f]{12}", names[0])
    names.append(upgrades.upgrade("two"))
    upgrades.build("2.0.0+g1a2b3c4", "two")
    names.append(upgrades.install())
    assert names[-1].startswith("lib.2.0.0+g1a2b3c4-")
    assert (upgrades.lib / "v1bridge").stat().st_mode & 0o777 == 0o755
    assert upgrades.lib.stat().st_mode & 0o777 == 0o755
    assert os.readlink(upgrades.lib / "_internal/link") == "../nri"
    # Another name of a file, another name and another target of a link are other contents.
    internal = upgrades.dist / "_internal"
    (internal / "a file").rename(internal / "b file")
    names.append(upgrades.install())
    (internal / "link").rename(internal / "other")
    names.append(upgrades.install())
    (internal / "other").unlink()
    (internal / "other").symlink_to("../v1bridge")
    names.append(upgrades.install())
    assert len({name.rpartition("-")[2] for name in names}) == 6
    for name in ("lib.mine", "lib.backup-2026"):
        (upgrades.nri / name).mkdir()
    upgrades.build("../../etc/x y")
    assert upgrades.install().startswith("lib.....etcx-")
    (upgrades.dist / "nri").write_text("#!/bin/sh\nexit 1\n")
    assert upgrades.install().startswith("lib.unknown-")
    assert {"lib.mine", "lib.backup-2026"} < upgrades.folders  # not made by this


@contextmanager
def always_there(path: Path) -> Iterator[None]:
    """Look for a file all the time; at no moment of the block may it be missing."""
    missed = []
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set():
            if not os.path.exists(path):
                missed.append(path)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    assert missed == []


def test_plugins_exist_throughout_upgrades_and_rollbacks(upgrades: Upgrades) -> None:
    upgrades.install()
    with always_there(upgrades.lib / "v1bridge"):
        for number in range(4):
            upgrades.upgrade(f"upgrade {number}")
            upgrades.rollback()


def test_same_content_again_changes_nothing(upgrades: Upgrades) -> None:
    def state() -> list[tuple[str, int, int]]:
        paths = [(str(path), path.lstat()) for path in upgrades.nri.rglob("*")]
        return sorted((path, status.st_ino, status.st_ctime_ns) for path, status in paths)

    upgrades.install()
    upgrades.upgrade("two")
    before = state()
    for path in upgrades.dist.rglob("*"):
        os.utime(path, follow_symlinks=False)
    (upgrades.dist / ".made-from").write_text("another time")
    upgrades.install()
    assert upgrades.said == f"{upgrades.current} is there already\n"
    assert state() == before


def test_folder_in_use_is_kept_and_its_process_named(upgrades: Upgrades, start: Start) -> None:
    first = upgrades.install()
    process = start(upgrades.lib / "v1bridge", "1000")
    for content in ("two", "three", "four"):
        upgrades.upgrade(content)
        running = f"{upgrades.nri}/{first}/v1bridge (process {process.pid}), which the runtime has launched"
        assert f"running   {running}: restart the runtime\n" in upgrades.said
    assert first in upgrades.folders
    assert len(upgrades.folders) == 3
    # Where it is mounted, or below which directory it is installed, does not matter.
    upgrades.nri = upgrades.nri.rename(upgrades.nri.with_name("elsewhere"))
    upgrades.lib = upgrades.nri / "lib"
    upgrades.upgrade("five")
    assert f"kept      {upgrades.nri}/{first}, which a process runs from" in upgrades.said
    assert first in upgrades.folders
    process.kill()
    process.wait()
    upgrades.upgrade("six")
    assert first not in upgrades.folders
    assert len(upgrades.folders) == 2


def test_changed_folder_is_not_taken_for_what_its_name_says(upgrades: Upgrades) -> None:
    first = upgrades.install()
    (upgrades.nri / first / "_internal/a file").write_text("changed")
    upgrades.upgrade("two")
    assert upgrades.upgrade("one") == f"{first}.again"
    assert (upgrades.lib / "_internal/a file").read_text() == "one"


def test_killed_upgrade_is_cleaned_up_later(upgrades: Upgrades) -> None:
    first = upgrades.install()
    (upgrades.dist / "nri").write_text("#!/bin/sh\nexit 1\n")
    killed = "cp() { mkdir $3/_internal; kill -9 $$; }\n" + (TOOLS / "install-lib").read_text()
    done = run("sh", "-c", killed, TOOLS / "install-lib", upgrades.dist, upgrades.nri, check=False)
    assert done.returncode == -9
    assert upgrades.current == first
    (left,) = upgrades.folders - {first}
    assert left.startswith(".lib.")
    upgrades.upgrade("two")
    assert left in upgrades.folders  # it may belong to another one that is still at work
    os.utime(upgrades.nri / left, (1, 1))
    assert upgrades.upgrade("three") != first
    assert left not in upgrades.folders


def test_of_two_upgrades_at_once_each_keeps_its_folder(
    upgrades: Upgrades, tmp_path: Path, start: Start
) -> None:
    """One that has made its folder, and not yet the link to it, may not lose it to another."""
    upgrades.install()
    slow = tmp_path / "slow"
    shutil.copytree(upgrades.dist, slow)
    (slow / "_internal/a file").write_text("slow")
    # It waits where its folder is there and the link is not.
    until_told = f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done"
    waiting = f'mv() {{ command mv "$@"; touch {tmp_path}/made; {until_told}; }}\n'
    script = waiting + (TOOLS / "install-lib").read_text()
    first = start("sh", "-c", script, TOOLS / "install-lib", slow, upgrades.nri)
    assert wait_until((tmp_path / "made").exists)
    upgrades.build("1.2.3", "two")
    second = start(TOOLS / "install-lib", upgrades.dist, upgrades.nri)
    try:
        assert wait_until(lambda: second.poll() is not None or is_waiting_for_a_lock(second.pid))
    finally:
        (tmp_path / "go").touch()
        assert (first.wait(SOON), second.wait(SOON)) == (0, 0)
    assert (upgrades.lib / "_internal/a file").read_text() == "two"
    assert (upgrades.nri / "lib.previous/_internal/a file").read_text() == "slow"


def is_waiting_for_a_lock(pid: int) -> bool:
    """Return whether a child of the process is in flock(2)."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return any(Path(f"/proc/{child}/comm").read_text() == "flock\n" for child in children)
    except OSError:
        return False  # a child has ended in between


@pytest.mark.parametrize("obstacle", ["directory", "link"])
def test_obstacle_in_place_of_the_link_is_named_and_kept(upgrades: Upgrades, obstacle: str) -> None:
    upgrades.nri.mkdir(parents=True)
    if obstacle == "directory":
        upgrades.lib.mkdir()
        wrong = f"found a directory at {upgrades.lib}, expected a link or nothing; move it away"
    else:
        upgrades.lib.symlink_to("/srv/nri")
        wrong = f"found a link to /srv/nri at {upgrades.lib}, expected one to lib.VERSION-HASH; move it away"
    done = run(TOOLS / "install-lib", upgrades.dist, upgrades.nri, check=False)
    assert (done.returncode, done.stderr) == (1, f"install-lib: {wrong}\n")
    assert os.listdir(upgrades.nri) == ["lib"]


# Going back


def test_rollback_swaps_the_two_folders(upgrades: Upgrades) -> None:
    first = upgrades.install()
    upgrades.build("1.2.4", "two")
    second = upgrades.install()
    for before, now in ((second, first), (first, second), (second, first)):
        assert upgrades.rollback() == [
            f"before    lib: {before}, lib.previous: {now}",
            f"now       lib: {now}, lib.previous: {before}",
        ]
        assert (upgrades.current, upgrades.previous) == (now, before)
    upgrades.install()  # the next upgrade works as before
    assert (upgrades.current, upgrades.previous) == (second, first)
    assert upgrades.folders == {first, second}
    assert not list(upgrades.nri.glob(".*"))


def test_rollback_without_a_previous_version_is_an_error(upgrades: Upgrades) -> None:
    def refused() -> str:
        done = run(TOOLS / "rollback", upgrades.nri.parent.parent, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        return done.stderr

    assert refused().startswith(f"rollback: no previous version in {upgrades.nri}: ")
    upgrades.install()
    expected = "expected lib.previous, a link to another folder lib.VERSION-HASH than that of lib"
    assert (
        refused()
        == f"rollback: no previous version in {upgrades.nri}: {expected} ({upgrades.current})\n"
    )
    second = upgrades.upgrade("two")
    shutil.rmtree(upgrades.nri / upgrades.previous)
    assert "no previous version" in refused()
    assert upgrades.current == second


def test_rollback_names_plugins_that_only_the_newer_version_has(upgrades: Upgrades) -> None:
    (upgrades.nri / "bin").mkdir(parents=True)
    for plugin in ("older", "newer", "both"):
        (upgrades.nri / "bin" / plugin).symlink_to(f"../lib/{plugin}")
    (upgrades.nri / "bin/mine").symlink_to("/srv/mine")
    for plugin in ("older", "both"):
        shutil.copy(upgrades.dist / "nri", upgrades.dist / plugin)
    first = upgrades.install()
    (upgrades.dist / "older").rename(upgrades.dist / "newer")
    upgrades.install()
    named = [line for line in upgrades.rollback() if line.startswith("missing")]
    missing = (
        f"{upgrades.nri}/bin/newer: {first} does not have it; what is configured and missing fails"
    )
    assert named == [f"missing   {missing}"]
    named = [line for line in upgrades.rollback() if line.startswith("missing")]
    assert [line.split(":")[0] for line in named] == [f"missing   {upgrades.nri}/bin/older"]


def test_rollback_names_a_bridge_of_the_newer_version(upgrades: Upgrades, start: Start) -> None:
    upgrades.install()
    upgrades.build("1.2.3", "two")
    sleeper(upgrades.dist / "nri")
    second = upgrades.nri / upgrades.install()
    start(upgrades.lib / "nri", "1000")
    bridge = start("bash", "-c", f"exec -a 'nri bridge' {upgrades.lib}/nri 1000")
    assert wait_until(lambda: os.path.samefile(f"/proc/{bridge.pid}/exe", upgrades.lib / "nri"))
    running = [line for line in upgrades.rollback() if line.startswith("running")]
    assert running == [
        f"running   {second}/nri bridge (process {bridge.pid}): restart what runs it"
    ]
