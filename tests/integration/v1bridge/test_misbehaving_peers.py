"""Runtimes that misbehave, and the bridge as a process: it serves on, or the next connection, and leaves nothing."""

from __future__ import annotations

import os
import signal
import socket
import struct
import threading
from typing import TYPE_CHECKING, Any

import pytest

from harness.node import PLUGIN
from nri import api
from nri.errors import NRIError
from nri.multiplex import codec as frames
from nri.multiplex import connection
from nri.stub import runner
from nri.ttrpc import Code, StatusError, codec
from nri.ttrpc.ttrpc_pb2 import Request
from tests.integration.v1bridge.bridge_process import start_container
from tests.integration.v1bridge.session import Connected, ask
from tests.integration.v1bridge.site import AMPLE
from tests.support.host import plugin
from tests.support.pods import pod
from tests.support.processes import is_running
from tests.support.runtime import Runtime
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from tests.integration.v1bridge.bridge_process import BridgeProcess
    from tests.support.host import Host


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


def message(data: bytes, *, stream: int = 1001, kind: int = codec.REQUEST, flags: int = 0) -> bytes:
    """A message for the plugin, as it goes over the wire."""
    return frames.encode(1, codec.encode(stream, kind, data, flags))


def request(method: str = "StartContainer", payload: bytes = b"", service: str = PLUGIN) -> bytes:
    return Request(service=service, method=method, payload=payload).SerializeToString()


TOLERATED = {
    "a connection that nobody has": frames.encode(77, b"who is there?"),
    "the reserved connection": frames.encode(0, b"\0" * 100),
    "an empty frame": struct.pack(">II", 1, 0),
    "a message of another type": message(b"x", kind=99),
    "a response that nobody waits for": message(b"", kind=codec.RESPONSE),
    "data of no stream": message(b"x" * 1000, kind=codec.DATA),
    "a request that is no protobuf": message(b"\xff" * 64),
    "a payload that is no protobuf": message(request(payload=b"\xff" * 64)),
    "a method that there is not": message(request("Reboot")),
    "a service that there is not": message(request(service="nri.pkg.api.v1alpha1.Kernel")),
    "a stream with an even number": message(request(), stream=1002),
    "a request that is too long": message(b"")[:8] + struct.pack(">IIBB", codec.MAX_DATA + 1, 1001, 1, 0),
    "an event about nobody": message(request()),
}
FATAL = {
    "a frame of 4 GiB": struct.pack(">II", 1, 0xFFFFFFFF) + b"x" * 100,
    "noise": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "half a frame": struct.pack(">II", 1, 100) + b"x" * 50,
    "half a header": b"\0\0",
}


@pytest.mark.parametrize("name", list(TOLERATED))
def test_what_makes_no_sense_is_passed_over_or_refused_and_the_next_event_served(
    bridge: BridgeProcess, name: str
) -> None:
    runtime = accepted(bridge)
    data = TOLERATED[name]
    if name == "a request that is too long":
        data = frames.encode(1, data[8:]) + b"".join(
            [frames.encode(1, b"\0" * (1 << 20)) for _ in range(4)] + [frames.encode(1, b"\0")]
        )
    runtime._mux._trunk.send(data)
    # Ids only grow, and what was sent by hand has used some.
    runtime._client._next_stream = 2001
    start_container(runtime)
    assert bridge.node.steps == [("create", "1f92")]
    assert bridge.log.count("info connected as") == 1
    assert "Traceback" not in bridge.log


@pytest.mark.parametrize("name", list(FATAL))
def test_what_ends_a_connection_is_said_in_a_line_and_the_next_connection_served(
    bridge: BridgeProcess, name: str
) -> None:
    runtime = accepted(bridge)
    runtime._mux._trunk.send(FATAL[name])
    if "half" in name:
        runtime.close()
    again = accepted(bridge, pods=[pod()])
    start_container(again)
    assert bridge.node.steps == [("create", "1f92")]
    assert bridge.log.count("info disconnected: ") == 1
    assert "Traceback" not in bridge.log


def test_a_runtime_that_comes_back_as_another_is_served_as_that(host: Host, bridge: BridgeProcess) -> None:
    first = accepted(bridge, "1.7.24")
    first.event(api.Event.RUN_POD_SANDBOX, api.RunPodSandboxRequest(pod=pod()))
    first.close()
    second = accepted(bridge, "v2.1.0", pods=[pod()])
    start_container(second)
    second.event(api.Event.STOP_POD_SANDBOX, api.StopPodSandboxRequest(pod=api.PodSandbox(id="6efd")))
    assert bridge.node.steps == [("create", "6efd"), ("create", "1f92"), ("delete", "6efd")]
    assert bridge.node.kept[-1]["pid"] == 4711
    assert "info serving containerd 1.7.24\n" in bridge.log
    assert "info serving containerd v2.1.0\n" in bridge.log


