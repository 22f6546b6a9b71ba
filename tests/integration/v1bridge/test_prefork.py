"""The bridge and plugins that are ready before they are asked."""

from __future__ import annotations

import logging
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nri import api
from nri.config.entries import PluginEntry
from nri.stub import RuntimeInfo
from nri.ttrpc import StatusError
from nri.v1bridge import Bridge
from tests.support.node import bridge_options, call
from tests.support.pods import container, pod
from tests.support.processes import has_zombie
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.host import Host

SOURCE = str(Path(__file__).parents[3])
PLUGIN = """#!{python}
import sys
sys.path.insert(0, {source!r})
import os
from nri import skel

class Noting(skel.Plugin):
    type = "noting"

    def invoke(self, request):
        with open({notes!r}, "a") as notes:
            notes.write(f"{{os.getppid()}} ")
        return request.new_result(self.type)

if __name__ == "__main__":
    with open({starts!r}, "a") as notes:
        notes.write(sys.argv[1] + " ")
    del notes
    skel.main(Noting())
"""


class Preforking:
    """A bridge, its one plugin, and a runtime that can turn ``prefork`` on and off."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.notes, self.starts = host.root / "notes", host.root / "starts"
        names = {"source": SOURCE, "notes": str(self.notes), "starts": str(self.starts)}
        host.script("noting", PLUGIN.format(python=sys.executable, **names))
        host.configure(PluginEntry(type="noting"))
        self.bridge = Bridge(bridge_options(host), lambda text: bridge_options(host, prefork=text == "prefork"))
        host.closing.append(self.bridge.close)

    def say(self, text: str) -> None:
        self.bridge.configure(text, RuntimeInfo(name="containerd", version="1.7.24"))

    def start(self) -> bool:
        """Send an event; return whether a worker served it."""
        self.bridge.start_container(api.StartContainerRequest(pod=pod(), container=container()), call())
        return int(self.notes.read_text().split()[-1]) != os.getpid()

    def is_ready(self) -> bool:
        """Return whether a server is ready."""
        pool = self.bridge._clients.pool
        return pool is not None and any(known.server is not None for known in pool._known.values())


def is_quiet() -> bool:
    """Return whether no server is being started."""
    return not any(thread.name == "prefork" for thread in threading.enumerate())


@pytest.fixture
def node(host: Host) -> Iterator[Preforking]:
    node = Preforking(host)
    yield node
    node.say("no")
    assert wait_until(is_quiet)
    assert wait_until(lambda: not host.processes() and not has_zombie())


def test_without_prefork_no_server_is_ever_started(node: Preforking) -> None:
    node.say("no")
    assert [node.start() for _ in range(5)] == [False] * 5
    assert node.starts.read_text() == "invoke " * 5


def test_with_prefork_a_server_is_ready_for_the_first_event(
    node: Preforking,
) -> None:
    node.say("prefork")
    assert wait_until(node.is_ready, SOON)
    assert node.start()
    assert node.starts.read_text().split() == ["version", "prefork"]


def test_with_prefork_an_event_that_comes_before_one_is_ready_does_not_wait_for_it(node: Preforking) -> None:
    node.host.configure()
    node.say("prefork")
    assert wait_until(is_quiet, SOON)  # it has seen that there is nothing to start
    node.host.configure(PluginEntry(type="noting"))
    assert not node.start()
    assert wait_until(node.start, SOON)
    starts = node.starts.read_text().split()
    assert (starts.count("prefork"), starts.count("version")) == (1, 1)
    assert "invoke" in starts


def test_what_cannot_be_loaded_ahead_is_said_by_the_first_event_only(
    node: Preforking, caplog: pytest.LogCaptureFixture
) -> None:
    node.host.configure(PluginEntry(type="missing"))
    node.say("prefork")
    assert wait_until(is_quiet, SOON)

    def said() -> list[str]:
        texts = [
            f"{record.getMessage()} {vars(record)}" for record in caplog.records if record.levelno > logging.INFO
        ]
        return [text for text in texts if "missing" in text]

    assert said() == []
    with pytest.raises(StatusError, match="missing: not found"):
        node.bridge.start_container(api.StartContainerRequest(pod=pod(), container=container()), call())
    assert len(said()) == 1


def test_a_plugin_that_is_configured_no_more_has_no_server_and_a_runtime_may_end_them_all(node: Preforking) -> None:
    node.say("prefork")
    assert wait_until(node.start, SOON)
    node.host.configure()
    node.bridge.start_container(api.StartContainerRequest(pod=pod(), container=container()), call())
    assert wait_until(lambda: not node.host.processes())
    node.host.configure(PluginEntry(type="noting"))
    assert not node.start()
    assert wait_until(node.start, SOON)
    node.say("no")
    assert wait_until(lambda: not node.host.processes())
    assert not node.start()
