"""The script of the init container installs on a node what ``make install`` lays out."""

import shutil
import subprocess
from pathlib import Path

import pytest

from nri.v1bridge import BridgeOptions
from tests.support.installing import BINARIES, DEPLOY, links, run

KUBERNETES = DEPLOY / "kubernetes"


def install_node(mode: str, node: Path, image: Path, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    return run(KUBERNETES / "install-node", mode, node, image, check=check)


@pytest.fixture
def image(installed: Path) -> Path:
    """The image's root, with the bridge options that are mounted into it."""
    shutil.copytree(KUBERNETES / "overlays/pre-registered", installed / "bridge-options")
    return installed


@pytest.fixture
def node(tmp_path: Path) -> Path:
    for place in ("node/opt/nri", "node/etc/nri"):
        (tmp_path / place).mkdir(parents=True)
    return tmp_path / "node"


def test_a_node_with_the_bridge_registered_has_what_make_install_lays_out(node: Path, image: Path) -> None:
    install_node("register", node, image)

    assert links(node / "opt/nri") == links(image / "opt/nri")
    assert {file.name for file in (node / "opt/nri/lib").iterdir()} == set(BINARIES)
    assert all(path.exists() for path in (node / "opt/nri").rglob("*"))
    assert BridgeOptions.parse((node / "etc/nri/conf.d/10-v1bridge.conf").read_text()).log_level == "info"
    assert [file.name for file in (node / "etc/nri/conf.d").iterdir()] == ["10-v1bridge.conf"]


def test_a_node_with_the_bridge_outside_has_the_same_but_no_bridge_to_launch(node: Path, image: Path) -> None:
    install_node("outside", node, image)

    expected = links(image / "opt/nri")
    del expected["plugins/10-v1bridge"]
    assert links(node / "opt/nri") == expected
    assert not list((node / "etc/nri").iterdir())


def test_two_bridges_are_refused(node: Path, image: Path) -> None:
    install_node("register", node, image)
    refused = install_node("outside", node, image, check=False)
    assert refused.returncode == 1
    assert "found /opt/nri/plugins/10-v1bridge on this node" in refused.stderr


@pytest.mark.parametrize("mode", ["outside", "register"])
def test_an_upgrade_of_a_node_keeps_the_folder_before_and_what_is_not_ours(
    node: Path, image: Path, mode: str
) -> None:
    lib = node / "opt/nri/lib"
    install_node(mode, node, image)
    (node / "opt/nri/bin/mine").write_text("#!/bin/sh\n")
    first = lib.resolve()

    assert "is there already" in install_node(mode, node, image).stdout
    assert lib.resolve() == first

    folders = [first]
    for number in range(2):
        (image / "opt/nri/lib/clearcfs").write_text(f"#!/bin/sh\n# {number}\n")
        install_node(mode, node, image)
        assert lib.resolve() not in folders
        assert (node / "opt/nri/lib.previous").resolve() == folders[-1]
        folders.append(lib.resolve())
    assert [folder.exists() for folder in folders] == [False, True, True]
    assert (node / "opt/nri/bin/mine").exists()
