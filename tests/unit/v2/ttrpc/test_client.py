"""A client: with a server at the other end of a socketpair, and with answers that are made by hand."""

import math
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from nri.errors import NRIError
from nri.v2.api import PodSandbox
from nri.v2.mux import Mux
from nri.v2.ttrpc import MAX_DATA, Call, Code, RPCClient, RPCServer, StatusError, codec
from nri.v2.ttrpc.ttrpc_pb2 import Response
from tests.support.connected import SERVICE, Wire, call, echo, methods, running, serving
from tests.support.waiting import SOON, until

Reply = Callable[..., None]


def test_a_call_is_answered() -> None:
    seen: list[tuple[Any, ...]] = []

    def take(request: PodSandbox, call: Call) -> PodSandbox:
        seen.append((call.service, call.method, call.stream % 2, call.remaining(), call.deadline))
        return request

    with serving(methods(Echo=take)) as client:
        assert call(client, "Echo", "pod-1").name == "pod-1"
        assert call(client, "Echo", "pod-2", timeout=300).name == "pod-2"
    first, (*second, left, deadline) = seen
    assert first == (SERVICE, "Echo", 1, None, math.inf)
    assert second == [SERVICE, "Echo", 1]
    assert 0 < left <= 300
    assert abs(deadline - time.monotonic()) <= 300


def test_calls_of_many_threads_get_their_own_answers() -> None:
    with serving(methods(Echo=echo)) as client:
        answers = {}

        def ask(number: int) -> None:
            answers[number] = [call(client, "Echo", f"{number}-{turn}").name for turn in range(20)]

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == {number: [f"{number}-{turn}" for turn in range(20)] for number in range(12)}


def pod_of(size: int) -> PodSandbox:
    """A PodSandbox of ``size`` bytes when serialized."""
    pod = PodSandbox(name="x" * (size - 5))  # a tag, and a length of four bytes
    assert pod.ByteSize() == size
    return pod


def test_answer_may_be_as_long_as_a_message_and_no_longer() -> None:
    longest = MAX_DATA - 5
    with serving(methods(Answer=lambda request, call: pod_of(int(request.name)))) as client:
        assert call(client, "Answer", str(longest)).ByteSize() == longest
        with pytest.raises(
            StatusError, match=r"an answer of 4194305 bytes, at most 4194304 can be sent"
        ) as caught:
            call(client, "Answer", str(longest + 1))
        assert caught.value.code == Code.RESOURCE_EXHAUSTED
        assert call(client, "Answer", "3000000").ByteSize() == 3_000_000


def test_request_may_be_as_long_as_a_message_and_no_longer() -> None:
    longest = MAX_DATA - (2 + len(SERVICE) + 2 + len("Size") + 5)
    with serving(
        methods(Size=lambda request, call: PodSandbox(name=str(request.ByteSize())))
    ) as client:
        assert client.call(SERVICE, "Size", pod_of(longest), PodSandbox).name == str(longest)
        with pytest.raises(
            StatusError, match=r"a request of 4194305 bytes, at most 4194304 can be sent"
        ) as caught:
            client.call(SERVICE, "Size", pod_of(longest + 1), PodSandbox)
        assert caught.value.code == Code.RESOURCE_EXHAUSTED
        assert client.call(SERVICE, "Size", pod_of(3_000_000), PodSandbox).name == "3000000"


def client_of(act: Callable[[int, Reply], None]) -> RPCClient:
    """A client of a function, which is called with the number of each request and with a way to answer."""

    def answer(stream: int, data: bytes, kind: int = codec.RESPONSE) -> None:
        wire.receiver.receive(codec.encode(stream, kind, data))

    def send(data: bytes) -> None:
        (message,) = codec.MessageDecoder().feed(data)
        act(message.stream, answer)

    wire = Wire(send)
    return RPCClient(wire)


def response(name: str) -> bytes:
    return Response(payload=PodSandbox(name=name).SerializeToString()).SerializeToString()


def test_client_gives_up_and_drops_a_late_answer() -> None:
    streams = []

    def act(stream: int, answer: Reply) -> None:
        streams.append(stream)
        if len(streams) == 2:
            answer(streams[0], response("late"))
            answer(streams[0], b"\xff")
            answer(999, b"\xff")
            answer(streams[1], b"", kind=codec.DATA)
            answer(streams[1], response("mine"))

    client = client_of(act)
    with pytest.raises(StatusError, match=r"^DEADLINE_EXCEEDED: Echo: no answer within 0\.05 s$"):
        call(client, "Echo", timeout=0.05)
    assert call(client, "Echo", timeout=SOON).name == "mine"
    assert streams == [1, 3]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xff", "^INTERNAL: the answer is not a ttrpc.Response$"),
        (
            Response(payload=b"\xff").SerializeToString(),
            "^INTERNAL: the answer to Echo is not a nri.pkg.api.v1alpha1.PodSandbox$",
        ),
        (
            bytes(MAX_DATA + 1),
            "^RESOURCE_EXHAUSTED: an answer of 4194305 bytes, at most 4194304 are taken$",
        ),
        (Response(status={"code": 77, "message": "odd"}).SerializeToString(), "^code 77: odd$"),
    ],
    ids=["no response", "no pod", "too long", "a status"],
)
def test_invalid_answer_fails_its_call_alone(data: bytes, why: str) -> None:
    client = client_of(
        lambda stream, answer: answer(stream, data if stream == 1 else response("next"))
    )
    with pytest.raises(StatusError, match=why):
        call(client, "Echo")
    assert call(client, "Echo").name == "next"


def test_closed_connection_ends_calls_and_waits_for_the_handler() -> None:
    serving_now, told = threading.Event(), threading.Event()

    def hang(request: PodSandbox, call: Call) -> PodSandbox:
        serving_now.set()
        until(lambda: other.reason is not None)
        told.set()
        return request

    mux, other = map(Mux, socket.socketpair())
    client = RPCClient(mux.open(1))
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
        assert serving_now.wait(SOON)
        until(lambda: len(client.pending) == 3)
        mux.close("we have seen enough")
        for caller in callers:
            caller.join(SOON)
        assert told.wait(SOON)
    assert errors == ["we have seen enough"] * 3
    with pytest.raises(NRIError, match=r"^we have seen enough$"):
        call(client, "Hang")
