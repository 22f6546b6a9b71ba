"""The compiled bridge and the plugins of its own build, which share one server process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from harness.node import BINARIES, BridgeNode
from harness.processes import command_line, descendants, name
from nri import api, build_mark
from nri.process.wait import stat_fields
from nri.status import client
from tests.support.processes import is_running
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OWN = ("clearcfs", "konfine", "logger", "device-injector", "hook-injector", "ulimit-adjuster")


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

    def family(self) -> list[int]:
        """Return the processes below the bridge."""
        return descendants(self.node.pid)

    def states(self) -> dict[str, tuple[str, str]]:
        """Return the state of each plugin, and its error."""
        plugins = client.status(str(self.root / "v1bridge.sock"))["plugins"]
        return {each["type"]: (each["prefork"]["state"], str(each["lastError"])) for each in plugins}

    def is_ready(self) -> bool:
        """Send an event; return whether all plugins are loaded, and none has failed."""
        self.event()
        return self.states() == dict.fromkeys(self.types, ("ready", "None"))

    def shared(self) -> list[int]:
        """Return the shared servers."""
        return [pid for pid in self.family() if self.is_server(pid, b"prefork-server")]

    def alone(self) -> list[str]:
        """Return the plugins with a server of their own."""
        return [name(pid) for pid in self.family() if self.is_server(pid, b"prefork")]

    def is_server(self, pid: int, verb: bytes) -> bool:
        """Return whether a process was started with this verb, and is not one of the workers."""
        try:
            parent = int(stat_fields(pid)[1])
        except OSError:
            return False  # it has ended
        return parent == self.node.pid and command_line(pid).split(b"\0")[1:2] == [verb]

    def log(self) -> str:
        """Return the bridge's log."""
        return self.node.log_file.read_text()


@pytest.fixture
def own(binaries: Path, tmp_path: Path) -> Iterator[OwnNode]:
    own = OwnNode(tmp_path)
    yield own
    own.node.close()


def test_all_plugins_of_the_build_share_one_server_and_each_worker_has_its_plugins_name(own: OwnNode) -> None:
    assert wait_until(own.is_ready, SOON), own.log()
    (server,) = own.shared()
    assert own.alone() == []

    def names() -> set[str]:
        return {name(pid) for pid in own.family() if pid != server} - {"nri-watchdog"}

    # A worker has its server's name for a moment.
    assert wait_until(lambda: names() == {each[:15] for each in own.types}, SOON), names()
    assert "WARN" not in own.log().upper()


def test_a_shared_server_that_is_killed_costs_no_event_and_is_replaced(own: OwnNode) -> None:
    assert wait_until(own.is_ready, SOON), own.log()
    (before,) = own.shared()
    os.kill(before, signal.SIGKILL)
    for _ in range(3):
        own.event()
    assert wait_until(lambda: own.is_ready() and len(own.shared()) == 1 and own.shared() != [before], SOON), own.log()
    assert not is_running(before)


def test_an_executable_of_another_build_gets_a_server_of_its_own(own: OwnNode) -> None:
    assert wait_until(own.is_ready, SOON), own.log()
    path, other = own.binaries / "logger", own.binaries / "logger.new"
    content = path.read_bytes()
    _, _, module = build_mark.read(str(path))
    other.write_bytes(content[: -build_mark.SIZE] + build_mark.encode("0" * 32, module))
    other.chmod(0o755)
    other.rename(path)
    assert wait_until(lambda: own.is_ready() and own.alone() == ["logger"], SOON), own.log()
    assert len(own.shared()) == 1


def test_after_the_bridges_executable_was_replaced_each_plugin_gets_a_server_of_its_own(own: OwnNode) -> None:
    assert wait_until(own.is_ready, SOON), own.log()
    before = own.shared()
    path, other = own.binaries / "v1bridge", own.binaries / "v1bridge.new"
    shutil.copy2(path, other)
    with other.open("r+b") as file:
        file.seek(-build_mark.SIZE, os.SEEK_END)
        file.write(build_mark.encode("0" * 32, "nri.cli.bridge_entry"))
    other.rename(path)
    assert wait_until(lambda: own.is_ready() and len(own.alone()) == len(own.types) - 1, SOON), own.log()
    assert own.shared() == before  # for konfine, which gets no event


def test_a_bridge_that_is_killed_leaves_no_server_and_no_worker(own: OwnNode) -> None:
    assert wait_until(own.is_ready, SOON), own.log()
    family = own.family()
    os.kill(own.node.pid, signal.SIGKILL)
    assert wait_until(lambda: not any(is_running(pid) for pid in family), SOON)


def test_a_server_of_another_build_refuses_to_serve(own: OwnNode) -> None:
    for host in ("v1bridge", "nri"):
        ran = subprocess.run([own.binaries / host, "prefork-server", "0" * 32], capture_output=True, check=False)
        assert ran.returncode == 2
        assert b"this executable is of another build than the host that has started it" in ran.stderr
