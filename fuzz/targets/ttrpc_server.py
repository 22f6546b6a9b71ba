"""The server's end of a ttRPC connection: no input in any pieces raises an exception. Every request gets exactly one
answer, on its stream. A complete request without a deadline, on an odd stream above all earlier ones, gets the status
in the table of ``nri.v2.ttrpc.server``. After the last answer nothing more is sent.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from fuzz.cutting import limited, ways
from nri.errors import NRIError
from nri.v2.mux import Channel
from nri.v2.ttrpc import Code, RPCServer, StatusError, codec
from nri.v2.ttrpc.codec import MessageDecoder, MessageFrame, Oversized
from nri.v2.ttrpc.ttrpc_pb2 import Request, Response

if TYPE_CHECKING:
    from nri.v2.mux import Receiver
    from nri.v2.ttrpc import Call

LIMIT = 1000
"""The maximum size of a message in bytes; the server's own errors must fit."""

FAILS = Code.NOT_FOUND


def check(data: bytes) -> None:
    """Send the bytes after the first to a server, cut by the first, and compare its answers with the table."""
    with limited(codec, "MAX_DATA", LIMIT):
        stream, (*_, pieces) = ways(data)
        expected = _expected(stream)
        answers = _Answers()
        server = RPCServer(answers, HANDLERS, max_request=LIMIT)
        try:
            for piece in pieces:
                jobs = server.receive(piece)
                server.expire()
                for job in jobs:
                    job()
            assert server.wait_until_answered(0), "a request was not answered"
            assert server.due() == float("inf"), "a call that is answered still has a deadline"
        finally:
            server.closed(NRIError("the peer has gone"))
        given = answers.given()
    assert Counter(number for number, _ in given) == Counter(number for number, _ in expected)
    wanted = {number: codes for number, codes in expected if codes}
    for number, code in given:
        assert code in wanted.get(number, (code,)), f"stream {number} was answered {code}"


class _Answers(Channel):
    """The messages that a server sends."""

    def __init__(self) -> None:
        self._wires: list[bytes] = []

    def attach(self, receiver: Receiver) -> None:
        """Do nothing: ``check`` calls the server."""

    def send(self, message: bytes) -> None:
        """Keep a message."""
        self._wires.append(message)

    def given(self) -> list[tuple[int, int]]:
        """Return stream and status code of each answer."""
        given = []
        for wire in self._wires:
            (message,) = MessageDecoder(LIMIT).feed(wire)
            assert isinstance(message, MessageFrame), "an answer that is too long"
            assert message.type == codec.RESPONSE
            given.append((message.stream, Response.FromString(message.data).status.code))
        return given


def _expected(stream: bytes) -> list[tuple[int, tuple[int, ...]]]:
    """Return stream and possible status codes of each answer; no codes mean any."""
    expected: list[tuple[int, tuple[int, ...]]] = []
    last = -1
    seen: Counter[int] = Counter()
    for message in MessageDecoder(LIMIT).feed(stream):  # the decoder has its own target
        if message.type != codec.REQUEST:
            continue
        number = message.stream
        seen[number] += 1
        if isinstance(message, Oversized):
            expected.append((number, (Code.RESOURCE_EXHAUSTED,)))
        elif number % 2 == 0 or number <= last:
            expected.append((number, (Code.INVALID_ARGUMENT,)))
            continue
        else:
            expected.append((number, _status(message)))
        last = max(last, number)
    # An error of the server may be too long as well: it contains names that the peer chose.
    return [
        (number, (*codes, Code.RESOURCE_EXHAUSTED) if seen[number] == 1 else ())
        for number, codes in expected
    ]


def _status(message: MessageFrame) -> tuple[int, ...]:
    try:
        request = Request.FromString(message.data)
    except DecodeError:
        return (Code.INVALID_ARGUMENT,)
    codes = _STATUS.get((request.service, request.method))
    if codes is None or message.flags & codec.FLAG_REMOTE_OPEN:
        return (Code.UNIMPLEMENTED,)
    return (*codes, Code.DEADLINE_EXCEEDED) if request.timeout_nano > 0 else codes


def _echo(payload: bytes, call: Call) -> bytes:
    return payload


def _long(payload: bytes, call: Call) -> bytes:
    return payload + bytes(LIMIT)


def _fail(payload: bytes, call: Call) -> bytes:
    raise StatusError(FAILS, payload.decode("latin-1"))


def _break(payload: bytes, call: Call) -> bytes:
    raise SystemExit(payload.decode("utf-8", "surrogateescape"))


def _refuse(payload: bytes, call: Call) -> bytes:
    raise NRIError(payload.decode("utf-8", "surrogateescape"))


HANDLERS = {
    ("S", "e"): _echo,
    ("S", "l"): _long,
    ("S", "f"): _fail,
    ("S", "b"): _break,
    ("S", "r"): _refuse,
}
_STATUS = {
    ("S", "e"): (Code.OK,),
    ("S", "l"): (Code.RESOURCE_EXHAUSTED,),
    ("S", "f"): (FAILS,),
    ("S", "b"): (Code.UNKNOWN,),
    ("S", "r"): (Code.UNKNOWN,),
}


def _request(
    stream: int, method: str, payload: bytes = b"", flags: int = 0, timeout: int = 0
) -> bytes:
    request = Request(service="S", method=method, payload=payload, timeout_nano=timeout)
    return codec.encode(stream, codec.REQUEST, request.SerializeToString(), flags)


SEEDS = (
    b"\x00"
    + _request(1, "e", b"hello")
    + _request(3, "f", b"no")
    + _request(5, "b", b"1")
    + _request(7, "r"),
    b"\x24"
    + _request(1, "l")
    + _request(1, "e")
    + _request(2, "e")
    + _request(9, "x")
    + _request(3, "e"),
    b"\x77"
    + _request(1, "e", flags=codec.FLAG_REMOTE_OPEN)
    + _request(3, "e", timeout=1)
    + _request(5, "e", timeout=-1),
    b"\x31"
    + codec.encode(1, codec.REQUEST, b"\xff\xff")
    + codec.encode(1, codec.RESPONSE, b"")
    + _request(3, "e"),
    b"\x00"
    + codec.encode(4, codec.REQUEST, bytes(LIMIT + 9))
    + codec.encode(1, codec.REQUEST, bytes(LIMIT + 9))
    + _request(7, "e"),
    b"\x00"
    + codec.encode(1, codec.DATA, bytes(LIMIT + 9))
    + _request(1, "e", timeout=2**63 - 1)[:-3],
)
WORDS = (
    b"\x0a\x01S",
    b"\x12\x01e",
    b"\x12\x01l",
    b"\x12\x01f",
    b"\x12\x01b",
    b"\x12\x01r",
    b"\x20\x01",
    b"\x01\x00",
)
