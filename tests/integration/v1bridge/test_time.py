"""Time: a runtime drops a plugin that misses a deadline for good, so the bridge always answers before."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from nri.errors import NRIError
from nri.v1bridge import runs as module
from nri.v2 import api
from nri.v2.stub.session import ANSWER_EARLY
from nri.v2.ttrpc import Code, StatusError
from tests.integration.v1bridge.bridge_process import slow
from tests.integration.v1bridge.site import Connected, ask
from tests.support.host import Host, plugin
from tests.support.node import Node
from tests.support.pods import POD, container, pod
from tests.support.waiting import SOON, wait_until

SHORT = 60.0
"""Seconds until the deadline: a machine that is twenty times slower answers before it."""

MARGIN = 59.5
"""Of these, kept by the bridge: a plugin that never answers has the rest."""


@pytest.fixture(autouse=True)
def wide_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    # Else the session would answer first, and know nothing of policies.
    assert module.MARGIN > ANSWER_EARLY
    monkeypatch.setattr(module, "MARGIN", MARGIN)


def hang(host: Host, **options: Any) -> Any:
    host.install("hang")
    return plugin("hang", ["hang"], **options)


def test_without_a_deadline_a_plugin_has_the_settings_time(host: Host) -> None:
    node = Node(host, timeout=0.3)
    host.configure(hang(host))
    with pytest.raises(StatusError, match=r"plugin hang: killed: no result after 0\.3 s"):
        node.start(0)
    host.configure(node.keeper(timeout=SOON))
    node.start(0)
    assert len(node.kept) == 1


# In a whole session, where the deadline comes over the wire


def test_runtime_gets_an_answer_in_time(host: Host, connected: Connected) -> None:
    host.configure(hang(host))
    with pytest.raises(StatusError) as refused:
        ask(connected, SHORT)
    assert refused.value.code == Code.ABORTED
    assert "plugin hang: killed: no result after 0." in refused.value.message
    host.configure(hang(host, failure_policy="ignore"))
    assert ask(connected, SHORT) == api.StartContainerResponse()
    host.configure(connected.keeper())
    ask(connected)
    assert {*connected.steps} == {("create", "1f92")}  # the worker may have been first


def test_an_older_runtimes_state_changes_are_the_same_events(
    host: Host, connected: Connected
) -> None:
    host.configure(connected.keeper(states=["update"]))
    of_container = {"pod": pod(), "container": container()}
    connected.fake.state_change(api.Event.RUN_POD_SANDBOX, pod=pod())
    connected.fake.state_change(api.Event.START_CONTAINER, **of_container)
    connected.fake.state_change(api.Event.POST_UPDATE_CONTAINER, **of_container)
    connected.fake.state_change(api.Event.STOP_POD_SANDBOX, pod=api.PodSandbox(id="6efd"))
    connected.fake.state_change(api.Event.REMOVE_POD_SANDBOX, pod=api.PodSandbox(id="6efd"))
    assert connected.steps == [
        ("create", "6efd"),
        ("create", "1f92"),
        ("update", "1f92"),
        ("delete", "6efd"),
    ]
    assert connected.kept[-1]["pid"] == POD["pid"]
    assert len(connected.bridge.pods) == 0


def test_a_chain_goes_on_to_its_end_when_the_runtime_is_gone(
    host: Host, connected: Connected
) -> None:
    host.configure(slow(host), connected.keeper())

    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(ask, connected)
        assert wait_until((host.root / "begun").exists)
        connected.fake.close()
    with pytest.raises(NRIError, match=r"closed|ends"):
        answer.result()
    assert not connected.bridge.chains.wait_until_idle(0)
    (host.root / "go").touch()
    assert connected.bridge.chains.wait_until_idle(SOON)
    assert connected.steps == [("create", "1f92")]


def test_many_sessions_and_events_leave_nothing(host: Host) -> None:
    """The fixture of the host sees to descriptors."""
    before = threading.enumerate()
    for _ in range(3):
        node = Connected(host)
        node.fake.start()
        for _ in range(3):
            node.fake.state_change(api.Event.RUN_POD_SANDBOX, pod=pod())
            ask(node)
            node.fake.state_change(api.Event.REMOVE_POD_SANDBOX, pod=pod())
        node.close()
        assert len(node.bridge.pods) == 0
        node.bridge.chains.stop(for_good=True)  # its thread, too, ends

    def new() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread not in before]

    wait_until(lambda: not new())
    assert new() == []
