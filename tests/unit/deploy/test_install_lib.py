"""The folders of binaries: an upgrade replaces a link, and keeps a folder that a process runs from."""

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.installing import ROOT, run, sleeper
from tests.support.waiting import SOON, wait_until

TOOLS = ROOT / "tools"


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
        (self.dist / "nri").write_text(f"#!/bin/sh\n[ $1 = --version ] && echo 'nri {version} (Python 3)'\n")
        (self.dist / "nri").chmod(0o755)
        (self.dist / "_internal/a file").write_text(content)

    def rollback(self) -> str:
        return run(TOOLS / "rollback", self.nri.parent.parent).stdout

    def install(self) -> str:
        return run(TOOLS / "install-lib", self.dist, self.nri).stdout

    @property
    def folders(self) -> set[str]:
        return {path.name for path in self.nri.iterdir() if path.is_dir() and not path.is_symlink()}

    @property
    def current(self) -> str:
        return os.readlink(self.lib)


@pytest.fixture
def upgrades(tmp_path: Path) -> Upgrades:
    return Upgrades(tmp_path)


def test_a_folder_is_named_by_version_and_content(upgrades: Upgrades) -> None:
    upgrades.install()
    first = upgrades.current
    assert re.fullmatch(r"lib\.1\.2\.3-[0-9a-f]{12}", first)
    upgrades.build("1.2.3", "two")
    upgrades.install()
    assert upgrades.current != first
    upgrades.build("2.0.0+g1a2b3c4", "two")
    upgrades.install()
    assert upgrades.current.startswith("lib.2.0.0+g1a2b3c4-")
    assert (upgrades.lib / "v1bridge").stat().st_mode & 0o777 == 0o755
    assert upgrades.lib.stat().st_mode & 0o777 == 0o755
    assert os.readlink(upgrades.lib / "_internal/link") == "../nri"


def test_a_file_or_a_link_with_another_name_or_end_is_another_content(upgrades: Upgrades) -> None:
    upgrades.install()
    seen = [upgrades.current]
    (upgrades.dist / "_internal/a file").rename(upgrades.dist / "_internal/b file")
    upgrades.install()
    seen.append(upgrades.current)
    (upgrades.dist / "_internal/link").rename(upgrades.dist / "_internal/other")
    upgrades.install()
    seen.append(upgrades.current)
    (upgrades.dist / "_internal/other").unlink()
    (upgrades.dist / "_internal/other").symlink_to("../v1bridge")
    upgrades.install()
    seen.append(upgrades.current)
    assert len(set(seen)) == 4


@contextmanager
def always_there(path: Path) -> Iterator[None]:
    """Look for a file all the time; at no moment of the block may it be missing."""
    missed = []
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set():
            if not os.path.exists(path):
                missed.append(time.monotonic())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    assert missed == []


def test_at_no_moment_of_an_upgrade_is_there_no_plugin(upgrades: Upgrades) -> None:
    upgrades.install()
    with always_there(upgrades.lib / "v1bridge"):
        for number in range(5):
            upgrades.build("1.2.3", f"upgrade {number}")
            upgrades.install()


def test_a_version_that_cannot_be_told_or_is_no_name_is_no_obstacle(upgrades: Upgrades) -> None:
    upgrades.build("../../etc/x y")
    upgrades.install()
    assert upgrades.current.startswith("lib.....etcx-")
    (upgrades.dist / "nri").write_text("#!/bin/sh\nexit 1\n")
    upgrades.install()
    assert upgrades.current.startswith("lib.unknown-")


def test_the_same_content_again_changes_nothing(upgrades: Upgrades) -> None:
    upgrades.install()
    upgrades.build("1.2.3", "two")
    upgrades.install()
    before = sorted((str(path), path.lstat().st_ino, path.lstat().st_ctime_ns) for path in upgrades.nri.rglob("*"))
    for path in upgrades.dist.rglob("*"):
        os.utime(path, follow_symlinks=False)
    (upgrades.dist / ".made-from").write_text("another time")
    assert upgrades.install() == f"{upgrades.current} is there already\n"
    after = sorted((str(path), path.lstat().st_ino, path.lstat().st_ctime_ns) for path in upgrades.nri.rglob("*"))
    assert after == before


