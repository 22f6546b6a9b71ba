"""The bridge as a process, and in a session; both are gone at the end of a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nri.client import standing
from tests.integration.v1bridge.bridge_process import BridgeProcess, a_bridge
from tests.integration.v1bridge.site import Connected
from tests.support import scripts
from tests.support.connected import at_work
from tests.support.host import Host
from tests.support.node import Node
from tests.support.runtime import Runtime
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def scripts_are_residents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep scripts running, too: the plugins of these tests are not compiled."""
    monkeypatch.setattr(standing, "is_built", scripts.is_plugin)


@pytest.fixture
def node(host: Host) -> Node:
    return Node(host)


@pytest.fixture
def bridge(host: Host) -> Iterator[BridgeProcess]:
    with a_bridge(host) as bridge:
        yield bridge


@pytest.fixture
def runtime(bridge: BridgeProcess) -> Runtime:
    """The runtime of a bridge from outside."""
    return bridge.serve()


@pytest.fixture
def second(host: Host) -> Iterator[BridgeProcess]:
    """Another bridge of the same node."""
    second = BridgeProcess(host)
    second.log_file = host.root / "second.log"
    yield second
    second.close()


@pytest.fixture
def connected(host: Host) -> Iterator[Connected]:
    connected = Connected(host)
    connected.fake.start()
    yield connected
    connected.close()
    # The threads of a session end after what they are at.
    assert wait_until(lambda: not at_work())
