"""Events that a runtime abandons: it sends the next one before it has the answer, as after a kubelet's restart."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from nri.errors import NRIError
from nri.v2 import api
from tests.integration.v1bridge.session import Connected
from tests.support.host import Host, plugin
from tests.support.pods import container, pod
from tests.support.waiting import SOON, wait_until

ABANDONED = "the runtime has abandoned the event"


def slow(host: Host, **options: Any) -> Any:
    """A plugin that notes the id of each request, and goes on when the file ``go`` is there."""
    host.script(
        "slow",
        f'#!/bin/sh\nsed \'s/.*"id":"\\([^"]*\\)".*/\\1 /\' >>{host.root}/begun\n'
        f"while [ ! -e {host.root}/go ]; do sleep 0.01; done\necho '{{}}'\n",
    )
    return plugin("slow", **options)


class Asking:
    """Events that are sent from threads, each when the one before is on its way."""

    def __init__(self, node: Connected, begun: Any) -> None:
        self.node, self.begun = node, begun
        self.answers: dict[str, str] = {}
        self._threads: list[threading.Thread] = []

    def send(self, name: str, event: int, request: Any) -> None:
        def ask() -> None:
            try:
                self.node.fake.event(event, request, timeout=SOON)
                self.answers[name] = ""
            except NRIError as error:
                self.answers[name] = str(error)

        self._threads.append(threading.Thread(target=ask))
        self._threads[-1].start()

    def start(self, name: str) -> None:
        self.send(name, api.Event.START_CONTAINER, api.StartContainerRequest(pod=pod(), container=container(id=name)))

    def begins(self, name: str) -> bool:
        return wait_until(lambda: self.begun.exists() and name in self.begun.read_text().split())

    def end(self) -> None:
        for thread in self._threads:
            thread.join()


@pytest.fixture
def asking(host: Host, connected: Connected) -> Asking:
    return Asking(connected, host.root / "begun")


START = (api.Event.START_CONTAINER, api.StartContainerRequest)
CREATE = (api.Event.CREATE_CONTAINER, api.CreateContainerRequest)
UPDATE = (api.Event.UPDATE_CONTAINER, api.UpdateContainerRequest)


@pytest.mark.parametrize(
    ("options", "event", "answer"),
    [
        ({}, START, f"plugin slow: killed: {ABANDONED}"),
        ({"failure_policy": "ignore"}, START, f"not started: {ABANDONED}"),
        ({"states": ["setup"]}, CREATE, ABANDONED),
        ({"states": ["resize"]}, UPDATE, ABANDONED),
    ],
    ids=["create", "ignored", "setup", "resize"],
)
def test_plugin_is_killed_and_the_next_event_is_served(
    host: Host, connected: Connected, asking: Asking, options: Any, event: Any, answer: str
) -> None:
    host.configure(slow(host, **options), connected.keeper())
    number, request = event
    asking.send("first", number, request(pod=pod(), container=container(id="first")))
    assert asking.begins("first")
    asking.send("second", api.Event.RUN_POD_SANDBOX, api.RunPodSandboxRequest(pod=pod(id="second")))
    assert asking.begins("second")
    (host.root / "go").touch()
    asking.end()
    assert asking.answers["first"].endswith(answer)
    assert asking.answers["second"] == ""
    assert connected.steps == [("create", "second")]
    assert not host.processes()


@pytest.mark.parametrize(
    ("state", "event", "request_"),
    [
        ("delete", api.Event.STOP_CONTAINER, api.StopContainerRequest),
        ("update", api.Event.POST_UPDATE_CONTAINER, api.PostUpdateContainerRequest),
    ],
)
def test_waiting_chain_that_is_abandoned_never_begins(
    host: Host, connected: Connected, asking: Asking, state: str, event: int, request_: Any
) -> None:
    host.configure(slow(host, states=["update"]), connected.keeper(states=["update"]))
    asking.send("first", event, request_(pod=pod(), container=container(id="last")))
    assert asking.begins("last")
    queue = connected.session._mux._jobs
    for number, name in enumerate(("second", "third"), 1):
        asking.start(name)
        assert wait_until(lambda: len(queue) == number)  # noqa: B023
    (host.root / "go").touch()
    asking.end()
    assert asking.answers["first"] == ""
    assert asking.answers["second"].endswith(f"create: not started: {ABANDONED}")
    assert asking.answers["third"] == ""
    assert connected.steps == [(state, "last"), ("create", "third")]
