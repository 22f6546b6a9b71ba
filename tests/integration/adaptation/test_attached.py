"""Plugins that are attached over a socket: registration, and the end."""

from __future__ import annotations

import socket
import threading

import pytest

from nri.adaptation import AdaptationError, Runtime
from nri.v2.ttrpc import StatusError
from tests.support.v2_plugin import Plugin
from tests.support.waiting import SOON


@pytest.mark.parametrize(
    ("index", "name", "complaint"),
    [("1a", "a", "found the plugin index '1a'"), ("10", "", "found the plugin name ''")],
)
def test_a_plugin_with_a_wrong_name_is_refused(index: str, name: str, complaint: str) -> None:
    with Runtime() as runtime:
        ours, theirs = socket.socketpair()
        plugin = Plugin(sock=theirs, index=index, name=name).start()
        attaching = threading.Thread(target=attach, args=[runtime, ours])
        attaching.start()
        with pytest.raises(StatusError, match=complaint):
            plugin.register()
        assert plugin.gone(SOON)
        attaching.join()
        assert runtime.plugins == []


def test_one_that_says_nothing_is_sent_away() -> None:
    with Runtime(registration_timeout=0.1) as runtime:
        ours, theirs = socket.socketpair()
        plugin = Plugin(sock=theirs).start()
        with pytest.raises(AdaptationError, match=r"did not register within 0.1 s"):
            runtime.attach(ours)
        assert plugin.gone(SOON)


def test_a_runtime_can_be_closed_while_plugins_come() -> None:
    runtime = Runtime()
    runtime.start()
    pairs = [socket.socketpair() for _ in range(8)]
    plugins = [Plugin(sock=theirs, index=f"{number:02}").start() for number, (_, theirs) in enumerate(pairs)]
    threads = [threading.Thread(target=attach, args=[runtime, ours]) for ours, _ in pairs]
    threads += [threading.Thread(target=register, args=[plugin]) for plugin in plugins]
    for thread in threads:
        thread.start()
    runtime.close()
    for plugin in plugins:
        assert plugin.gone(SOON)
    for thread in threads:
        thread.join()


def attach(runtime: Runtime, sock: socket.socket) -> None:
    try:
        runtime.attach(sock)
    except AdaptationError:
        pass


def register(plugin: Plugin) -> None:
    try:
        plugin.register()
    except Exception:
        pass
