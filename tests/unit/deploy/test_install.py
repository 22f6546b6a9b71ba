"""``make install``, and the OCI hooks that run what it has installed."""

import json
import os
import pwd
import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest

from harness.containerd import toml
from tests.support.installing import DEPLOY, ROOT, build, links, run, source, tree

SCRIPTS = [
    *(
        ROOT / "tools" / name
        for name in ("layout", "install", "install-lib", "uninstall", "rollback", "deb")
    ),
    DEPLOY / "kubernetes/install-node",
    DEPLOY / "kubernetes/follow-configuration",
]
NOBODY: dict[str, Any] = (
    {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
)


@pytest.mark.parametrize("target", ["install", "uninstall", "rollback"])
def test_without_rights_nothing_is_changed_and_one_line_says_why(target: str) -> None:
    with tempfile.TemporaryDirectory(prefix="nri-test-") as folder:
        os.chmod(folder, 0o755)  # anybody may look
        checkout, node = source(Path(folder)), Path(folder) / "node"
        shutil.copy(ROOT / "Makefile", checkout)
        if target == "install":
            node.mkdir()
            shut = node
        else:
            for version in ("1.2.3", "1.2.4"):
                build(checkout, version)
                run(checkout / "tools/install", node)
            shut = node / "opt/nri"
        before = tree(node)
        shut.chmod(0o555)
        for command in (
            [f"tools/{target}", str(node)],
            ["make", "--silent", target, f"DESTDIR={node}"],
        ):
            done = subprocess.run(
                command, cwd=checkout, capture_output=True, text=True, check=False, **NOBODY
            )
            assert (done.returncode != 0, done.stdout) == (True, "")
            (said,) = [line for line in done.stderr.splitlines() if not line.startswith("make")]
            who = pwd.getpwuid(NOBODY.get("user", os.geteuid())).pw_name
            assert f": cannot write to {shut} as {who}; run it as root, or name a tree " in said
        shut.chmod(0o755)
        assert tree(node) == before


def test_other_files_in_place_of_links_are_kept_and_named(tmp_path: Path) -> None:
    checkout, node = source(tmp_path), tmp_path / "node"
    for place in ("opt/nri/bin/clearcfs", "usr/local/bin/nri"):
        (node / place).parent.mkdir(parents=True)
        (node / place).write_text("another's")
    (node / "opt/nri/bin/konfine").symlink_to("/srv/konfine")

    said = run(checkout / "tools/install", node).stdout.splitlines()

    for place in ("opt/nri/bin/clearcfs", "opt/nri/bin/konfine", "usr/local/bin/nri"):
        why = (
            f"not installed by this; to use {os.path.basename(place)}, remove it and install again"
        )
        assert f"kept      {node}/{place} ({why})" in said
    assert (
        (node / "opt/nri/bin/clearcfs").read_text()
        == (node / "usr/local/bin/nri").read_text()
        == "another's"
    )
    assert os.readlink(node / "opt/nri/bin/konfine") == "/srv/konfine"


def test_every_plugin_of_the_folder_has_its_link(tmp_path: Path) -> None:
    checkout, node = source(tmp_path), tmp_path / "node"
    shutil.copy(checkout / "dist/nri/konfine", checkout / "dist/nri/third")
    (checkout / "dist/nri/_internal").mkdir()
    (checkout / "dist/nri/README").write_text("not an executable")
    run(checkout / "tools/install", node)
    assert links(node / "opt/nri/bin") == {
        name: f"../lib/{name}" for name in ("clearcfs", "konfine", "third")
    }


def test_busybox_has_all_that_the_scripts_need(tmp_path: Path) -> None:
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("busybox is not installed")
    applets = tmp_path / "applets"
    applets.mkdir()
    run(busybox, "--install", "-s", applets)
    for script in SCRIPTS:
        run(applets / "sh", "-n", script)
    checkout, node = source(tmp_path), tmp_path / "node"

    def tool(name: str) -> str:
        command = [applets / "sh", checkout / "tools" / name, node]
        done = subprocess.run(
            command, env={"PATH": str(applets)}, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    for version in ("1.2.3", "1.2.4"):
        build(checkout, version)
        tool("install")
    assert (node / "opt/nri/lib").resolve().name.startswith("lib.1.2.4-")
    tool("rollback")
    assert (node / "opt/nri/lib").resolve().name.startswith("lib.1.2.3-")
    tool("uninstall")
    assert tree(node) == {"etc": "(empty)", "opt": "(empty)", "usr/local/bin": "(empty)"}


def test_an_upgrade_brings_back_nothing_that_was_removed(tmp_path: Path) -> None:
    checkout, node = source(tmp_path), tmp_path / "node"
    run(checkout / "tools/install", node)
    removed = [node / "etc/nri/resource.d/10-konfine.conf", node / "opt/nri/plugins/10-v1bridge"]
    for file in removed:
        file.unlink()
    build(checkout, "1.2.4")
    run(checkout / "tools/install", node)
    assert not [file for file in removed if os.path.lexists(file)]
    assert (node / "opt/nri/lib").resolve().name.startswith("lib.1.2.4-")


def test_samples_are_not_added_to_what_was_applied(tmp_path: Path) -> None:
    checkout, node = source(tmp_path), tmp_path / "node"
    (node / "etc/nri/sets/a").mkdir(parents=True)
    (node / "etc/nri/resource.d").symlink_to("sets/a")
    run(checkout / "tools/install", node)
    assert list((node / "etc/nri/sets/a").iterdir()) == []


def test_oci_hooks_run_what_is_installed(installed: Path) -> None:
    for file in (DEPLOY / "hooks.d").iterdir():
        path = json.loads(file.read_text())["hook"]["path"]
        assert (installed / path.lstrip("/")).resolve().name == "nri"


@pytest.mark.parametrize(
    ("name", "version", "cri"),
    [
        ("config-1.toml", (1, 7), "io.containerd.grpc.v1.cri"),
        ("config-2.toml", (2, 1), "io.containerd.cri.v1.runtime"),
    ],
)
def test_containerd_is_configured_as_in_the_tests_that_run_it(
    name: str, version: tuple[int, ...], cri: str
) -> None:
    sample = tomllib.loads((DEPLOY / "containerd" / name).read_text())
    tested = tomllib.loads(
        toml.config(
            version, root=Path("/r"), socket=Path("/s"), oci_runtime="/opt/nri/sbin/nri-runc"
        )
    )
    assert sample["version"] == tested["version"]
    assert (
        sample["plugins"][cri]["containerd"]["runtimes"]
        == tested["plugins"][cri]["containerd"]["runtimes"]
    )
