"""Removing: nothing is removed while a runtime or an engine needs it, and what stays is named."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.installing import BRIDGE, DEPLOY, build, run, sleeper, source, tree
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

ENGINES = {
    "podman": ("podman/50-nri.conf", "etc/containers/containers.conf.d/50-nri.conf"),
    "docker": ("docker/daemon.json", "etc/docker/daemon.json"),
    "hooks": ("hooks.d/10-nri-create.json", "etc/containers/oci/hooks.d/10-nri-create.json"),
}
"""Samples of files that have an engine run nri-runc or `nri hook`, and their places on a node."""


class Node:
    """A checkout, and a node where it is installed."""

    def __init__(self, root: Path) -> None:
        self.checkout, self.root = source(root), root / "node"
        build(self.checkout, "1.2.3")
        sleeper(self.checkout / "dist/nri/v1bridge")
        run(self.checkout / "tools/install", self.root)

    def uninstall(self) -> subprocess.CompletedProcess[str]:
        return run(self.checkout / "tools/uninstall", self.root, check=False)

    def prerm(self, verb: str) -> subprocess.CompletedProcess[str]:
        """Run the script of the Debian package that dpkg runs before the package is removed or upgraded."""
        files = self.root / "usr/lib/nri"
        files.mkdir(parents=True, exist_ok=True)
        for file in (self.checkout / "tools").iterdir():
            shutil.copy(file, files)
        environment = {**os.environ, "DPKG_ROOT": str(self.root)}
        command = ["sh", str(DEPLOY / "debian/prerm"), verb]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def engine(self, name: str) -> Path:
        """Have an engine use what is installed; return the file that says so."""
        sample, place = ENGINES[name]
        file = self.root / place
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(DEPLOY / sample, file)
        return file

    def installed(self) -> dict[str, str]:
        return {name: text for name, text in tree(self.root).items() if name.startswith(("opt/", "usr/local/"))}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.parametrize("engine", ENGINES)
def test_uninstall_refuses_while_an_engine_runs_what_is_installed(node: Node, engine: str) -> None:
    file = node.engine(engine)
    before = node.installed()
    done = node.uninstall()
    assert node.installed() == before
    assert done.returncode != 0
    assert str(file) in done.stderr


def test_the_package_is_not_removed_while_an_engine_runs_what_it_installed(node: Node) -> None:
    file = node.engine("podman")
    before = node.installed()
    assert node.prerm("upgrade").returncode == 0
    assert node.installed() == before
    done = node.prerm("remove")
    assert node.installed() == before
    assert done.returncode != 0
    assert str(file.relative_to(node.root)) in done.stdout + done.stderr


def test_uninstall_refuses_while_a_bridge_is_connected(node: Node) -> None:
    before = node.installed()
    with subprocess.Popen([node.root / BRIDGE, "1000"]) as process:
        try:
            assert wait_until(lambda: "v1bridge" in os.readlink(f"/proc/{process.pid}/exe"))
            done = node.uninstall()
            assert node.installed() == before
            assert done.returncode != 0
        finally:
            process.kill()


def test_uninstall_names_every_file_of_ours_that_it_leaves(node: Node) -> None:
    for place in (
        "etc/nri/v1bridge.json",
        "etc/nri/runtime.json",
        "run/nri/v1bridge.record",
        "var/log/nri/v1bridge.log",
    ):
        file = node.root / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}\n")
    done = node.uninstall()
    assert done.returncode == 0, done.stderr
    left = [name for name, text in tree(node.root).items() if text != "(empty)"]
    unnamed = [
        name for name in left if f"/{name}" not in done.stdout and f"/{os.path.dirname(name)} " not in done.stdout
    ]
    assert unnamed == []
