"""Events that a runtime abandons: it sends the next one before it has the answer, as after a kubelet's restart."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from nri.errors import NRIError
from nri.v2 import api
from tests.integration.v1bridge.session import Connected
from tests.support.host import Host, plugin
from tests.support.pods import container, pod
from tests.support.waiting import SOON, wait_until

ABANDONED = "the runtime has abandoned the event"


def slow(host: Host) -> Any:
    """A plugin that notes the id of each request, and goes on when the file ``go`` is there."""
    host.script(
        "slow",
        f'#!/bin/sh\nsed \'s/.*"id":"\\([^"]*\\)".*/\\1 /\' >>{host.root}/begun\n'
        f"while [ ! -e {host.root}/go ]; do sleep 0.01; done\necho '{{}}'\n",
    )
    return plugin("slow", states=["update"])


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


def test_its_plugin_is_killed_at_once_and_the_next_event_is_served(
    host: Host, connected: Connected, asking: Asking
) -> None:
    host.configure(slow(host), connected.keeper())
    asking.start("first")
    assert asking.begins("first")
    asking.start("second")
    assert asking.begins("second")
    (host.root / "go").touch()
    asking.end()
    assert asking.answers["first"].endswith(f"plugin slow: killed: {ABANDONED}")
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
def test_what_an_error_does_not_refuse_goes_on_and_a_chain_behind_it_that_is_abandoned_never_begins(
    host: Host, connected: Connected, asking: Asking, state: str, event: int, request_: Callable[..., Any]
) -> None:
    host.configure(slow(host), connected.keeper(states=["update"]))
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


@pytest.mark.parametrize(
    ("event", "request_"),
    [
        (api.Event.CREATE_CONTAINER, api.CreateContainerRequest),
        (api.Event.UPDATE_CONTAINER, api.UpdateContainerRequest),
    ],
    ids=["setup", "resize"],
)
def test_a_change_ends_too(
    host: Host, connected: Connected, asking: Asking, event: int, request_: Callable[..., Any]
) -> None:
    slow(host)
    host.configure(plugin("slow", states=["setup", "resize"]))
    asking.send("first", event, request_(pod=pod(), container=container(id="first")))
    assert asking.begins("first")
    asking.send("second", api.Event.RUN_POD_SANDBOX, api.RunPodSandboxRequest(pod=pod(id="second")))
    assert asking.begins("second")
    (host.root / "go").touch()
    asking.end()
    assert asking.answers["first"].endswith(ABANDONED)
    assert asking.answers["second"] == ""


def test_a_plugin_whose_failures_are_ignored_is_not_followed_by_others(
    host: Host, connected: Connected, asking: Asking
) -> None:
    slow(host)
    host.configure(plugin("slow", failure_policy="ignore"), connected.keeper())
    asking.start("first")
    assert asking.begins("first")
    asking.start("second")
    assert asking.begins("second")
    (host.root / "go").touch()
    asking.end()
    assert asking.answers["first"].endswith(f"not started: {ABANDONED}")
    assert connected.steps == [("create", "second")]
