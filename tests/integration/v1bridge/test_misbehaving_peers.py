"""Runtimes that misbehave, and the bridge as a process: it serves on, or the next connection, and leaves nothing."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import pytest

from harness.node import PLUGIN
from nri.errors import NRIError
from nri.v2 import api, frames
from nri.v2 import mux as mux_module
from nri.v2.ttrpc import codec
from nri.v2.ttrpc.server import REFUSALS
from nri.v2.ttrpc.ttrpc_pb2 import Request
from tests.integration.v1bridge.bridge_process import BridgeProcess, slow, start_container
from tests.integration.v1bridge.site import AMPLE, Connected, ask
from tests.support.host import Host, plugin
from tests.support.pods import container, pod
from tests.support.runtime import Runtime
from tests.support.waiting import SOON, wait_until


@pytest.fixture
def bridge(host: Host, bridge: BridgeProcess) -> BridgeProcess:
    """From outside, with a plugin that keeps its requests."""
    host.configure(bridge.node.keeper())
    bridge.listen()
    bridge.changes["lateCreate"] = False
    bridge.outside()
    return bridge


def accepted(bridge: BridgeProcess, version: str = "1.7.24", pods: Any = ()) -> Runtime:
    """The bridge's next connection, served by a runtime of this version."""
    runtime = bridge.accept()
    assert runtime.registered.wait(SOON)
    request = api.ConfigureRequest(runtime_name="containerd", runtime_version=version)
    runtime.call("Configure", request, api.ConfigureResponse)
    runtime.synchronize(pods)
    return runtime


def tolerated(stream: int) -> dict[str, bytes]:
    """What makes no sense, and does not end a connection; requests have this stream, which is odd."""

    def named(method: str = "StartContainer", payload: bytes = b"", service: str = PLUGIN) -> bytes:
        return Request(service=service, method=method, payload=payload).SerializeToString()

    def message(data: bytes, *, kind: int = codec.REQUEST, number: int = stream) -> bytes:
        return frames.encode(1, codec.encode(number, kind, data, 0))

    too_long = struct.pack(">IIBB", codec.MAX_DATA + 1, stream, codec.REQUEST, 0)
    pieces = [too_long, *[b"\0" * (1 << 20)] * 4, b"\0"]
    return {
        "a connection that nobody has": frames.encode(77, b"who is there?"),
        "the reserved connection": frames.encode(0, b"\0" * 100),
        "an empty frame": struct.pack(">II", 1, 0),
        "a message of another type": message(b"x", kind=99),
        "a response that nobody waits for": message(b"", kind=codec.RESPONSE),
        "data of no stream": message(b"x" * 1000, kind=codec.DATA),
        "a request that is no protobuf": message(b"\xff" * 64),
        "a payload that is no protobuf": message(named(payload=b"\xff" * 64)),
        "a method that there is not": message(named("Reboot")),
        "a service that there is not": message(named(service="nri.pkg.api.v1alpha1.Kernel")),
        "a stream with an even number": message(named(), number=stream + 1),
        "a request that is too long": b"".join([frames.encode(1, piece) for piece in pieces]),
        "an event about nobody": message(named()),
    }


FATAL = {
    "a frame of 4 GiB": struct.pack(">II", 1, 0xFFFFFFFF) + b"x" * 100,
    "noise": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "half a frame": struct.pack(">II", 1, 100) + b"x" * 50,
    "half a header": b"\0\0",
}


def test_senseless_messages_end_no_connection(bridge: BridgeProcess) -> None:
    runtime = accepted(bridge)
    for number, name in enumerate(tolerated(0), 1):
        # Ids only grow, and what is sent by hand uses some.
        runtime.sock.sendall(tolerated(1000 * number + 1)[name])
        runtime.client.next_stream = 1000 * number + 501
        start_container(runtime)
        assert bridge.node.steps == number * [("create", "1f92")], name
        assert bridge.log.count("info connected as") == 1, name
    assert "Traceback" not in bridge.log


def test_fatal_messages_are_a_line_and_end_one_connection(
    bridge: BridgeProcess,
) -> None:
    runtime = accepted(bridge)
    for number, (name, data) in enumerate(FATAL.items(), 1):
        runtime.sock.sendall(data)
        if "half" in name:
            runtime.close()
        runtime = accepted(bridge, pods=[pod()])
        start_container(runtime)
        assert bridge.node.steps == number * [("create", "1f92")], name
        assert wait_until(lambda: bridge.log.count("info disconnected: ") == number), name  # noqa: B023
    assert "Traceback" not in bridge.log


# One that does not read


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mux_module, "SEND_TIMEOUT", 1)


