"""Plugins on a node whose systemd keeps silent: they go on without it, in little time."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli.running import process
from tests.support.cgroup_node import CgroupNode, require
from tests.support.host import OCI_CONFIG, Host

SLICE = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b.slice"
SCOPE = f"{SLICE}/cri-containerd-redis.scope"


class SilentSystemd:
    """The two sockets of a systemd that accepts connections and never answers."""

    def __init__(self, run: Path) -> None:
        self.run = run
        (run / "systemd/system").mkdir(parents=True)
        (run / "dbus").mkdir()
        self._sockets = [self._listen(name) for name in ("systemd/private", "dbus/system_bus_socket")]

    def _listen(self, name: str) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.run / name))
        listener.listen()
        listener.setblocking(False)
        return listener

    def connections(self) -> list[int]:
        """Return the number of connections that each socket got; call it once."""
        return [self._accepted(listener) for listener in self._sockets]

    def _accepted(self, listener: socket.socket) -> int:
        count = 0
        while True:
            try:
                listener.accept()[0].close()
            except BlockingIOError:
                return count
            count += 1

    def close(self) -> None:
        for listener in self._sockets:
            listener.close()


@pytest.fixture
def systemd() -> Iterator[SilentSystemd]:
    with tempfile.TemporaryDirectory(prefix="nri-") as folder:
        systemd = SilentSystemd(Path(folder))
        yield systemd
        systemd.close()


def test_silent_systemd_is_not_asked_at_its_second_socket(host: Host, systemd: SilentSystemd) -> None:
    node = CgroupNode(host)
    node.tree.make(SCOPE)
    node.limit(SCOPE)
    conf = node.places | {"run": str(systemd.run)}
    node.configure({"type": "clearcfs", "conf": conf}, {"type": "konfine", "conf": conf | {"systemReserved": [0]}})
    linux = {"cgroupsPath": "kubepods-burstable-pod0a1b.slice:cri-containerd:redis"}
    host.bundle(OCI_CONFIG | {"linux": linux})
    ran = process("hook", "create", *host.options, stdin=host.state())
    require(ran.status == 0, ran.stderr)
    require(node.quota(SCOPE) == "max" and node.tree.get(SCOPE, "cpuset.cpus") == "1-3", "the plugins have run")
    assert systemd.connections() == [2, 0]
