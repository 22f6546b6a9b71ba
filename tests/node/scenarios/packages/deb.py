"""The Debian package on this node: install, serve, upgrade, remove, purge."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.guest import node, processes
from tests.node.guest.shell import run, wait_until

PACKAGE = Path("/payload/nri.deb")
OPTIONS = Path("/etc/nri/v1bridge.json")


@pytest.fixture(autouse=True)
def purged() -> Iterator[None]:
    yield
    run("dpkg", "--purge", "nri", status=None)


def test_the_package_installs_upgrades_removes_and_purges(tmp_path: Path) -> None:
    node.use_containerd(2)
    said = run("dpkg", "--install", PACKAGE)
    assert "systemctl enable --now nri-v1bridge" in said
    assert not processes.bridges()  # nothing runs that nobody asked for
    node.configure(node.CLEARCFS, node.KONFINE)
    Path("/etc/nri/resource.d/10-konfine.conf").unlink()
    Path("/etc/nri/resource.d/20-clearcfs.conf").unlink()
    seen = node.synchronizations()
    run("systemctl", "enable", "--now", "nri-v1bridge")
    wait_until("the bridge is synchronized", lambda: node.synchronizations() > seen)
    node.serves("package")
    assert "right  /opt/nri/bin/clearcfs" in run("nri", "check")

    # A newer version, with the operator's own options kept.
    OPTIONS.write_text(json.dumps({"logLevel": "debug"}))
    run("dpkg-deb", "--raw-extract", PACKAGE, tmp_path / "tree")
    control = tmp_path / "tree/DEBIAN/control"
    version = "Version: "
    text = control.read_text()
    control.write_text(text.replace(version, f"{version}99."))
    (tmp_path / "tree/usr/lib/nri/dist/_internal/of-another-build").write_text("x")
    run(
        "dpkg-deb",
        "--root-owner-group",
        "-Znone",
        "--build",
        tmp_path / "tree",
        tmp_path / "newer.deb",
    )
    before = Path("/opt/nri/lib").resolve()
    run("dpkg", "--force-confold", "--install", tmp_path / "newer.deb")
    assert Path("/opt/nri/lib").resolve() != before
    assert json.loads(OPTIONS.read_text()) == {"logLevel": "debug"}
    node.serves("newer")  # the bridge still is the old one
    seen = node.synchronizations()
    run("systemctl", "restart", "nri-v1bridge")
    wait_until("the new bridge is synchronized", lambda: node.synchronizations() > seen)
    node.serves("newer-bridge")

    run("dpkg", "--remove", "nri")
    assert not processes.bridges()
    assert not Path("/opt/nri/lib").exists()
    assert OPTIONS.exists()
    run("dpkg", "--purge", "nri")
    left = run("find", "/opt/nri", "/etc/nri", "/usr/lib/nri", "/usr/share/doc/nri", status=None)
    ours = [line for line in left.splitlines() if "No such file" not in line]
    assert ours == ["/etc/nri", "/etc/nri/resource.d", "/etc/nri/resource.d/10.conf"] or set(
        ours
    ) <= {
        "/etc/nri",
        "/etc/nri/resource.d",
        "/etc/nri/resource.d/10.conf",  # the operator's own
        "/etc/nri/conf.d",
        "/etc/nri/conf.d/10-v1bridge.conf",
    }
    run("systemctl", "status", "nri-v1bridge", status=4)  # no such unit
