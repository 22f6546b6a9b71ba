"""The bridge in this process, with a whole session: its runtime is at the other end of a socket."""

from __future__ import annotations

import socket
import threading
from typing import Any

from nri.v2 import api
from nri.v2.stub import Identity, Session
from tests.support.host import Host
from tests.support.node import Node
from tests.support.pods import container, pod
from tests.support.runtime import Runtime
from tests.support.waiting import SOON


class Connected(Node):
    """The bridge at one end of a socket, a runtime at the other."""

    def __init__(self, host: Host, **changes: Any) -> None:
        super().__init__(host, **changes)
        self.connect()

    def connect(self) -> None:
        ours, theirs = socket.socketpair()
        self.socket = ours
        self.fake = Runtime(theirs)
        self.session = Session(self.bridge, Identity(name="v1bridge", index="10"), ours)
        self.thread = threading.Thread(target=self.session.run)
        self.thread.start()

    def close(self) -> None:
        self.fake.close()
        self.thread.join(SOON)
        assert not self.thread.is_alive()


def ask(node: Connected, seconds: float = SOON) -> Any:
    request = api.StartContainerRequest(pod=pod(), container=container())
    return node.fake.event(api.Event.START_CONTAINER, request, timeout=seconds)
