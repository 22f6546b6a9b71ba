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


def upgrade(root: Path, content: str) -> Path:
    """Install what is different; returns the folder."""
    (root / "dist/_internal/content").write_text(content)
    subprocess.run(
        [ROOT / "tools/install-lib", root / "dist", root / "opt/nri"],
        check=True,
        capture_output=True,
    )
    return (root / "opt/nri/lib").resolve()


def install_plugin(root: Path, answer: str) -> None:
    """Install a plugin that notes each request, with this command for its answer."""
    path = root / "bin/noted"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\ncat >/dev/null\necho >>{root}/notes\n{answer}\n")
    path.chmod(0o755)


@pytest.fixture
def node(binaries: Path, tmp_path: Path) -> Iterator[BridgeNode]:
    """A node with the compiled bridge, which a runtime has launched."""
    shutil.copytree(binaries, tmp_path / "dist", symlinks=True)
    upgrade(tmp_path, "one")
    install_plugin(tmp_path, "echo '{}'")
    node = BridgeNode(
        tmp_path,
        Path("../opt/nri/lib/v1bridge"),
        bin_dirs=[tmp_path / "bin"],
        options={"confFile": str(tmp_path / "none"), "logLevel": "debug"},
        request_timeout=SOON,
    )
    node.configure("10.conf", {"type": "noted"})
    node.start()
    yield node
    node.close()


def test_faults_are_explained_after_its_folder_is_removed(node: BridgeNode, tmp_path: Path) -> None:
    def start_pod() -> int:
        """Start a pod's container; returns how often the plugin has run."""
        node.runtime.start_container(pod(), container())
        return len((tmp_path / "notes").read_text())

    first = (tmp_path / "opt/nri/lib").resolve()
    assert start_pod() == 1
    upgrade(tmp_path, "two")
    shutil.rmtree(first)
    assert start_pod() == 2
    emoji = '{"plugin": "noted", "version": "0.1", "metadata": {"x": "\\ud83d\\ude00 é"}}'
    install_plugin(tmp_path, f"cat <<'EOF'\n{emoji}\nEOF")  # its characters need a codec
    assert start_pod() == 3
    broken = tmp_path / "resource.d/20.conf"
    kept = b"invalid configuration; still using the last valid one (noted): "
    contents = (
        "{",
        '{"version": 1}',
        "\xff",
        '{"version": "0.1", "plugins": [{"type": 1}, {"states": [1]}]}',
    )
    for runs, content in enumerate(contents, 4):
        before = node.log_file.stat().st_size
        broken.write_bytes(content.encode("latin-1"))
        assert start_pod() == runs
        assert wait_until(lambda: kept in node.log_file.read_bytes()[before:])  # noqa: B023
    assert "cannot be explained" not in node.log_file.read_text()
    upgrade(tmp_path, "three")
    broken.unlink()
    assert start_pod() == 8
    assert node.runtime.plugins == ["10-v1bridge"]
