"""The script of the init container installs on a node what ``make install`` lays out."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nri.v1bridge import BridgeOptions
from tests.support.installing import BINARIES, BRIDGE, DEPLOY, links, run, sleeper, tree

KUBERNETES = DEPLOY / "kubernetes"
OPTIONS = "etc/nri/conf.d/10-v1bridge.conf"


def install_node(
    mode: str, node: Path, image: Path, *, check: bool = True
) -> subprocess.CompletedProcess[str]:
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


def test_registered_node_is_as_after_make_install(node: Path, image: Path) -> None:
    install_node("register", node, image)
    assert links(node / "opt/nri") == links(image / "opt/nri")
    assert {file.name for file in (node / "opt/nri/lib").iterdir()} == set(BINARIES)
    assert all(path.exists() for path in (node / "opt/nri").rglob("*"))
    assert BridgeOptions.of_text((node / OPTIONS).read_text())[0].log_level == "info"
    assert [file.name for file in (node / "etc/nri/conf.d").iterdir()] == ["10-v1bridge.conf"]

    refused = install_node("outside", node, image, check=False)
    assert refused.returncode == 1
    assert "found /opt/nri/plugins/10-v1bridge on this node" in refused.stderr


def test_node_with_the_bridge_outside_has_no_bridge_to_launch(node: Path, image: Path) -> None:
    done = install_node("remove", node, image, check=False)
    expected = "expected register, outside, rollback or uninstall"
    assert (done.returncode, done.stderr) == (
        2,
        f"install-node: found the mode 'remove', {expected}\n",
    )
    install_node("outside", node, image)
    links_ = links(image / "opt/nri")
    del links_["plugins/10-v1bridge"]
    assert links(node / "opt/nri") == links_
    assert not list((node / "etc/nri").iterdir())
    for name in ("mine", "konfine"):
        (node / "opt/nri/bin" / name).unlink(missing_ok=True)
        (node / "opt/nri/bin" / name).write_text("the node's own")
    said = install_node("outside", node, image).stdout.splitlines()
    folder = (node / "opt/nri/lib").resolve().name
    assert said[-2:] == [
        "install-node: the node's own plugins, not changed: konfine mine",
        f"install-node: installed {folder}: clearcfs",
    ]
    assert (node / "opt/nri/bin/konfine").read_text() == "the node's own"


def test_rollback_uses_the_folder_before_the_upgrade(node: Path, image: Path) -> None:
    lib = node / "opt/nri/lib"
    install_node("register", node, image)
    first = lib.resolve()
    (image / "opt/nri/lib/clearcfs").write_text("#!/bin/sh\n# another\n")
    install_node("register", node, image)
    assert lib.resolve() != first
    assert f"now       lib: {first.name}, " in install_node("rollback", node, image).stdout
    assert lib.resolve() == first


def test_uninstallation_removes_only_what_was_installed(node: Path, image: Path) -> None:
    install_node("register", node, image)
    (image / "opt/nri/lib/clearcfs").write_text("#!/bin/sh\n# another\n")
    install_node("register", node, image)
    own = {
        "opt/nri/bin/mine": "#!/bin/sh\n",
        "opt/nri/plugins/20-logger": "",
        "etc/nri/resource.d/10.conf": "{}",
    }
    for name, text in own.items():
        (node / name).parent.mkdir(parents=True, exist_ok=True)
        (node / name).write_text(text)
    for _ in range(2):
        said = install_node("uninstall", node, image).stdout.splitlines()
        assert said[-1] == "install-node: removed all that it had installed"
        assert {name: text for name, text in tree(node).items() if text != "(empty)"} == own


def test_uninstallation_restores_earlier_bridge_options(node: Path, image: Path) -> None:
    options = node / OPTIONS
    options.parent.mkdir()
    options.write_text('{"logLevel": "debug"}')
    for _ in range(2):
        install_node("register", node, image)
        assert BridgeOptions.of_text(options.read_text())[0].log_level == "info"
    install_node("uninstall", node, image)
    assert tree(node / "etc") == {"nri/conf.d/10-v1bridge.conf": '{"logLevel": "debug"}'}

    options.unlink()
    install_node("register", node, image)
    options.write_text("changed")
    install_node("uninstall", node, image)
    assert tree(node / "etc") == {"nri/conf.d/10-v1bridge.conf": "changed"}


def test_uninstallation_waits_for_the_bridge(
    node: Path, image: Path, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """The runtime does not launch it again when it is restarted."""
    sleeper(image / "opt/nri/lib/v1bridge")
    install_node("register", node, image)
    process = start(node / BRIDGE, "1000")
    before = links(node / "opt/nri")
    del before["plugins/10-v1bridge"]
    wrong = "a bridge runs on this node, and needs its plugins; this container is started again when it has ended"
    running = (
        f"/v1bridge (process {process.pid}), which the runtime has launched: restart the runtime"
    )
    done = install_node("uninstall", node, image, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"install-node: {wrong}\n")
    assert running in done.stderr
    assert links(node / "opt/nri") == before
    process.kill()
    process.wait()
    install_node("uninstall", node, image)
    assert not (node / "opt/nri").exists()
