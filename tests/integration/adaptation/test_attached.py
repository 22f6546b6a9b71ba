"""Plugins that are attached over a socket: registration, synchronization in one part or several, and the end."""

from __future__ import annotations

import copy
import socket
import threading
from collections.abc import Sequence

import pytest

from nri.adaptation import AdaptationError, Exchange, Runtime
from nri.adaptation.store import MAX_PART
from nri.v2 import api, stub
from nri.v2.ttrpc import MAX_DATA, StatusError
from tests.support.v2_plugin import Plugin, container, pod
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
    plugins = [
        Plugin(sock=theirs, index=f"{number:02}").start()
        for number, (_, theirs) in enumerate(pairs)
    ]
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


# Synchronization


def test_more_than_a_message_of_containers_comes_in_parts() -> None:
    with Runtime(request_timeout=SOON) as runtime:
        first = pod()
        runtime.store.pods[first.id] = first
        for number in range(100):
            item = container(f"container-{number}")
            item.args.append("x" * 100_000)
            runtime.store.containers[item.id] = item
        plugin = Plugin().connect(runtime)
        assert runtime.plugins == ["10-test"]
        requests = plugin.requests("Synchronize")
        assert sum([len(request.pods) for request in requests]) == 1
        assert [request.more for request in requests] == [True] * (len(requests) - 1) + [False]
        assert len(requests) > 2
        assert all(request.ByteSize() <= MAX_PART for request in requests)
        ids = [item.id for request in requests for item in request.containers]
        assert ids == list(runtime.store.containers)


@pytest.mark.raw  # an old runtime sends this, and nothing sends it to a Go reader of ours
def test_up_to_nri_0_6_everything_comes_in_one_message() -> None:
    taken = []

    class Taking(stub.V2Plugin):
        def run_pod_sandbox(self, request: object, call: object) -> None:
            pass

        def synchronize(
            self, pods: Sequence[api.PodSandbox], containers: Sequence[api.Container]
        ) -> None:
            taken.extend([len(pods), len(containers)])

    exchanges: list[Exchange] = []
    with Runtime(nri_version=(0, 6), request_timeout=SOON, on_exchange=exchanges.append) as runtime:
        made, item = pod(), container()
        item.args.append("x" * 50_000)
        for number in range(100):
            made.id = item.pod_sandbox_id = f"pod-{number}"
            item.id = f"container-{number}"
            runtime.store.pods[made.id] = copy.deepcopy(made)
            runtime.store.containers[item.id] = copy.deepcopy(item)
        ours, theirs = socket.socketpair()
        runner = stub.Runner(Taking(), name="taking", index="10", sock=theirs)
        serving = threading.Thread(target=runner.run)
        serving.start()
        assert runtime.attach(ours) == "10-taking"
        (sent,) = [each.request for each in exchanges if each.event == "Synchronize"]
        assert sent.ByteSize() > MAX_DATA
        assert taken == [100, 100]
        assert runtime.run_pod_sandbox(pod()).error is None
    serving.join(SOON)
    assert not serving.is_alive()


def test_a_plugin_that_knows_nothing_of_parts_is_out() -> None:
    with Runtime(request_timeout=SOON) as runtime:
        for number in range(12):
            runtime.store.containers[str(number)] = container(str(number), args=["x" * 400_000])
        with pytest.raises(AdaptationError, match="does not handle a Synchronize in several parts"):
            Plugin(Synchronize=api.SynchronizeResponse()).connect(runtime)


@pytest.mark.parametrize(("count", "size"), [(2, 2_200_000), (8, 600_000), (100, 1_200_000)])
def test_eight_objects_that_are_longer_than_a_message_fail_as_in_nri(count: int, size: int) -> None:
    with Runtime(request_timeout=SOON) as runtime:
        for number in range(count):
            runtime.store.containers[str(number)] = container(str(number), args=["x" * size])
        with pytest.raises(
            AdaptationError,
            match=r"10-test could not be synchronized: \d pods and containers are \d+",
        ):
            Plugin().connect(runtime)
        assert runtime.plugins == []


def test_one_that_does_not_get_synchronized_in_time_is_out() -> None:
    release = threading.Event()

    def hang(request: api.SynchronizeRequest) -> api.SynchronizeResponse:
        release.wait(SOON)
        return api.SynchronizeResponse()

    with Runtime(request_timeout=0.2) as runtime:
        with pytest.raises(AdaptationError, match="could not be synchronized"):
            Plugin(Synchronize=hang).connect(runtime)
        release.set()
        assert runtime.plugins == []
