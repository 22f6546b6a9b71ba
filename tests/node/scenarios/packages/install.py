"""What `make install` makes of this node: an upgrade under running pods, the way back, the removal."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.guest import node, processes
from tests.node.guest.shell import run

TOOLS = node.PROJECT / "tools"
DIST = node.PROJECT / "dist/nri"
LIB = Path("/opt/nri/lib")


@pytest.fixture(scope="module")
def containerd() -> Iterator[None]:
    """containerd 2.x, which launches what is in /opt/nri/plugins when it starts."""
    run(TOOLS / "uninstall", "--force", "", status=None)  # what other scenarios have installed
    node.use_containerd(2)
    yield
    run(TOOLS / "uninstall", "--force", "", status=None)


def _restart() -> None:
    run("systemctl", "restart", "containerd")
    node.wait_for_containerd()


@pytest.mark.core
def test_install_upgrade_rollback_and_uninstall(containerd: None) -> None:
    said = run(TOOLS / "install", "")
    assert "installed /etc/nri/resource.d/10-konfine.conf" in said
    node.configure(node.CLEARCFS, node.KONFINE)
    _restart()
    node.serves("installed")
    first = LIB.resolve()

    # An upgrade under a running bridge: another build, with another hash.
    (DIST / "_internal/of-another-build").write_text("x")
    said = run(TOOLS / "install", "")
    assert LIB.resolve() != first
    assert "restart the runtime" in said  # the bridge still runs from the first folder
    node.serves("upgraded")  # by a bridge of the first build, with plugins of the second
    _restart()
    node.serves("upgraded-and-restarted")

    said = run(TOOLS / "rollback", "")
    assert LIB.resolve() == first, said
    _restart()
    node.serves("rolled-back")
    run(TOOLS / "rollback", "")
    assert LIB.resolve() != first

    # Nothing is removed before the bridge has ended.
    shutil.rmtree("/etc/nri/resource.d")
    said = run(TOOLS / "uninstall", "", status=1)
    assert said.count("which the runtime has launched: restart the runtime") == 1
    Path("/opt/nri/plugins/10-v1bridge").unlink()
    _restart()
    assert not processes.bridges()
    run(TOOLS / "uninstall", "")
    assert not Path("/opt/nri").exists()
    assert not Path("/usr/local/bin/nri").is_symlink()
