"""A client against a server that is written by hand."""

import socket
import threading
from collections.abc import Callable

import pytest

from nri.errors import NRIError
from nri.v2.api import PodSandbox
from nri.v2.mux import Mux, Receiver
from nri.v2.ttrpc import MAX_DATA, Call, RPCClient, RPCServer, StatusError, codec
from nri.v2.ttrpc.codec import MessageFrame
from nri.v2.ttrpc.ttrpc_pb2 import Response
from tests.support.connected import Wire, call, methods, running
from tests.support.waiting import TIMEOUT, until

Reply = Callable[..., None]


def client_by_hand() -> tuple[RPCClient, Mux, Mux]:
    ours, theirs = socket.socketpair()
    mux, other = Mux(ours), Mux(theirs)
    return RPCClient(mux.open(1)), mux, other


class Answering(Receiver):
    """A server written by hand: what it gets is cut into messages, each is given to ``act`` with a way to answer."""

    def __init__(self, mux: Mux, act: Callable[[MessageFrame, Reply], None]) -> None:
        self._decoder, self._act = codec.MessageDecoder(), act
        channel = mux.open(1)
        channel.attach(self)
        self.raw = channel.send

    def receive(self, data: bytes) -> None:
        for message in self._decoder.feed(data):
            assert isinstance(message, MessageFrame)
            self._act(message, self.answer)

    def answer(
        self, stream: int, payload: bytes = b"", kind: int = codec.RESPONSE, code: int = 0, message: str = ""
    ) -> None:
        response = Response(payload=payload)
        if code:
            response.status.code, response.status.message = code, message
        self.raw(codec.encode(stream, kind, response.SerializeToString()))


def test_a_client_gives_up_by_itself_and_drops_the_answer_that_comes_late() -> None:
    client, mux, other = client_by_hand()
    streams = []

    def act(message: MessageFrame, answer: Reply) -> None:
        streams.append(message.stream)
        if len(streams) == 2:
            answer(streams[0], PodSandbox(name="late").SerializeToString())
            answer(streams[0], b"\xff")
            answer(999, b"\xff")
            answer(streams[1], b"", kind=codec.DATA)
            answer(streams[1], PodSandbox(name="mine").SerializeToString())

    Answering(other, act)
    with running(mux, other):
        with pytest.raises(StatusError, match=r"^DEADLINE_EXCEEDED: Echo: no answer within 0\.05 s$"):
            call(client, "Echo", timeout=0.05)
        assert call(client, "Echo", timeout=TIMEOUT).name == "mine"
    assert streams == [1, 3]


@pytest.mark.raw
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (codec.encode(1, codec.RESPONSE, b"\xff"), "^INTERNAL: the answer is not a ttrpc.Response$"),
        (
            codec.encode(1, codec.RESPONSE, Response(payload=b"\xff").SerializeToString()),
            "^INTERNAL: the answer to Echo is not a nri.pkg.api.v1alpha1.PodSandbox$",
        ),
        (
            codec.HEADER.pack(MAX_DATA + 1, 1, codec.RESPONSE, 0) + bytes(MAX_DATA + 1),
            "^RESOURCE_EXHAUSTED: an answer of 4194305 bytes, at most 4194304 are taken$",
        ),
        (
            codec.encode(1, codec.RESPONSE, Response(status={"code": 77, "message": "odd"}).SerializeToString()),
            "^code 77: odd$",
        ),
    ],
)
def test_an_answer_that_is_none_is_an_error_of_its_call_and_the_connection_lives_on(answer: bytes, why: str) -> None:
    client, mux, other = client_by_hand()

    def act(message: MessageFrame, reply: Reply) -> None:
        if message.stream == 1:
            server.raw(answer)
        else:
            reply(message.stream)

    server = Answering(other, act)
    with running(mux, other):
        with pytest.raises(StatusError, match=why):
            call(client, "Echo")
        assert call(client, "Echo") == PodSandbox()


def test_a_closed_connection_ends_pending_calls_with_its_reason_and_cancels_handlers() -> None:
    serving_now, told = threading.Event(), threading.Event()

    def hang(request: PodSandbox, call: Call) -> PodSandbox:
        serving_now.set()
        until(lambda: call.is_cancelled)
        told.set()
        return request

    client, mux, other = client_by_hand()
    RPCServer(other.open(1), methods(Hang=hang))
    errors = []

    def ask() -> None:
        try:
            call(client, "Hang")
        except NRIError as error:
            errors.append(str(error))

    with running(mux, other):
        callers = [threading.Thread(target=ask) for _ in range(3)]
        for caller in callers:
            caller.start()
        assert serving_now.wait(TIMEOUT)
        until(lambda: len(client._pending) == 3)
        mux.close("we have seen enough")
        for caller in callers:
            caller.join(TIMEOUT)
        assert told.wait(TIMEOUT)
    assert errors == ["we have seen enough"] * 3
    with pytest.raises(NRIError, match=r"^we have seen enough$"):
        call(client, "Hang")


def test_a_call_that_cannot_be_sent_is_not_pending() -> None:
    def fail(data: bytes) -> None:
        raise NRIError("gone")

    client = RPCClient(Wire(fail))
    with pytest.raises(NRIError, match=r"^gone$"):
        call(client, "Echo")
    assert client._pending == {}