def test_a_folder_that_a_process_runs_from_stays_for_as_long_as_it_does(upgrades: Upgrades) -> None:
    upgrades.install()
    first = upgrades.current
    process = subprocess.Popen([upgrades.lib / "v1bridge", "1000"])
    try:
        for content in ("two", "three", "four"):
            upgrades.build("1.2.3", content)
            upgrades.install()
        assert first in upgrades.folders
        assert len(upgrades.folders) == 3
        # Where it is mounted, or below which directory it is installed, does not matter.
        upgrades.nri.rename(upgrades.nri.with_name("elsewhere"))
        upgrades.nri = upgrades.nri.with_name("elsewhere")
        upgrades.lib = upgrades.nri / "lib"
        upgrades.build("1.2.3", "five")
        assert f"kept      {upgrades.nri}/{first}, which a process runs from" in upgrades.install()
        assert first in upgrades.folders
    finally:
        process.kill()
        process.wait()
    upgrades.build("1.2.3", "six")
    upgrades.install()
    assert first not in upgrades.folders
    assert len(upgrades.folders) == 2


def test_a_folder_that_somebody_changed_is_not_taken_for_what_its_name_says(upgrades: Upgrades) -> None:
    upgrades.install()
    first = upgrades.current
    (upgrades.nri / first / "_internal/a file").write_text("changed")
    upgrades.build("1.2.3", "two")
    upgrades.install()
    upgrades.build("1.2.3", "one")
    upgrades.install()
    assert upgrades.current == f"{first}.again"
    assert (upgrades.lib / "_internal/a file").read_text() == "one"


def test_an_upgrade_that_is_broken_off_leaves_what_there_was_and_is_cleared_away_later(upgrades: Upgrades) -> None:
    upgrades.install()
    first = upgrades.current
    (upgrades.dist / "nri").write_text("#!/bin/sh\nexit 1\n")
    killed = "cp() { mkdir $3/_internal; kill -9 $$; }\n" + (TOOLS / "install-lib").read_text()
    command: list[str | Path] = ["sh", "-c", killed, TOOLS / "install-lib", upgrades.dist, upgrades.nri]
    done = subprocess.run(command, check=False)
    assert done.returncode == -9
    assert upgrades.current == first
    (left,) = upgrades.folders - {first}
    assert left.startswith(".lib.")
    upgrades.build("1.2.3", "two")
    upgrades.install()
    assert left in upgrades.folders  # it may belong to another one that is still at work
    upgrades.build("1.2.3", "three")
    os.utime(upgrades.nri / left, (1, 1))
    upgrades.install()
    assert left not in upgrades.folders
    assert upgrades.current != first


def test_upgrades_at_once_leave_one_of_them(upgrades: Upgrades, tmp_path: Path) -> None:
    """One that has made its folder, and not yet the link to it, may not lose it to another."""
    upgrades.install()
    slow = tmp_path / "slow"
    shutil.copytree(upgrades.dist, slow)
    (slow / "_internal/a file").write_text("slow")
    # It waits where its folder is there and the link is not.
    script = (TOOLS / "install-lib").read_text()
    waiting = (
        f'mv() {{ command mv "$@"; touch {tmp_path}/made; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; }}\n'
    )
    first = subprocess.Popen(["sh", "-c", waiting + script, TOOLS / "install-lib", slow, upgrades.nri])
    assert wait_until((tmp_path / "made").exists, SOON)
    upgrades.build("1.2.3", "two")
    second = subprocess.Popen([TOOLS / "install-lib", upgrades.dist, upgrades.nri])
    try:
        assert wait_until(lambda: second.poll() is not None or is_waiting_for_a_lock(second.pid), SOON)
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


def test_a_directory_in_the_place_of_the_link_is_named_and_left_alone(upgrades: Upgrades) -> None:
    upgrades.lib.mkdir(parents=True)
    command = [TOOLS / "install-lib", upgrades.dist, upgrades.nri]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    wrong = f"found a directory at {upgrades.lib}, expected a link or nothing; move it away"
    assert (done.returncode, done.stderr) == (1, f"install-lib: {wrong}\n")
    assert os.listdir(upgrades.nri) == ["lib"]


def test_a_folder_of_another_name_is_left_alone(upgrades: Upgrades) -> None:
    for name in ("lib.mine", "lib.backup-2026"):
        (upgrades.nri / name).mkdir(parents=True)
    for number in range(3):
        upgrades.build("1.2.3", f"upgrade {number}")
        upgrades.install()
    assert {"lib.mine", "lib.backup-2026"} < upgrades.folders


def test_a_link_to_another_place_is_named_and_left_alone(upgrades: Upgrades) -> None:
    upgrades.nri.mkdir(parents=True)
    upgrades.lib.symlink_to("/srv/nri")
    done = run(TOOLS / "install-lib", upgrades.dist, upgrades.nri, check=False)
    wrong = f"found a link to /srv/nri at {upgrades.lib}, expected one to lib.VERSION-HASH; move it away"
    assert (done.returncode, done.stderr) == (1, f"install-lib: {wrong}\n")
    assert os.listdir(upgrades.nri) == ["lib"]


