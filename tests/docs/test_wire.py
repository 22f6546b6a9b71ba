"""docs/wire.md: its dumps are what our codecs write, and what a plugin says when it is told the runtime's part."""

import re
import socket
import threading
from pathlib import Path
from typing import NamedTuple

from google.protobuf.message import Message

from nri.v2 import api, stub
from nri.v2.api.events import PLUGIN, RUNTIME
from nri.v2.frames import encode
from nri.v2.stub import Session
from nri.v2.ttrpc import Call, Code, StatusError, codec
from nri.v2.ttrpc.ttrpc_pb2 import Request, Response
from tests.support.waiting import SOON

PAGE = Path(__file__).parent.parent.parent / "docs/wire.md"
BLOCK = re.compile(r"^```text (?P<name>\S+)\.hex\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
SECOND = 1_000_000_000


class Said(NamedTuple):
    """A message of the page's conversation."""

    by: str
    connection: int
    stream: int
    envelope: Request | Response

    def data(self) -> bytes:
        kind = codec.REQUEST if isinstance(self.envelope, Request) else codec.RESPONSE
        message = codec.encode(self.stream, kind, self.envelope.SerializeToString())
        return encode(self.connection, message)


def asks(by: str, stream: int, method: str, argument: Message, seconds: int) -> Said:
    connection, service = (2, RUNTIME) if by == "plugin" else (1, PLUGIN)
    request = Request(service=service, method=method, payload=argument.SerializeToString())
    request.timeout_nano = seconds * SECOND
    return Said(by, connection, stream, request)


def answers(by: str, stream: int, result: Message) -> Said:
    response = Response(payload=result.SerializeToString())
    return Said(by, 1 if by == "plugin" else 2, stream, response)


POD = api.PodSandbox(id="8f7c", name="web", uid="0d9c", namespace="shop")
REFUSED = Response()
REFUSED.status.code, REFUSED.status.message = Code.ABORTED, "not today"
CONVERSATION = {
    "register": asks(
        "plugin",
        1,
        "RegisterPlugin",
        api.RegisterPluginRequest(plugin_name="demo", plugin_idx="10", NRI_version="v0.12.2"),
        5,
    ),
    "registered": answers("runtime", 1, api.Empty()),
    "configure": asks(
        "runtime",
        1,
        "Configure",
        api.ConfigureRequest(
            config="{}",
            runtime_name="containerd",
            runtime_version="v2.1.9",
            registration_timeout=5000,
            request_timeout=2000,
        ),
        5,
    ),
    "configured": answers("plugin", 1, api.ConfigureResponse(events=0b11)),
    "synchronize": asks("runtime", 3, "Synchronize", api.SynchronizeRequest(), 2),
    "synchronized": answers("plugin", 3, api.SynchronizeResponse()),
    "state-change": asks(
        "runtime",
        5,
        "StateChange",
        api.StateChangeEvent(event=api.Event.RUN_POD_SANDBOX, pod=POD),
        2,
    ),
    "refused": Said("plugin", 1, 5, REFUSED),
}


def on_the_page() -> dict[str, bytes]:
    """The bytes of each dump; what they mean stands in the columns behind them."""
    return {
        match["name"]: bytes.fromhex("".join(line[:47] for line in match["text"].splitlines()))
        for match in BLOCK.finditer(PAGE.read_text())
    }


def test_dumps_on_the_page_are_the_bytes_that_our_codecs_write() -> None:
    shown = {name: data.hex(" ") for name, data in on_the_page().items()}
    assert shown == {
        name: CONVERSATION[name].data().hex(" ") for name in ("register", "registered")
    }
    for part in ("10 03", "0a 0d 08 0a 12 09"):
        assert f"`{part}`" in PAGE.read_text()
    assert CONVERSATION["configured"].data().endswith(bytes.fromhex("10 03"))
    assert bytes.fromhex("0a 0d 08 0a 12 09") in CONVERSATION["refused"].data()


class Demo(stub.V2Plugin):
    """The page's plugin: it wants two events, and refuses one."""

    def run_pod_sandbox(self, request: api.RunPodSandboxRequest, call: Call) -> None:
        raise StatusError(Code.ABORTED, "not today")

    def stop_pod_sandbox(self, request: api.StopPodSandboxRequest, call: Call) -> None:
        raise AssertionError("the runtime never sends it")


def test_a_plugin_answers_as_on_the_page() -> None:
    runtime, plugin = socket.socketpair()
    runtime.settimeout(SOON)
    session = Session(Demo(), stub.Identity(name="demo", index="10"), plugin)
    thread = threading.Thread(target=session.run, daemon=True)
    thread.start()
    with runtime:
        for name, data in on_the_page().items():
            if CONVERSATION[name].by == "runtime":
                runtime.sendall(data)
            else:
                assert exactly(runtime, len(data)) == data, name
    thread.join(SOON)
    assert not thread.is_alive()


def exactly(sock: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = sock.recv(length - len(data))
        assert more, f"the plugin closed the connection after {data.hex(' ')}"
        data += more
    return data
