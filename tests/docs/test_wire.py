"""docs/wire.md: its dumps are what our codecs write, and what a plugin says when it is told the runtime's part."""

import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from nri import api, multiplex, stub
from nri.api import events
from nri.api.events import PLUGIN, RUNTIME
from nri.multiplex.codec import encode
from nri.stub import Session
from nri.ttrpc import Call, Code, StatusError, codec
from nri.ttrpc.ttrpc_pb2 import Request, Response

if TYPE_CHECKING:
    from google._upb._message import Descriptor as UpbDescriptor
    from google.protobuf.descriptor import Descriptor as PythonDescriptor

    Descriptor = PythonDescriptor | UpbDescriptor

PAGE = Path(__file__).parent.parent.parent / "docs/wire.md"
BLOCK = re.compile(r"^```text (?P<name>\S+)\.hex\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
SECOND = 1_000_000_000
CONNECTIONS = {multiplex.PLUGIN_SERVICE: "Plugin", multiplex.RUNTIME_SERVICE: "Runtime"}
TYPES = {codec.REQUEST: "request", codec.RESPONSE: "response"}


class Said(NamedTuple):
    """A message of the page's conversation."""

    by: str
    connection: int
    stream: int
    envelope: Request | Response
    payload: type[Message]

    def data(self) -> bytes:
        kind = codec.REQUEST if isinstance(self.envelope, Request) else codec.RESPONSE
        message = codec.encode(self.stream, kind, self.envelope.SerializeToString())
        return encode(self.connection, message)


def asks(by: str, stream: int, method: str, argument: Message, seconds: int) -> Said:
    connection, service = (2, RUNTIME) if by == "plugin" else (1, PLUGIN)
    request = Request(service=service, method=method, payload=argument.SerializeToString())
    request.timeout_nano = seconds * SECOND
    return Said(by, connection, stream, request, type(argument))


def answers(by: str, stream: int, result: Message) -> Said:
    response = Response(payload=result.SerializeToString())
    return Said(by, 1 if by == "plugin" else 2, stream, response, type(result))


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
        "runtime", 5, "StateChange", api.StateChangeEvent(event=api.Event.RUN_POD_SANDBOX, pod=POD), 2
    ),
    "refused": Said("plugin", 1, 5, REFUSED, api.Empty),
    "own-call": asks("runtime", 7, "StopPodSandbox", api.StopPodSandboxRequest(pod=POD), 2),
    "done": answers("plugin", 7, api.StopPodSandboxResponse()),
}


def annotated(said: Said) -> str:
    """The bytes of a message with what they are, as the page has them."""
    data = said.data()
    frame, header, body = data[:8], data[8:18], data[18:]
    length, stream, kind, flags = codec.HEADER.unpack(header)
    about = f"frame of connection {said.connection} ({CONNECTIONS[said.connection]}), {len(data) - 8} bytes"
    lines = [(spaced(frame, 4, 4), about)]
    about = f"message: {length} bytes of data, stream {stream}, type {kind} ({TYPES[kind]}), flags {flags}"
    lines.append((spaced(header, 4, 4, 1, 1), about))
    lines += fields(body, said.envelope.DESCRIPTOR, said.payload.DESCRIPTOR, "")
    return "".join(f"{left:47}  {right}".rstrip() + "\n" for left, right in lines)


def spaced(data: bytes, *sizes: int) -> str:
    parts, at = [], 0
    for size in sizes:
        parts.append(data[at : at + size].hex(" "))
        at += size
    return "  ".join(parts)


def fields(data: bytes, kind: "Descriptor", payload: "Descriptor", indent: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(data):
        start = at
        tag, at = varint(data, at)
        field = kind.fields_by_number[tag >> 3]
        value, at = varint(data, at)
        name = f"{indent}{field.number} {field.name}"
        if tag & 7 == 0:
            yield data[start:at].hex(" "), f"{name} = {value:_}"
            continue
        inside = data[at : at + value]
        inner = payload if field.name == "payload" else field.message_type
        if inner is not None:
            yield data[start:at].hex(" "), f"{name}, {value} bytes: {inner.name}"
            yield from fields(inside, inner, payload, indent + "  ")
        else:
            assert field.type == FieldDescriptor.TYPE_STRING
            yield from wrapped(data[start : at + value], f'{name} = "{inside.decode()}"')
        at += value


def wrapped(data: bytes, about: str) -> Iterator[tuple[str, str]]:
    for at in range(0, len(data), 16):
        yield data[at : at + 16].hex(" "), about if at == 0 else ""


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at


def on_the_page() -> dict[str, str]:
    return {match["name"]: match["text"] for match in BLOCK.finditer(PAGE.read_text())}


def test_the_table_of_events_is_ours() -> None:
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (.*?) \| (.*?) \|", PAGE.read_text(), re.MULTILINE)
    expected = []
    for method in events.METHODS:
        before = "`StateChange`" if method.state_change else "its own call"
        since = ", from 0.10 on" if method.since > (0, 2) else ""
        expected.append((str(int(method.event)), method.rpc, before + since, "its own call"))
    assert rows == expected


def test_the_page_has_the_whole_conversation_in_order() -> None:
    assert list(on_the_page()) == list(CONVERSATION)


@pytest.mark.parametrize("name", CONVERSATION)
def test_a_dump_is_what_our_codecs_write(name: str) -> None:
    assert on_the_page()[name] == annotated(CONVERSATION[name])


class Demo(stub.V2Plugin):
    """The page's plugin: it wants two events, and refuses one."""

    def run_pod_sandbox(self, request: api.RunPodSandboxRequest, call: Call) -> None:
        raise StatusError(Code.ABORTED, "not today")

    def stop_pod_sandbox(self, request: api.StopPodSandboxRequest, call: Call) -> None:
        assert request.pod == POD


def test_a_plugin_says_what_the_page_says_when_it_is_told_the_runtimes_part() -> None:
    runtime, plugin = socket.socketpair()
    runtime.settimeout(10)
    session = Session(Demo(), stub.Identity(name="demo", index="10"), plugin)
    thread = threading.Thread(target=session.run, daemon=True)
    thread.start()
    with runtime:
        for name, text in on_the_page().items():
            data = bytes.fromhex("".join(line[:47] for line in text.splitlines()))
            if CONVERSATION[name].by == "runtime":
                runtime.sendall(data)
            else:
                assert exactly(runtime, len(data)) == data, name
    thread.join(10)
    assert not thread.is_alive()


def exactly(sock: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = sock.recv(length - len(data))
        assert more, f"the plugin closed the connection after {data.hex(' ')}"
        data += more
    return data


if __name__ == "__main__":  # to be put into the page
    for name, said in CONVERSATION.items():
        print(f"{said.by}:\n```text {name}.hex\n{annotated(said)}```\n")
