"""The compiled bridge, while its binaries are upgraded and its own folder is removed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.node import BridgeNode
from tests.support.pods import container, pod
from tests.support.waiting import SOON, wait_until

ROOT = Path(__file__).parent.parent.parent


class Installed:
    """A node with the compiled bridge, which a runtime has launched, and one plugin that notes each request."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.dist = root / "dist"
        self.nri = root / "opt/nri"
        shutil.copytree(ROOT / "dist/nri", self.dist, symlinks=True)
        self.upgrade("one")
        (root / "bin").mkdir()
        self.node = BridgeNode(
            root,
            Path("../opt/nri/lib/v1bridge"),
            bin_dirs=[root / "bin"],
            options={"confFile": str(root / "none"), "logLevel": "debug"},
            request_timeout=SOON,
        )
        self.log, self.runtime = self.node.log_file, self.node.runtime
        self.plugin("echo '{}'")
        self.node.configure("10.conf", {"type": "noted"})
        self.node.start()

    def plugin(self, answer: str) -> None:
        """Install the plugin, with this command for its answer."""
        path = self.root / "bin/noted"
        path.write_text(f"#!/bin/sh\ncat >/dev/null\necho >>{self.root}/notes\n{answer}\n")
        path.chmod(0o755)

    def upgrade(self, content: str) -> Path:
        """Install what is different; returns the folder."""
        (self.dist / "_internal/content").write_text(content)
        subprocess.run([ROOT / "tools/install-lib", self.dist, self.nri], check=True, capture_output=True)
        return (self.nri / "lib").resolve()

    def start_pod(self) -> int:
        """Start a pod's container; returns how often the plugin has run."""
        self.runtime.start_container(pod(), container())
        return len((self.root / "notes").read_text())

    def says(self, what: str, after: int = 0) -> bool:
        """Wait until the log says this; return whether it does."""
        return wait_until(lambda: what.encode() in self.log.read_bytes()[after:], SOON)


@pytest.fixture
def installed(binaries: Path, tmp_path: Path) -> Iterator[Installed]:
    installed = Installed(tmp_path)
    yield installed
    installed.node.close()


def test_faults_are_explained_after_its_folder_is_removed(installed: Installed) -> None:
    first = (installed.nri / "lib").resolve()
    assert installed.start_pod() == 1
    installed.upgrade("two")
    shutil.rmtree(first)
    runs = installed.start_pod()
    emoji = '{"plugin": "noted", "version": "0.1", "metadata": {"x": "\\ud83d\\ude00 é"}}'
    installed.plugin(f"cat <<'EOF'\n{emoji}\nEOF")  # its characters need a codec
    runs += 1
    assert installed.start_pod() == runs
    broken = installed.root / "resource.d/20.conf"
    for content in ("{", '{"version": 1}', "\xff", '{"version": "0.1", "plugins": [{"type": 1}, {"states": [1]}]}'):
        before = installed.log.stat().st_size
        broken.write_bytes(content.encode("latin-1"))
        runs += 1
        assert installed.start_pod() == runs
        assert installed.says("invalid configuration; still using the last valid one (noted): ", before)
    assert "cannot be explained" not in installed.log.read_text()
    installed.upgrade("three")
    broken.unlink()
    assert installed.start_pod() == runs + 1
    assert installed.runtime.plugins == ["10-v1bridge"]


def test_rollback_and_uninstall_keep_what_a_bridge_runs_from(installed: Installed) -> None:
    def tool(name: str, *options: str) -> list[str]:
        command = [str(ROOT / "tools" / name), *options, str(installed.root)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout.splitlines()

    def running(lines: list[str]) -> list[str]:
        return [line.partition(" (process ")[0] for line in lines if line.startswith("running")]

    first = (installed.nri / "lib").resolve()
    bridge = [f"running   {first}/v1bridge"]
    second = installed.upgrade("two")
    assert running(tool("rollback")) == []  # it runs what is the current version again
    assert (installed.nri / "lib").resolve() == first
    assert running(tool("rollback")) == bridge
    assert (installed.nri / "lib").resolve() == second
    assert installed.start_pod() == 1
    assert running(tool("uninstall", "--force")) == bridge
    assert (first.exists(), second.exists()) == (True, False)
    assert installed.start_pod() == 2
    assert installed.runtime.plugins == ["10-v1bridge"]
    installed.node.close()

    def uninstalled() -> bool:
        try:
            return tool("uninstall") == [] and not installed.nri.exists()
        except subprocess.CalledProcessError as refused:  # a process of the bridge has yet to end
            assert refused.stderr.startswith("running ")
            return False

    assert wait_until(uninstalled, SOON)