def test_a_bridge_that_runs_the_binaries_before_is_named(upgrades: Upgrades) -> None:
    upgrades.install()
    first = upgrades.nri / upgrades.current
    process = subprocess.Popen([upgrades.lib / "v1bridge", "1000"])
    try:
        upgrades.build("1.2.3", "two")
        named = (
            f"running   {first}/v1bridge (process {process.pid}), which the runtime has launched: restart the runtime"
        )
        assert named in upgrades.install().splitlines()
    finally:
        process.kill()
        process.wait()


# Going back


def test_going_back_changes_the_places_of_both_folders_and_so_does_going_forward(upgrades: Upgrades) -> None:
    upgrades.install()
    first = upgrades.current
    upgrades.build("1.2.4", "two")
    upgrades.install()
    second = upgrades.current
    for before, now in ((second, first), (first, second), (second, first)):
        assert upgrades.rollback().splitlines() == [
            f"before    lib: {before}, lib.previous: {now}",
            f"now       lib: {now}, lib.previous: {before}",
        ]
        assert (upgrades.current, os.readlink(upgrades.nri / "lib.previous")) == (now, before)
    upgrades.install()  # the next upgrade works as before
    assert (upgrades.current, os.readlink(upgrades.nri / "lib.previous")) == (second, first)
    assert upgrades.folders == {first, second}
    assert not list(upgrades.nri.glob(".*"))


def test_at_no_moment_of_going_back_is_there_no_plugin(upgrades: Upgrades) -> None:
    upgrades.install()
    upgrades.build("1.2.3", "two")
    upgrades.install()
    with always_there(upgrades.lib / "v1bridge"):
        for _ in range(10):
            upgrades.rollback()


def test_without_a_previous_version_going_back_changes_nothing_and_says_so(upgrades: Upgrades) -> None:
    def refused() -> str:
        done = run(TOOLS / "rollback", upgrades.nri.parent.parent, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        return done.stderr

    assert refused().startswith(f"rollback: no previous version in {upgrades.nri}: ")
    upgrades.install()
    expected = "expected lib.previous, a link to another folder lib.VERSION-HASH than that of lib"
    assert refused() == f"rollback: no previous version in {upgrades.nri}: {expected} ({upgrades.current})\n"
    upgrades.build("1.2.3", "two")
    upgrades.install()
    second = upgrades.current
    shutil.rmtree(upgrades.nri / os.readlink(upgrades.nri / "lib.previous"))
    assert "no previous version" in refused()
    assert upgrades.current == second


def test_a_plugin_that_only_the_newer_version_has_is_named(upgrades: Upgrades) -> None:
    (upgrades.nri / "bin").mkdir(parents=True)
    for plugin in ("older", "newer", "both"):
        (upgrades.nri / "bin" / plugin).symlink_to(f"../lib/{plugin}")
    (upgrades.nri / "bin/mine").symlink_to("/srv/mine")
    for plugin in ("older", "both"):
        shutil.copy(upgrades.dist / "nri", upgrades.dist / plugin)
    upgrades.install()
    first = upgrades.current
    (upgrades.dist / "older").rename(upgrades.dist / "newer")
    upgrades.install()
    named = [line for line in upgrades.rollback().splitlines() if line.startswith("missing")]
    missing = f"{upgrades.nri}/bin/newer: {first} does not have it; what is configured and missing fails"
    assert named == [f"missing   {missing}"]
    assert (upgrades.nri / "bin/older").exists()
    named = [line for line in upgrades.rollback().splitlines() if line.startswith("missing")]
    assert [line.split(":")[0] for line in named] == [f"missing   {upgrades.nri}/bin/older"]


def test_a_bridge_that_still_runs_what_was_left_is_named(upgrades: Upgrades) -> None:
    upgrades.install()
    upgrades.build("1.2.3", "two")
    sleeper(upgrades.dist / "nri")
    upgrades.install()
    second = upgrades.nri / upgrades.current
    process = subprocess.Popen([upgrades.lib / "nri", "1000"])
    bridge = subprocess.Popen(["bash", "-c", f"exec -a 'nri bridge' {upgrades.lib}/nri 1000"])
    try:
        wait_until(lambda: os.path.samefile(f"/proc/{bridge.pid}/exe", upgrades.lib / "nri"), SOON)
        running = [line for line in upgrades.rollback().splitlines() if line.startswith("running")]
        assert running == [f"running   {second}/nri bridge (process {bridge.pid}): restart what runs it"]
    finally:
        for one in (process, bridge):
            one.kill()
            one.wait()
