"""``make uninstall`` removes what ``make install`` has installed, and nothing else, and says what."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.installing import BRIDGE, DEPLOY, build, run, sleeper, source, tree
from tests.support.waiting import wait_until

EMPTY = {"etc": "(empty)", "opt": "(empty)", "usr/local/bin": "(empty)"}
ENGINES = {
    "podman": ("podman/50-nri.conf", "etc/containers/containers.conf.d/50-nri.conf"),
    "docker": ("docker/daemon.json", "etc/docker/daemon.json"),
    "hooks": ("hooks.d/10-nri-create.json", "etc/containers/oci/hooks.d/10-nri-create.json"),
}
"""Samples of files that have an engine run nri-runc or `nri hook`, and their places on a node."""
Start = Callable[..., subprocess.Popen[bytes]]


class Installed:
    """A checkout, and a tree that it installs to."""

    def __init__(self, root: Path) -> None:
        self.checkout, self.root = source(root), root / "node"
        self.nri = self.root / "opt/nri"

    def install(self, version: str = "1.2.3") -> Path:
        """Install this version; return its folder."""
        build(self.checkout, version)
        run(self.checkout / "tools/install", self.root)
        return (self.nri / "lib").resolve()

    def uninstall(self, *options: str) -> list[str]:
        """Uninstall; return the lines that it prints, without the name of the tree."""
        return (
            run(self.checkout / "tools/uninstall", *options, self.root)
            .stdout.replace(f"{self.root}/", "")
            .splitlines()
        )

    def refusal(self) -> str:
        """Uninstall, which must be refused and change nothing; return why."""
        before = tree(self.root)
        done = run(self.checkout / "tools/uninstall", self.root, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert tree(self.root) == before
        return done.stderr

    def write(self, place: str, text: str = "mine") -> None:
        (self.root / place).parent.mkdir(parents=True, exist_ok=True)
        (self.root / place).write_text(text)


@pytest.fixture
def node(tmp_path: Path) -> Installed:
    return Installed(tmp_path)


def test_copies_of_nri_apply_are_kept_and_named(node: Installed) -> None:
    node.install()
    etc = node.root / "etc/nri"
    (etc / "before").mkdir()
    (etc / "resource.d").rename(etc / "before/resource.d")
    shutil.copytree(etc / "before/resource.d", etc / "sets/a")
    (etc / "resource.d").symlink_to("sets/a")
    lines = node.uninstall()
    kept = ["etc/nri/resource.d", "etc/nri/sets", "etc/nri/before"]
    assert [line for line in lines if "apply" in line] == [
        f"kept      {place} (made by nri apply)" for place in kept
    ]
    assert (etc / "resource.d/10-konfine.conf").exists()


def test_everything_installed_is_removed_and_named(node: Installed) -> None:
    assert node.uninstall() == []
    first, second = node.install("1.2.3").name, node.install("1.2.4").name
    links = ["plugins/10-v1bridge", "bin/clearcfs", "bin/konfine", "lib", "lib.previous"]
    assert node.uninstall() == [
        "removed   usr/local/bin/nri",
        "removed   etc/nri/resource.d/10-konfine.conf",
        "removed   etc/nri/resource.d/20-clearcfs.conf",
        *[f"removed   opt/nri/{name}" for name in [*links, first, second, "bin", "plugins"]],
        "removed   opt/nri",
        "removed   etc/nri/resource.d",
        "removed   etc/nri",
    ]
    assert tree(node.root) == EMPTY
    assert node.uninstall() == []
    assert tree(node.root) == EMPTY
    node.install()
    assert (node.root / BRIDGE).exists()
    node.write("opt/nri/.lib.a1B2c3/nri")  # left by killed scripts
    (node.nri / ".lib.1234").symlink_to("lib.1.2.3-0123456789ab")
    (node.nri / ".clearcfs.1234").symlink_to("../lib/clearcfs")
    (node.nri / "plugins/05-bridge").symlink_to("/opt/nri/lib/v1bridge")
    why = "not installed by this, and leads nowhere now: remove it, a runtime may not start with it"
    assert f"kept      opt/nri/plugins/05-bridge ({why})" in node.uninstall()
    left = {name: text for name, text in EMPTY.items() if name != "opt"}
    assert tree(node.root) == left | {"opt/nri/plugins/05-bridge": "-> /opt/nri/lib/v1bridge"}


def test_files_of_others_and_changed_files_stay_and_are_named(node: Installed) -> None:
    node.install()
    konfine = (node.root / "etc/nri/resource.d/10-konfine.conf").read_text()
    unit, hook = (
        "etc/systemd/system/nri-v1bridge.service",
        "etc/containers/oci/hooks.d/10-nri-create.json",
    )
    others = {
        "opt/nri/bin/mine": "a plugin",
        "opt/nri/bin/clearcfs": "another's in the place of a link",
        "opt/nri/plugins/20-logger": "another bridge",
        "opt/nri/lib.mine/file": "a folder",
        "etc/nri/resource.d/10-konfine.conf": konfine + " ",
        "etc/nri/resource.d/30-mine.conf": "{}",
        "etc/nri/conf.json": "{}",
        "etc/nri/v1bridge.json": "{}",
        "etc/nri/runtime.json": "{}",
        "run/nri/v1bridge.record/a.json": "",
        "run/nri/v1bridge.record/.in-use.1": "",
        "run/nri/konfine/state.json": "",
        "var/log/nri/v1bridge.log": "",
        unit: "",
        hook: (DEPLOY / "hooks.d/10-nri-create.json").read_text(),
    }
    (node.nri / "bin/clearcfs").unlink()
    for place, text in others.items():
        node.write(place, text)
    for place in ("usr/local/bin/nri", BRIDGE):
        (node.root / place).unlink()
        (node.root / place).symlink_to("/srv/nri")

    said = node.uninstall("--force")

    others = {place: text for place, text in others.items() if not place.startswith("run/nri/")} | {
        "run": "(empty)"
    }
    assert tree(node.root) == others | {"usr/local/bin/nri": "-> /srv/nri", BRIDGE: "-> /srv/nri"}
    for place in (
        "usr/local/bin/nri",
        BRIDGE,
        "opt/nri/bin/mine",
        "opt/nri/bin/clearcfs",
        "opt/nri/lib.mine",
    ):
        assert f"kept      {place} (not installed by this)" in said
    assert "kept      etc/nri/resource.d/10-konfine.conf (it was changed)" in said
    # Files that still run what was removed are named with what to do.
    assert (
        "kept      etc/nri/conf.json (not installed by this): containerd runs the plugins that it names"
        in said
    )
    assert (
        f"kept      {unit} (not installed by this): systemctl disable --now nri-v1bridge, then remove it"
        in said
    )
    assert (
        f"kept      {hook} (not installed by this): remove it, no container starts with it now"
        in said
    )
    for options in ("v1bridge", "runtime"):
        assert f"kept      etc/nri/{options}.json (options, not installed by this)" in said
    for name in ("v1bridge.record", "konfine"):
        assert (
            f"removed   {node.root}/run/nri/{name}" in said or f"removed   run/nri/{name}" in said
        )
    assert not (node.root / "run/nri").exists()
    assert "kept      var/log/nri (the bridge's log)" in said


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_is_removed_while_an_engine_needs_it(node: Installed, engine: str) -> None:
    node.install()
    sample, place = ENGINES[engine]
    node.write(place, (DEPLOY / sample).read_text())
    assert f"needed    by {node.root}/{place}, which has an engine run nri-runc" in node.refusal()


@pytest.mark.parametrize("command", ["/usr/local/bin/nri", "/usr/bin/nri"])
def test_a_hook_that_names_a_link_to_the_command_is_found(node: Installed, command: str) -> None:
    node.install()
    text = (DEPLOY / "hooks.d/10-nri-create.json").read_text().replace("/opt/nri/lib/nri", command)
    node.write("etc/containers/oci/hooks.d/mine.json", text)
    assert "mine.json, which has an engine run" in node.refusal()


def test_nothing_is_removed_while_a_bridge_runs(node: Installed, start: Start) -> None:
    sleeper(node.checkout / "dist/nri/v1bridge")
    folder = node.install()
    process = start(node.root / BRIDGE, "1000")
    kept = f"opt/nri/{folder.name}"
    running = f"{kept}/v1bridge (process {process.pid}), which the runtime has launched: restart the runtime"
    assert f"running   {node.root}/{running}\n" in node.refusal()
    said = node.uninstall("--force")
    assert f"kept      {kept}, which a process runs from; when it has ended, run this again" in said
    assert f"running   {running}" in said
    assert {path.name for path in node.nri.iterdir()} == {folder.name}
    assert (folder / "clearcfs").exists()
    process.kill()
    process.wait()
    assert node.uninstall() == [f"removed   {kept}", "removed   opt/nri"]


def test_only_a_running_bridge_is_named(node: Installed, start: Start) -> None:
    folder = node.install()
    sleeper(folder / "nri")
    bridge, check = (
        start("bash", "-c", f"exec -a '{name}' {folder}/nri 1000")
        for name in ("nri bridge", "nri check")
    )
    for process in (bridge, check):
        exe = f"/proc/{process.pid}/exe"
        assert wait_until(lambda exe=exe: os.readlink(exe) == str(folder / "nri"))  # type: ignore[misc]
    running = [line for line in node.refusal().splitlines() if line.startswith("running")]
    assert running == [f"running   {folder}/nri bridge (process {bridge.pid}): stop what runs it"]


@pytest.mark.parametrize("obstacle", ["directory", "package"])
def test_directory_as_link_and_debian_package_are_refused(node: Installed, obstacle: str) -> None:
    node.install()
    if obstacle == "directory":
        (node.nri / "lib").unlink()
        (node.nri / "lib").mkdir()
        wrong = f"found a directory at {node.nri}/lib, expected a link or nothing; move it away"
    else:
        shutil.copytree(node.nri / "bin", node.root / "usr/lib/nri/dist", symlinks=True)
        wrong = "nri is installed as a Debian package; remove that: apt-get remove nri"
    assert node.refusal() == f"tools/uninstall: {wrong}\n"
