"""The script of the init container installs on a node what ``make install`` lays out."""

import shutil
import subprocess
from pathlib import Path

import pytest

from nri.v1bridge import BridgeOptions
from tests.support.installing import BINARIES, BRIDGE, DEPLOY, links, run, sleeper, tree

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


def test_its_last_line_names_what_it_has_installed_and_not_the_nodes_own_plugins(node: Path, image: Path) -> None:
    (node / "opt/nri/bin").mkdir()
    (node / "opt/nri/bin/mine").write_text("#!/bin/sh\n")
    (node / "opt/nri/bin/konfine").write_text("the node's own")
    said = install_node("outside", node, image).stdout.splitlines()
    folder = (node / "opt/nri/lib").resolve().name
    assert said[-2:] == [
        "install-node: the node's own plugins, not changed: konfine mine",
        f"install-node: installed {folder}: clearcfs",
    ]
    assert (node / "opt/nri/bin/konfine").read_text() == "the node's own"


def test_an_unknown_mode_is_an_error(node: Path, image: Path) -> None:
    done = install_node("remove", node, image, check=False)
    expected = "expected register, outside, rollback or uninstall"
    assert (done.returncode, done.stderr) == (2, f"install-node: found the mode 'remove', {expected}\n")


@pytest.mark.parametrize("mode", ["outside", "register"])
def test_an_uninstallation_removes_what_was_installed_and_nothing_else(node: Path, image: Path, mode: str) -> None:
    install_node(mode, node, image)
    (image / "opt/nri/lib/clearcfs").write_text("#!/bin/sh\n# another\n")
    install_node(mode, node, image)
    own = {"opt/nri/bin/mine": "#!/bin/sh\n", "opt/nri/plugins/20-logger": "", "etc/nri/resource.d/10.conf": "{}"}
    for name, text in own.items():
        (node / name).parent.mkdir(parents=True, exist_ok=True)
        (node / name).write_text(text)

    said = install_node("uninstall", node, image).stdout.splitlines()

    assert said[-1] == "install-node: removed all that it had installed"
    assert tree(node) == own
    again = install_node("uninstall", node, image).stdout.splitlines()
    assert again[-1] == said[-1]
    assert tree(node).keys() >= own.keys()


def test_an_uninstallation_puts_back_the_bridge_options_that_the_node_had_before(node: Path, image: Path) -> None:
    options = node / "etc/nri/conf.d/10-v1bridge.conf"
    options.parent.mkdir()
    options.write_text('{"logLevel": "debug"}')
    for _ in range(2):
        install_node("register", node, image)
        assert BridgeOptions.parse(options.read_text()).log_level == "info"
    install_node("uninstall", node, image)
    assert tree(node / "etc") == {"nri/conf.d/10-v1bridge.conf": '{"logLevel": "debug"}'}


def test_an_uninstallation_keeps_bridge_options_that_were_changed_since(node: Path, image: Path) -> None:
    install_node("register", node, image)
    (node / "etc/nri/conf.d/10-v1bridge.conf").write_text("changed")
    install_node("uninstall", node, image)
    assert tree(node / "etc") == {"nri/conf.d/10-v1bridge.conf": "changed"}


def test_an_uninstallation_waits_for_the_bridge_and_leaves_it_its_plugins(node: Path, image: Path) -> None:
    """The runtime does not launch it again when it is restarted."""
    sleeper(image / "opt/nri/lib/v1bridge")
    install_node("register", node, image)
    process = subprocess.Popen([node / BRIDGE, "1000"])
    try:
        before = links(node / "opt/nri")
        del before["plugins/10-v1bridge"]
        for _ in range(2):
            done = install_node("uninstall", node, image, check=False)
            assert done.returncode == 1
            wrong = (
                "a bridge runs on this node, and needs its plugins; this container is started again when it has ended"
            )
            assert done.stderr.startswith(f"install-node: {wrong}\n")
            assert (
                f"/v1bridge (process {process.pid}), which the runtime has launched: restart the runtime"
                in done.stderr
            )
            assert links(node / "opt/nri") == before
    finally:
        process.kill()
        process.wait()
    install_node("uninstall", node, image)
    assert not (node / "opt/nri").exists()


def test_a_node_goes_back_to_its_previous_binaries(node: Path, image: Path) -> None:
    install_node("outside", node, image)
    first = (node / "opt/nri/lib").resolve()
    (image / "opt/nri/lib/clearcfs").write_text("#!/bin/sh\n# another\n")
    install_node("outside", node, image)
    assert (node / "opt/nri/lib").resolve() != first
    assert f"now       lib: {first.name}, " in install_node("rollback", node, image).stdout
    assert (node / "opt/nri/lib").resolve() == first
