"""The compiled bridge and the plugins of its own build, which are residents."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.node import BINARIES, BridgeNode
from harness.processes import command_line, descendants, name
from nri.status import client
from nri.v2 import api
from tests.support.processes import is_running
from tests.support.waiting import SOON, wait_until

OWN = ("clearcfs", "konfine", "logger", "device-injector", "hook-injector", "ulimit-adjuster", "qos")


class OwnNode:
    """A node with a copy of the compiled executables, and all plugins of the build in one configuration."""

    def __init__(self, root: Path) -> None:
        self.binaries = root / "nri"
        shutil.copytree(BINARIES, self.binaries, symlinks=True)
        (self.binaries / "clearcfs2").symlink_to("clearcfs")
        self.root = root
        options = {"confFile": str(root / "none")}
        self.node = BridgeNode(
            root, self.binaries / "v1bridge", bin_dirs=[self.binaries], options=options, request_timeout=SOON
        )
        # konfine is loaded, and gets no event, since it would change cgroups of this machine.
        confs: dict[str, Any] = {
            "logger": {"conf": {"file": str(root / "log")}},
            "konfine": {"when": {"namespaces": ["other"]}},
        }
        self.types = [*OWN, "clearcfs2"]
        self.node.configure("10.conf", *({"type": each, **confs.get(each, {})} for each in self.types))
        self.node.start()

    def event(self) -> None:
        """Start a pod, which none of the plugins changes."""
        self.node.runtime.run_pod_sandbox(api.PodSandbox(id="pod", name="web", namespace="default", uid="uid"))

    def is_ready(self) -> bool:
        """Send an event; return whether all plugins are ready, and none has failed."""
        self.event()
        plugins = client.status(str(self.root / "v1bridge.sock"))["plugins"]
        states = {each["type"]: (each["resident"]["state"], each["lastError"]) for each in plugins}
        return states == dict.fromkeys(self.types, ("ready", None))

    def residents(self) -> dict[str, int]:
        """Return the process of each resident."""
        lines = {pid: command_line(pid).split(b"\0") for pid in descendants(self.node.pid)}
        return {line[0].decode(): pid for pid, line in lines.items() if line[1:2] == [b"serve"]}


@pytest.fixture
def own(binaries: Path, tmp_path: Path) -> Iterator[OwnNode]:
    own = OwnNode(tmp_path)
    yield own
    own.node.close()


def test_all_plugins_of_the_build_are_residents_with_their_names(own: OwnNode) -> None:
    assert wait_until(own.is_ready), own.node.log()
    residents = own.residents()
    assert sorted(residents) == sorted(own.types)
    assert {name(pid) for pid in residents.values()} == {each[:15] for each in own.types}
    for _ in range(3):
        own.event()
    assert own.residents() == residents
    assert "WARN" not in own.node.log().upper()


def test_a_replaced_executable_gets_a_resident_of_its_own(own: OwnNode) -> None:
    assert wait_until(own.is_ready), own.node.log()
    before = own.residents()["logger"]
    shutil.copy2(own.binaries / "logger", own.binaries / "logger.new")
    (own.binaries / "logger.new").rename(own.binaries / "logger")
    assert wait_until(lambda: own.is_ready() and own.residents().get("logger") not in (None, before))
    assert not is_running(before)
