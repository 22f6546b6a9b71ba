"""The plugins are loaded before the runtime is told that the bridge is ready, if that does not take long."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator

import pytest

from nri.client import resident
from nri.v1bridge import bridge
from tests.integration.v1bridge.site import Attached, entry, install, start_error
from tests.support.host import Host, plugin
from tests.support.waiting import SOON


@pytest.fixture
def attached(host: Host, caplog: pytest.LogCaptureFixture) -> Iterator[list[Attached]]:
    caplog.set_level(logging.DEBUG, "nri.client")
    made: list[Attached] = []
    yield made
    for each in made:
        each.close()


def test_first_event_finds_its_plugin_loaded(
    host: Host, attached: list[Attached], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge, "PLUGINS_WITHIN", SOON)  # a machine may be busy
    monkeypatch.setattr(resident, "READY_WITHIN", SOON)
    install(host, "warm")
    host.configure(entry("warm"))
    attached.append(Attached(host, resident=True))
    assert start_error(attached[0].runtime) == ""
    assert "rude: its resident answers this request" in caplog.text
    assert "starting a process" not in caplog.text


def test_slow_plugin_delays_no_registration(
    host: Host, attached: list[Attached], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge, "PLUGINS_WITHIN", 0.05)
    host.script(
        "slow",
        f"#!{sys.executable} -IS\n# it looks like a plugin of nri.skel, and hangs while it is asked for its version\n"
        "import os, sys, time\n"
        f"while sys.argv[1] != 'invoke' and not os.path.exists({str(host.root / 'go')!r}): time.sleep(0.01)\n"
        'sys.stdin.read()\nprint(\'{"plugin": "slow", "version": "0.1"}\')\n',
    )
    host.configure(plugin("slow"))
    attached.append(Attached(host, resident=True))
    assert attached[0].keeps_the_bridge()
    assert start_error(attached[0].runtime) == ""
    assert "slow: starting a process for this request" in caplog.text
    (host.root / "go").touch()
