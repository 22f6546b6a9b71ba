"""``make install``, and the OCI hooks that run what it has installed."""

import json
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.installing import DEPLOY, ROOT, build, links, run, source, tree

SCRIPTS = [
    *(ROOT / "tools" / name for name in ("layout", "install", "install-lib", "uninstall", "rollback", "deb")),
    DEPLOY / "kubernetes/install-node",
    DEPLOY / "kubernetes/follow-configuration",
]


def test_without_rights_it_stops_before_anything_is_done_and_says_why() -> None:
    with tempfile.TemporaryDirectory(prefix="nri-test-") as folder:
        os.chmod(folder, 0o755)  # anybody may look
        checkout = source(Path(folder))
        shutil.copy(ROOT / "Makefile", checkout)
        shut = Path(folder) / "shut"
        shut.mkdir(mode=0o555)
        (shut / "usr").mkdir(mode=0o555)
        nobody = 65534
        user: dict[str, Any] = {"user": nobody, "group": nobody, "extra_groups": []} if os.geteuid() == 0 else {}
        for command in (["tools/install", str(shut)], ["make", "--silent", "install", f"DESTDIR={shut}"]):
            done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False, **user)
            assert done.returncode != 0
            (said,) = [line for line in done.stderr.splitlines() if not line.startswith("make")]
            who = pwd.getpwuid(user.get("user", os.geteuid())).pw_name
            assert said.startswith(f"tools/install: cannot write to {shut} as {who}; run it as root, or name a tree ")
            assert done.stdout == ""
        assert [path.name for path in shut.rglob("*")] == ["usr"]


def test_a_file_of_anothers_in_the_place_of_a_link_is_kept_and_named(tmp_path: Path) -> None:
    checkout, node = source(tmp_path), tmp_path / "node"
    for place in ("opt/nri/bin/clearcfs", "usr/local/bin/nri"):
        (node / place).parent.mkdir(parents=True)
        (node / place).write_text("another's")
    (node / "opt/nri/bin/konfine").symlink_to("/srv/konfine")

    said = run(checkout / "tools/install", node).stdout.splitlines()

    for place, name in (
        ("opt/nri/bin/clearcfs", "clearcfs"),
        ("opt/nri/bin/konfine", "konfine"),
        ("usr/local/bin/nri", "nri"),
    ):
        why = f"not installed by this; to use {name}, remove it and install again"
        assert f"kept      {node}/{place} ({why})" in said
    assert (node / "opt/nri/bin/clearcfs").read_text() == (node / "usr/local/bin/nri").read_text() == "another's"
    assert os.readlink(node / "opt/nri/bin/konfine") == "/srv/konfine"


def test_every_plugin_of_the_folder_has_its_link(tmp_path: Path) -> None:
    checkout, node = source(tmp_path), tmp_path / "node"
    shutil.copy(checkout / "dist/nri/konfine", checkout / "dist/nri/third")
    (checkout / "dist/nri/_internal").mkdir()
    (checkout / "dist/nri/README").write_text("not an executable")
    run(checkout / "tools/install", node)
    assert links(node / "opt/nri/bin") == {name: f"../lib/{name}" for name in ("clearcfs", "konfine", "third")}


@pytest.mark.parametrize("shell", [["dash"], ["busybox", "sh"]], ids=" ".join)
def test_every_script_is_understood_by_the_shells_of_a_node(shell: list[str]) -> None:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not installed")
    for script in SCRIPTS:
        run(*shell, "-n", script)


def test_shellcheck_finds_nothing_in_the_scripts() -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    run("shellcheck", "--shell=sh", "--exclude=SC1091", *SCRIPTS)


def test_busybox_has_all_that_the_scripts_need(tmp_path: Path) -> None:
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("busybox is not installed")
    applets = tmp_path / "applets"
    applets.mkdir()
    run(busybox, "--install", "-s", applets)
    checkout, node = source(tmp_path), tmp_path / "node"

    def tool(name: str) -> str:
        command = [applets / "sh", checkout / "tools" / name, node]
        done = subprocess.run(command, env={"PATH": str(applets)}, capture_output=True, text=True, check=False)
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


# OCI hooks


def test_the_hooks_run_what_is_installed(installed: Path) -> None:
    for file in (DEPLOY / "hooks.d").iterdir():
        path = json.loads(file.read_text())["hook"]["path"]
        assert (installed / path.lstrip("/")).resolve().name == "nri"