def test_a_runtime_that_returns_has_the_bridge_within_a_second_and_tells_it_what_there_is(
    host: Host, bridge: BridgeProcess
) -> None:
    """But for what the machine takes, which is why only the longest pause between two attempts is held to that."""
    assert runner.LONGEST_PAUSE < 1.0
    first = accepted(bridge)
    assert bridge._listener is not None
    bridge._listener.close()
    os.unlink(bridge.path)
    first.close()
    assert wait_until(lambda: "no runtime at " in bridge.log)
    bridge.listen()
    second = accepted(bridge, pods=[pod()])
    second.event(api.Event.STOP_POD_SANDBOX, api.StopPodSandboxRequest(pod=api.PodSandbox(id="6efd")))
    assert bridge.node.steps == [("delete", "6efd")]
    assert bridge.node.kept[-1]["pid"] == 4711


def test_a_runtime_that_refuses_it_is_asked_again_and_served_when_it_does_not(
    host: Host, bridge: BridgeProcess
) -> None:
    assert bridge._listener is not None
    for _ in range(3):
        refusing = Runtime(bridge._listener.accept()[0], refuse=lambda: StatusError(Code.ABORTED, "not you"))
        refusing._thread.join(SOON)
        refusing.close()
    start_container(accepted(bridge))
    assert bridge.node.steps == [("create", "1f92")]
    assert bridge.log.count("not accepted at ") == 1
    assert "not you" in bridge.log


def test_after_a_word_of_shutdown_it_serves_for_as_long_as_it_is_asked(bridge: BridgeProcess) -> None:
    runtime = accepted(bridge)
    runtime.call("Shutdown", api.Empty(), api.Empty)
    start_container(runtime)
    assert bridge.node.steps == [("create", "1f92")]


def test_a_runtime_that_is_gone_in_the_middle_of_an_event_leaves_no_plugin_beyond_its_end(
    host: Host, bridge: BridgeProcess
) -> None:
    host.install("child")
    host.configure(plugin("child", ["child", f"{host.root}/pid"], ["hang"], timeout=1.0))
    runtime = accepted(bridge)

    def asked() -> None:
        with pytest.raises(NRIError, match=r"closed|ends|killed"):
            start_container(runtime)

    thread = threading.Thread(target=asked)
    thread.start()
    assert wait_until((host.root / "pid").exists)
    runtime.close()
    thread.join()
    host.configure(bridge.node.keeper())
    start_container(accepted(bridge))
    assert bridge.node.steps == [("create", "1f92")]
    assert wait_until(lambda: not host.processes())


def test_what_a_plugin_leaves_in_a_session_of_its_own_is_ended_after_the_answer(
    host: Host, bridge: BridgeProcess
) -> None:
    """Only by a process that has nothing but plugins for children."""
    script = """#!/bin/sh
request=$(cat)
(setsid sh -c 'echo $$ > ROOT/daemon; exec sleep 1000' </dev/null >/dev/null 2>&1 &)
while [ ! -s ROOT/daemon ]; do sleep 0.01; done
echo '{}'
"""
    host.script("leaver", script.replace("ROOT", str(host.root)))
    host.configure(plugin("leaver"), bridge.node.keeper())
    runtime = accepted(bridge)
    start_container(runtime)
    daemon = int((host.root / "daemon").read_text())
    try:
        assert wait_until(lambda: not is_running(daemon))
    finally:
        if is_running(daemon):
            os.kill(daemon, signal.SIGKILL)
    assert bridge.node.steps == [("create", "1f92")]
    assert wait_until(lambda: f"warning killed a process that a plugin has left behind: {daemon} (" in bridge.log)


# One that does not read


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SEND_TIMEOUT", 1)


def test_a_runtime_that_stops_reading_stops_no_chain_and_loses_the_connection(
    host: Host, impatient: None, connected: Connected
) -> None:
    """40 answers with 4 kB each are more than its socket holds."""
    events = 40
    connected.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    host.configure(connected.keeper("loud", ["error", "x" * 60_000], timeout=2 * AMPLE))
    gate = threading.Event()
    mux: Any = connected.fake._mux
    mux.receive = lambda data: gate.wait(4 * AMPLE) and None

    def asked() -> None:
        with pytest.raises(NRIError):
            ask(connected, 3 * AMPLE)

    threads = [threading.Thread(target=asked) for _ in range(events)]
    for thread in threads:
        thread.start()
    try:
        kept = host.root / "kept"
        assert wait_until(lambda: kept.exists() and kept.read_text().count("\n") == events, 2 * AMPLE)
        assert connected.bridge.wait_until_idle(SOON)
        connected.thread.join(SOON)
        assert not connected.thread.is_alive()
    finally:
        gate.set()
        for thread in threads:
            thread.join()
