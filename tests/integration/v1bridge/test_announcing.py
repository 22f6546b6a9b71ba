"""The state of the bridge in its file, whichever thread announces it."""

from __future__ import annotations

import json
import logging
import threading
from typing import TYPE_CHECKING

from nri import presence
from nri.presence import CONNECTED, CONNECTING
from tests.support.node import Node

if TYPE_CHECKING:
    import pytest

    from tests.support.host import Host


def test_threads_that_announce_at_once_leave_a_whole_file(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "nri.v1bridge")
    bridge = Node(host).bridge

    def announce(state: str) -> None:
        for _ in range(200):
            bridge.announce(state)

    threads = [threading.Thread(target=announce, args=(state,)) for state in (CONNECTED, CONNECTING) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bridge.announce(CONNECTING)
    assert caplog.messages == []
    assert json.loads((host.root / "v1bridge.state").read_text())["state"] == CONNECTING
    assert not presence.judge(str(host.root / "v1bridge.state"))[0]


def test_a_thread_that_announces_after_the_end_leaves_no_file(host: Host) -> None:
    bridge = Node(host).bridge
    bridge.announce(CONNECTED)
    assert (host.root / "v1bridge.state").exists()
    bridge.close()
    bridge.announce(CONNECTING)
    assert not [path.name for path in host.root.glob("v1bridge.state*")]
