"""``make uninstall`` removes what ``make install`` has installed, and nothing else, and says what."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.installing import BRIDGE, DEPLOY, ROOT, build, run, sleeper, source, tree
from tests.support.waiting import SOON, wait_until

EMPTY = {"etc": "(empty)", "opt": "(empty)", "usr/local/bin": "(empty)"}


class Node:
    """A checkout, and a tree that it installs to."""

    def __init__(self, root: Path) -> None:
        self.checkout, self.root = source(root), root / "node"
        self.nri = self.root / "opt/nri"

    def install(self, version: str = "1.2.3") -> Path:
        """Install this version; return its folder."""
        build(self.checkout, version)
        run(self.checkout / "tools/install", self.root)
        return (self.nri / "lib").resolve()

    def uninstall(self) -> list[str]:
        """Uninstall; return the lines that it prints, without the name of the tree."""
        return run(self.checkout / "tools/uninstall", self.root).stdout.replace(f"{self.root}/", "").splitlines()

    def write(self, place: str, text: str = "mine") -> None:
        (self.root / place).parent.mkdir(parents=True, exist_ok=True)
        (self.root / place).write_text(text)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def test_it_removes_all_that_was_installed_and_says_so_line_by_line(node: Node) -> None:
    first, second = node.install("1.2.3").name, node.install("1.2.4").name
    links = ["plugins/10-v1bridge", "bin/clearcfs", "bin/konfine", "lib", "lib.previous"]
    directories = ["bin", "plugins"]
    assert node.uninstall() == [
        "removed   usr/local/bin/nri",
        "removed   etc/nri/resource.d/10-konfine.conf",
        "removed   etc/nri/resource.d/20-clearcfs.conf",
        *[f"removed   opt/nri/{name}" for name in [*links, first, second, *directories]],
        "removed   opt/nri",
        "removed   etc/nri/resource.d",
        "removed   etc/nri",
    ]
    assert tree(node.root) == EMPTY


def test_again_or_where_nothing_is_installed_it_does_nothing(node: Node) -> None:
    assert node.uninstall() == []
    node.install()
    node.uninstall()
    assert node.uninstall() == []
    assert tree(node.root) == EMPTY
    node.install()
    assert (node.root / BRIDGE).exists()


def test_what_is_anothers_or_was_changed_stays_and_is_named(node: Node) -> None:
    node.install()
    konfine = (node.root / "etc/nri/resource.d/10-konfine.conf").read_text()
    others = {
        "opt/nri/bin/mine": "a plugin",
        "opt/nri/bin/clearcfs": "another's in the place of a link",
        "opt/nri/plugins/20-logger": "another bridge",
        "opt/nri/lib.mine/file": "a folder",
        "etc/nri/resource.d/10-konfine.conf": konfine + " ",
        "etc/nri/resource.d/30-mine.conf": "{}",
        "etc/nri/conf.json": "{}",
    }
    (node.nri / "bin/clearcfs").unlink()
    for place, text in others.items():
        node.write(place, text)
    for place in ("usr/local/bin/nri", BRIDGE):
        (node.root / place).unlink()
        (node.root / place).symlink_to("/srv/nri")

    said = node.uninstall()

    assert tree(node.root) == others | {"usr/local/bin/nri": "-> /srv/nri", BRIDGE: "-> /srv/nri"}
    for place in ("usr/local/bin/nri", BRIDGE, "opt/nri/bin/mine", "opt/nri/bin/clearcfs", "opt/nri/lib.mine"):
        assert f"kept      {place} (not installed by this)" in said
    assert "kept      etc/nri/resource.d/10-konfine.conf (it was changed)" in said
    assert "kept      etc/nri/conf.json (not installed by this): containerd runs the plugins that it names" in said


def test_links_that_were_made_by_hand_lead_nowhere_and_are_named(node: Node) -> None:
    """A runtime may not start with such a link in /opt/nri/plugins."""
    node.install()
    (node.nri / "plugins/05-bridge").symlink_to("/opt/nri/lib/v1bridge")
    why = "not installed by this, and leads nowhere now: remove it, a runtime may not start with it"
    assert f"kept      opt/nri/plugins/05-bridge ({why})" in node.uninstall()
    assert (node.nri / "plugins/05-bridge").is_symlink()


def test_a_folder_that_a_process_runs_from_stays_until_it_is_run_again(
    node: Node, started: list[subprocess.Popen[bytes]]
) -> None:
    sleeper(node.checkout / "dist/nri/v1bridge")
    folder = node.install()
    started.append(subprocess.Popen([node.root / BRIDGE, "1000"]))
    said = node.uninstall()
    kept = f"opt/nri/{folder.name}"
    assert f"kept      {kept}, which a process runs from; when it has ended, run this again" in said
    bridge = f"{kept}/v1bridge (process {started[0].pid})"
    assert f"running   {bridge}, which the runtime has launched: restart the runtime" in said
    assert {path.name for path in node.nri.iterdir()} == {folder.name}
    assert (folder / "clearcfs").exists()
    started[0].kill()
    started[0].wait()
    assert node.uninstall() == [f"removed   {kept}", "removed   opt/nri"]


def test_a_bridge_from_outside_is_named_and_the_command_is_not(
    node: Node, started: list[subprocess.Popen[bytes]]
) -> None:
    folder = node.install()
    sleeper(folder / "nri")
    for name in ("nri bridge", "nri check"):
        started.append(subprocess.Popen(["bash", "-c", f"exec -a '{name}' {folder}/nri 1000"]))
        exe = f"/proc/{started[-1].pid}/exe"
        assert wait_until(lambda exe=exe: os.readlink(exe) == str(folder / "nri"), SOON)  # type: ignore[misc]
    running = [line for line in node.uninstall() if line.startswith("running")]
    assert running == [f"running   opt/nri/{folder.name}/nri bridge (process {started[0].pid}): stop what runs it"]


def test_what_still_runs_it_is_named(node: Node) -> None:
    unit = "etc/systemd/system/nri-v1bridge.service"
    node.write(unit)
    hooks = "etc/containers/oci/hooks.d"
    shutil.copytree(DEPLOY / "hooks.d", node.root / hooks)
    node.install()
    said = node.uninstall()
    assert f"kept      {unit} (not installed by this): systemctl disable --now nri-v1bridge, then remove it" in said
    for name in ("create", "delete"):
        why = "not installed by this): remove it, no container starts with it now"
        assert f"kept      {hooks}/10-nri-{name}.json ({why}" in said


def test_the_rest_of_scripts_that_were_killed_is_removed(node: Node) -> None:
    node.install()
    node.write("opt/nri/.lib.a1B2c3/nri")
    (node.nri / ".lib.1234").symlink_to("lib.1.2.3-0123456789ab")
    (node.nri / ".clearcfs.1234").symlink_to("../lib/clearcfs")
    node.uninstall()
    assert tree(node.root) == EMPTY


def test_a_directory_in_the_place_of_the_link_is_named_and_nothing_is_removed(node: Node) -> None:
    node.install()
    (node.nri / "lib").unlink()
    (node.nri / "lib").mkdir()
    before = tree(node.root)
    done = run(node.checkout / "tools/uninstall", node.root, check=False)
    wrong = f"found a directory at {node.nri}/lib, expected a link or nothing; move it away"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"tools/uninstall: {wrong}\n")
    assert tree(node.root) == before


def test_a_node_with_the_package_is_refused(node: Node) -> None:
    node.install()
    (node.root / "usr/lib/nri/dist").mkdir(parents=True)
    before = tree(node.root)
    done = run(node.checkout / "tools/uninstall", node.root, check=False)
    wrong = "nri is installed as a Debian package; remove that: apt-get remove nri"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"tools/uninstall: {wrong}\n")
    assert tree(node.root) == before


@pytest.mark.parametrize("target", ["uninstall", "rollback"])
def test_without_rights_it_changes_nothing_and_says_why(target: str) -> None:
    with tempfile.TemporaryDirectory(prefix="nri-test-") as folder:
        os.chmod(folder, 0o755)  # anybody may look
        node = Node(Path(folder))
        shutil.copy(ROOT / "Makefile", node.checkout)
        for version in ("1.2.3", "1.2.4"):
            node.install(version)
        before = tree(node.root)
        node.nri.chmod(0o555)
        nobody = 65534
        user: dict[str, Any] = {"user": nobody, "group": nobody, "extra_groups": []} if os.geteuid() == 0 else {}
        for command in ([f"tools/{target}", str(node.root)], ["make", "--silent", target, f"DESTDIR={node.root}"]):
            done = subprocess.run(command, cwd=node.checkout, capture_output=True, text=True, check=False, **user)
            assert (done.returncode != 0, done.stdout) == (True, "")
            (said,) = [line for line in done.stderr.splitlines() if not line.startswith("make")]
            who = pwd.getpwuid(user.get("user", os.geteuid())).pw_name
            assert (
                f": cannot write to {node.nri} as {who}; run it as root, or name a tree of your own: make {target} "
                in said
            )
        node.nri.chmod(0o755)
        assert tree(node.root) == before