def test_runtime_that_stops_reading_stops_no_chain(
    host: Host, impatient: None, connected: Connected
) -> None:
    """12 answers with 4 kB each are more than its socket holds."""
    events = 12
    connected.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    host.script(
        "loud",
        f"#!/bin/sh\nprintf '%05000d' 0 >&2\necho >>{host.root}/begun\n"
        f"while [ ! -e {host.root}/go ]; do sleep 0.05; done\n",
    )
    host.configure(plugin("loud", timeout=2 * AMPLE))
    gate = threading.Event()
    mux: Any = connected.fake.mux
    mux._read = lambda flags=0: gate.wait(4 * AMPLE) and None  # noqa: SLF001 - no peer can be told to

    threads = ThreadPoolExecutor(events)
    answers = []
    begun = host.root / "begun"
    begun.touch()

    def is_over() -> bool:
        return not connected.thread.is_alive()

    try:
        for number in range(1, events + 1):  # each abandons the one before
            answers.append(threads.submit(ask, connected, 3 * AMPLE))
            begins = lambda least=number: is_over() or begun.read_text().count("\n") >= least  # noqa: E731
            assert wait_until(begins, 2 * AMPLE)
        (host.root / "go").touch()
        assert connected.bridge.chains.wait_until_idle(SOON)
        assert wait_until(is_over)
    finally:
        gate.set()
        threads.shutdown()
    assert all(isinstance(answer.exception(), NRIError) for answer in answers)


# Events that a runtime abandons: it sends the next one before it has the answer, as after a kubelet's restart

ABANDONED = "the runtime has abandoned the event"


class Asking:
    """Events that are sent from threads, each when the one before is on its way."""

    def __init__(self, node: Connected, threads: Executor) -> None:
        self._node, self._threads, self._begun = node, threads, node.host.root / "begun"

    def send(self, event: int, request: Any) -> Future[str]:
        """Send an event; return its error to be, "" for none."""

        def ask() -> str:
            try:
                self._node.fake.event(event, request, timeout=SOON)
            except NRIError as error:
                return str(error)
            return ""

        return self._threads.submit(ask)

    def begins(self, name: str) -> bool:
        return wait_until(lambda: self._begun.exists() and name in self._begun.read_text().split())


@pytest.fixture
def asking(connected: Connected) -> Iterator[Asking]:
    with ThreadPoolExecutor(3) as threads:
        yield Asking(connected, threads)


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
    first = asking.send(number, request(pod=pod(), container=container(id="first")))
    assert asking.begins("first")
    second = asking.send(api.Event.RUN_POD_SANDBOX, api.RunPodSandboxRequest(pod=pod(id="second")))
    assert asking.begins("second")
    (host.root / "go").touch()
    assert first.result().endswith(answer)
    assert second.result() == ""
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
    answers = [asking.send(event, request_(pod=pod(), container=container(id="last")))]
    assert asking.begins("last")
    queue = connected.session.mux._jobs  # noqa: SLF001 - how many wait
    for number, name in enumerate(("second", "third"), 1):
        request = api.StartContainerRequest(pod=pod(), container=container(id=name))
        answers.append(asking.send(api.Event.START_CONTAINER, request))
        assert wait_until(lambda: len(queue) == number)  # noqa: B023
    (host.root / "go").touch()
    first, second, third = [answer.result() for answer in answers]
    assert (first, third) == ("", "")
    assert second.endswith(f"create: not started: {ABANDONED}")
    assert connected.steps == [(state, "last"), ("create", "third")]


def test_runtime_that_sends_on_and_never_reads_is_bounded(
    impatient: None, connected: Connected, caplog: pytest.LogCaptureFixture
) -> None:
    """Each request is refused; when its socket is full of refusals, the bridge reads no more than some of them."""
    connected.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    gate = threading.Event()
    mux: Any = connected.fake.mux
    mux._read = lambda flags=0: gate.wait(4 * AMPLE) and 0  # noqa: SLF001 - no peer can be told to
    payload = Request(service="no such", method="service", payload=bytes(8192)).SerializeToString()
    accepted, stream, left = 0, 10_001, b""
    try:
        while connected.thread.is_alive():
            if not left:
                stream += 2
                left = frames.encode(1, codec.encode(stream, codec.REQUEST, payload, 0))
            try:
                sent = connected.fake.sock.send(left, socket.MSG_DONTWAIT)
            except BlockingIOError:
                time.sleep(0.005)
                continue
            except OSError:
                break
            accepted, left = accepted + sent, left[sent:]
    finally:
        gate.set()
    assert accepted < 16 << 20
    assert 0 < caplog.text.count("refused: ") <= REFUSALS
