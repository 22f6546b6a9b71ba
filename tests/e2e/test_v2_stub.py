"""Plugins of nri.v2.stub, and the examples of its page, on a real containerd 1.7 and 2.x.

Most plugins run in the test's process: it connects to the socket in the runtime's mount namespace, and gives the stub
the connections.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.containerd.bridged import SOCKET, create, knob
from harness.containerd.instance import Containerd, Release
from nri.v2 import api, stub
from nri.v2.stub.plugin import HANDLERS
from tests.e2e import live
from tests.support.waiting import SOON, until

pytestmark = pytest.mark.runtime
LIFE = [
    *(
        "run_pod_sandbox",
        "create_container",
        "post_create_container",
        "start_container",
        "post_start_container",
    ),
    *("stop_container", "stop_pod_sandbox", "remove_container", "remove_pod_sandbox"),
]


class Listening(stub.V2Plugin):
    """Handles every event, and keeps those that arrive."""

    def __init__(self, choice: list[int | str] | None = None) -> None:
        self.choice, self.arrived = choice, [""][:0]
        self.is_synchronized = threading.Event()
        for name in HANDLERS.values():
            if not hasattr(self, name):
                setattr(self, name, lambda request, call, name=name: self.arrived.append(name))

    def configure(self, config: str, runtime: stub.RuntimeInfo) -> list[int | str] | None:
        return self.choice

    def synchronize(self, pods: object, containers: object) -> None:
        self.is_synchronized.set()


@pytest.fixture
def bare(containerd_v2: Release) -> Iterator[Containerd]:
    """A containerd of each generation, without a plugin."""
    with Containerd(release=containerd_v2) as containerd:
        yield containerd


def dial(containerd: Containerd) -> socket.socket:
    """Connect to the runtime's socket, which only its mount namespace has."""
    pid = min(containerd.enclosure.processes())
    sock = socket.socket(socket.AF_UNIX)
    # /var/run is a link, which leads out of there.
    sock.connect(f"/proc/{pid}/root{SOCKET.removeprefix('/var')}")
    return sock


@contextmanager
def connected(containerd: Containerd, index: str, plugin: Listening) -> Iterator[stub.Runner]:
    """A plugin that serves a connection of the test's, and is synchronized."""
    runner = stub.Runner(plugin, name="tester", index=index, sock=dial(containerd), environment={})
    serving = threading.Thread(target=runner.run)
    serving.start()
    try:
        assert plugin.is_synchronized.wait(SOON)
        yield runner
    finally:
        runner.stop()
        serving.join(SOON)
        assert not serving.is_alive()


def test_only_the_chosen_events_arrive(bare: Containerd) -> None:
    choosing = Listening(["StopContainer", "createcontainer", api.Event.REMOVE_POD_SANDBOX])
    everything = Listening()
    with connected(bare, "10", choosing), connected(bare, "20", everything), bare.cri() as cri:
        live(cri, create)
        until(lambda: "remove_pod_sandbox" in everything.arrived, "the end of the pod")
    assert choosing.arrived == ["create_container", "stop_container", "remove_pod_sandbox"]
    assert [each for each in everything.arrived if each in LIFE] == LIFE


def test_an_update_that_nothing_asked_for_reaches_the_container(bare: Containerd) -> None:
    with connected(bare, "10", Listening(["StartContainer"])) as runner, bare.cri() as cri:
        container = create(cri, cri.run_pod("web"))
        cri.start(container)
        assert runner.runtime is not None
        assert runner.runtime.name == "containerd"
        resources = {"cpu": {"quota": {"value": 70_000}}}
        update = api.ContainerUpdate(container_id=container, linux={"resources": resources})
        assert runner.update_containers([update], timeout=SOON) == []
        assert knob(bare, container, "cpu.cfs_quota_us") == "70000"
