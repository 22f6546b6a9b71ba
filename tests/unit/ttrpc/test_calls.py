"""Server and client on the two ends of a socketpair."""

import os
import socket
import subprocess
import sys
import threading
import time

import pytest

from nri.api import PodSandbox
from nri.errors import NRIError, bounded
from nri.multiplex import Mux, Receiver
from nri.ttrpc import MAX_DATA, Code, RPCClient, RPCServer, StatusError, codec
from nri.ttrpc.ttrpc_pb2 import Request, Response
from tests.support.connected import SERVICE, Wire, at_work, by_hand, call, methods, running, serving
from tests.support.waiting import TIMEOUT, until


def echo(request, call):
    return request


@pytest.mark.parametrize("mux", [True, False], ids=["on a trunk", "on a link"])
def test_a_call_is_answered(mux):
    seen = []

    def take(request, call):
        seen.append((call.service, call.method, call.stream % 2, call.metadata, call.remaining(), call.deadline))
        return request

    with serving(methods(Echo=take), mux=mux) as client:
        assert call(client, "Echo", "pod-1").name == "pod-1"
        assert call(client, "Echo", "pod-2", timeout=30, metadata={"trace": "4f", "": "ü"}).name == "pod-2"
    (*first, none, nothing), (*second, left, deadline) = seen
    assert first == [SERVICE, "Echo", 1, {}]
    assert none is None
    assert nothing is None
    assert second == [SERVICE, "Echo", 1, {"trace": "4f", "": "ü"}]
    assert 0 < left <= 30
    assert abs(deadline - time.monotonic()) <= 30


def test_a_slow_call_does_not_delay_a_fast_one():
    slow, release = threading.Event(), threading.Event()

    def wait(request, call):
        slow.set()
        assert release.wait(TIMEOUT)
        return request

    with serving(methods(Echo=echo, Wait=wait)) as client:
        answers = []
        caller = threading.Thread(target=lambda: answers.append(call(client, "Wait", "slow").name))
        caller.start()
        assert slow.wait(TIMEOUT)
        assert call(client, "Echo", "fast").name == "fast"
        assert answers == []
        release.set()
        caller.join()
    assert answers == ["slow"]


def test_calls_of_many_threads_get_their_own_answers():
    with serving(methods(Echo=echo)) as client:
        answers = {}

        def ask(number):
            answers[number] = [call(client, "Echo", f"{number}-{turn}").name for turn in range(20)]

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == {number: [f"{number}-{turn}" for turn in range(20)] for number in range(12)}


MANY_CALLERS = """
import sys, threading
from tests.support.connected import call, methods, serving
sys.setswitchinterval(1e-6)
answers = {}
together = threading.Barrier(12)  # so that many threads serve at once, and finish at once
def echo(request, call):
    together.wait(60)
    return request
with serving(methods(Echo=echo)) as client:
    def ask(number):
        answers[number] = [call(client, "Echo", f"{number}-{turn}", timeout=60).name for turn in range(250)]
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
assert answers == {number: [f"{number}-{turn}" for turn in range(250)] for number in range(12)}
"""


def test_many_callers_in_many_processes_get_their_answers_on_a_busy_machine():
    command = [sys.executable, "-c", MANY_CALLERS]
    busy = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(6)]
    said = [(process.communicate()[1], process.returncode) for process in busy]
    assert said == [("", 0)] * len(busy)


@pytest.mark.raw
def test_a_server_takes_requests_up_to_its_own_limit():
    with serving(methods(Echo=lambda request, call: PodSandbox()), max_request=MAX_DATA + 100) as client:
        client._max_request = 2 * MAX_DATA
        assert call(client, "Echo", "x" * MAX_DATA) == PodSandbox()
        with pytest.raises(
            StatusError, match=rf"RESOURCE_EXHAUSTED: a request of .* at most {MAX_DATA + 100} are taken"
        ):
            call(client, "Echo", "x" * (MAX_DATA + 100))
        assert call(client, "Echo", "x") == PodSandbox()


def test_a_handler_that_hangs_is_answered_for_before_the_deadline_and_is_told():
    release, finished, calls = threading.Event(), threading.Event(), []

    def hang(request, call):
        calls.append(call)
        assert release.wait(TIMEOUT)
        finished.set()
        return request

    with serving(methods(Echo=echo, Hang=hang), early=0.1) as client:
        started = time.monotonic()
        with pytest.raises(
            StatusError, match=r"^DEADLINE_EXCEEDED: Hang was not done within its deadline$"
        ) as caught:
            call(client, "Hang", timeout=0.4)
        assert caught.value.code == Code.DEADLINE_EXCEEDED
        assert time.monotonic() - started > 0.25
        assert calls[0].cancelled.is_set()
        release.set()  # what it comes to is discarded
        assert finished.wait(TIMEOUT)
        assert call(client, "Echo", "next").name == "next"


def test_a_deadline_that_is_shorter_than_what_is_kept_for_the_answer_is_not_over_at_once():
    answered_by = []

    def note(request, call):
        answered_by.append(call.answer_by - time.monotonic())
        return request

    with serving(methods(Echo=note), early=1e6) as client:
        assert call(client, "Echo", "x", timeout=30).name == "x"
    assert 5 < answered_by[0] <= 15


@pytest.mark.parametrize("nanoseconds", [2**63 - 1, 10**18, 3_000_000 * 10**9])
def test_a_deadline_in_ages_harms_nobody(nanoseconds):
    release = threading.Event()

    def wait(request, call):
        release.wait(TIMEOUT)
        return request

    with by_hand(methods(Echo=echo, Wait=wait)) as peer:
        peer.request(1, "Wait", timeout_nano=nanoseconds)
        peer.request(3, timeout_nano=nanoseconds)
        assert peer.answer()[:2] == (3, 0)
        release.set()
        assert peer.answer()[:2] == (1, 0)


def test_a_negative_timeout_is_none():
    with by_hand(methods(Echo=echo)) as peer:
        peer.request(1, timeout_nano=-5)
        assert peer.answer() == (1, 0, "", b"")


def client_by_hand():
    ours, theirs = socket.socketpair()
    mux, other = Mux(ours), Mux(theirs)
    return RPCClient(mux.open(1)), mux, other


class Answering(Receiver):
    """A server written by hand: what it gets is cut into messages, each is given to ``act`` with a way to answer."""

    def __init__(self, mux, act):
        self._decoder, self._act = codec.MessageDecoder(), act
        channel = mux.open(1)
        channel.attach(self)
        self.raw = channel.send

    def receive(self, data):
        for message in self._decoder.feed(data):
            self._act(message, self.answer)

    def answer(self, stream, payload=b"", kind=codec.RESPONSE, code=0, message=""):
        response = Response(payload=payload)
        if code:
            response.status.code, response.status.message = code, message
        self.raw(codec.encode(stream, kind, response.SerializeToString()))


def test_a_client_gives_up_by_itself_and_drops_the_answer_that_comes_late():
    client, mux, other = client_by_hand()
    streams = []

    def act(message, answer):
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
        assert client._pending == {}  # although no answer has come
        assert call(client, "Echo", timeout=TIMEOUT).name == "mine"
    assert streams == [1, 3]
    assert client._pending == {}


@pytest.mark.raw
def test_a_header_and_its_data_may_come_in_frames_of_their_own():
    client, mux, other = client_by_hand()
    data = Response(payload=PodSandbox(name="in parts").SerializeToString()).SerializeToString()

    def act(message, answer):
        server.raw(codec.HEADER.pack(len(data), message.stream, codec.RESPONSE, 0))
        server.raw(data[:3])
        server.raw(data[3:])

    server = Answering(other, act)
    with running(mux, other):
        assert call(client, "Echo").name == "in parts"


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
def test_an_answer_that_is_none_is_an_error_of_its_call_and_the_connection_lives_on(answer, why):
    client, mux, other = client_by_hand()

    def act(message, reply):
        if message.stream == 1:
            server.raw(answer)
        else:
            reply(message.stream)

    server = Answering(other, act)
    with running(mux, other):
        with pytest.raises(StatusError, match=why):
            call(client, "Echo")
        assert call(client, "Echo") == PodSandbox()


def test_a_handlers_failure_becomes_its_status_and_the_connection_lives_on(caplog):
    failures = {
        "Refuse": (StatusError(Code.FAILED_PRECONDITION, "not now"), Code.FAILED_PRECONDITION, "not now"),
        "Ours": (NRIError("the chain failed"), Code.UNKNOWN, "the chain failed"),
        "Bug": (ValueError("a bug"), Code.UNKNOWN, "a bug"),
        "Mute": (ValueError(), Code.UNKNOWN, "ValueError"),
        "Exit": (SystemExit(3), Code.UNKNOWN, "3"),
        "Long": (ValueError("é" * 70_000), Code.UNKNOWN, bounded("é" * 70_000, 65536)),
        "Surrogate": (StatusError(Code.ABORTED, "file \udcff"), Code.ABORTED, "file ?"),
        "Fine": (StatusError(Code.OK, "not an error"), Code.UNKNOWN, "not an error"),
        "Huge": (StatusError(2**40, "which code"), Code.UNKNOWN, "which code"),
        "Odd": (StatusError(77, "odd"), 77, "odd"),
    }

    def fail(request, call):
        raise failures[call.method][0]

    with serving(methods(Echo=echo, **dict.fromkeys(failures, fail))) as client:
        for method, (_, code, message) in failures.items():
            with pytest.raises(StatusError) as caught:
                call(client, method, timeout=TIMEOUT)
            assert (caught.value.code, caught.value.message) == (code, message)
        assert call(client, "Echo", "alive").name == "alive"
    assert [record.message for record in caplog.records] == [
        "Bug failed", "Mute failed", "Exit failed", "Long failed"
    ]  # fmt: skip


def test_what_a_handler_returns_by_mistake_is_a_status(caplog):
    why = r"^UNKNOWN: 'NoneType' object has no attribute 'SerializeToString'$"
    with serving(methods(Nothing=lambda request, call: None)) as client, pytest.raises(StatusError, match=why):
        call(client, "Nothing")
    assert [record.message for record in caplog.records] == ["Nothing failed"]


@pytest.mark.parametrize(("service", "method"), [(SERVICE, "Nothing"), ("nobody", "Echo"), ("", "")])
def test_what_nobody_implements_is_unimplemented(service, method):
    with serving(methods(Echo=echo)) as client:
        with pytest.raises(StatusError, match=f"^UNIMPLEMENTED: /{service}/{method} is not implemented$") as caught:
            client.call(service, method, PodSandbox(), PodSandbox)
        assert caught.value.code == Code.UNIMPLEMENTED
        assert call(client, "Echo", "alive").name == "alive"


def test_a_payload_that_is_none_is_an_invalid_argument():
    with by_hand(methods(Echo=echo)) as peer:
        peer.request(1, payload=b"\xff")
        assert peer.answer()[:3] == (
            1, Code.INVALID_ARGUMENT, "the payload of Echo is not a nri.pkg.api.v1alpha1.PodSandbox"
        )  # fmt: skip
        peer.request(3)
        assert peer.answer()[:2] == (3, 0)


def test_what_a_peer_must_not_send_is_refused_or_dropped_and_the_connection_lives_on():
    with by_hand(methods(Echo=echo)) as peer:
        peer.sock.sendall(codec.encode(1, codec.REQUEST, b"\xff\xff"))
        assert peer.answer() == (1, Code.INVALID_ARGUMENT, "the request is not a ttrpc.Request", b"")
        peer.request(1)
        assert peer.answer()[:3] == (
            1,
            Code.INVALID_ARGUMENT,
            "a request on stream 1, expected an odd number above 1",
        )
        peer.request(4)
        assert peer.answer()[:3] == (
            4,
            Code.INVALID_ARGUMENT,
            "a request on stream 4, expected an odd number above 1",
        )
        peer.request(0)
        assert peer.answer()[:2] == (0, Code.INVALID_ARGUMENT)
        peer.request(5, flags=codec.FLAG_REMOTE_OPEN)
        assert peer.answer()[:3] == (5, Code.UNIMPLEMENTED, f"/{SERVICE}/Echo is no streaming call")
        peer.request(3)  # below the last
        assert peer.answer()[:2] == (3, Code.INVALID_ARGUMENT)
        for kind in (codec.RESPONSE, codec.DATA, 0, 4, 255):
            peer.sock.sendall(codec.encode(7, kind, b"dropped", 255))
        peer.sock.sendall(codec.HEADER.pack(MAX_DATA + 1, 7, codec.DATA, 0) + bytes(MAX_DATA + 1))
        peer.request(7, flags=codec.FLAG_REMOTE_CLOSED)
        assert peer.answer()[:2] == (7, 0)
        peer.request(0xFFFFFFFF)
        assert peer.answer()[:2] == (0xFFFFFFFF, 0)


def test_a_request_that_is_too_long_is_refused_before_it_has_come_and_the_next_is_served():
    with by_hand(methods(Echo=echo)) as peer:
        peer.sock.sendall(codec.HEADER.pack(MAX_DATA + 1, 1, codec.REQUEST, 0))
        what = "a request of 4194305 bytes, at most 4194304 are taken"
        assert peer.answer()[:3] == (1, Code.RESOURCE_EXHAUSTED, what)
        peer.sock.sendall(bytes(MAX_DATA + 1))
        peer.request(1)  # its number is used
        assert peer.answer()[:2] == (1, Code.INVALID_ARGUMENT)
        peer.request(3)
        assert peer.answer()[:2] == (3, 0)


def pod_of(size):
    """A PodSandbox of ``size`` bytes when serialized."""
    pod = PodSandbox(name="x" * (size - 5))  # a tag, and a length of four bytes
    assert pod.ByteSize() == size
    return pod


def test_an_answer_may_be_as_long_as_a_message_and_no_longer():
    def answer(request, call):
        return pod_of(int(request.name))

    longest = MAX_DATA - 5
    with serving(methods(Answer=answer)) as client:
        assert call(client, "Answer", str(longest)).ByteSize() == longest
        with pytest.raises(StatusError, match=r"an answer of 4194305 bytes, at most 4194304 can be sent") as caught:
            call(client, "Answer", str(longest + 1))
        assert caught.value.code == Code.RESOURCE_EXHAUSTED
        assert call(client, "Answer", "3000000").ByteSize() == 3_000_000


def test_a_request_may_be_as_long_as_a_message_and_no_longer():
    size = []

    def take(request, call):
        size.append(request.ByteSize())
        return PodSandbox()

    envelope = 2 + len(SERVICE) + 2 + len("Take") + 5
    longest = MAX_DATA - envelope
    with serving(methods(Take=take)) as client:
        client.call(SERVICE, "Take", pod_of(longest), PodSandbox)
        with pytest.raises(StatusError, match=r"a request of 4194305 bytes, at most 4194304 can be sent") as caught:
            client.call(SERVICE, "Take", pod_of(longest + 1), PodSandbox)
        assert caught.value.code == Code.RESOURCE_EXHAUSTED
        client.call(SERVICE, "Take", pod_of(3_000_000), PodSandbox)
    assert size == [longest, 3_000_000]


def test_who_waits_is_told_why_the_connection_was_closed_and_who_serves_that_nobody_waits():
    serving_now, told = threading.Event(), threading.Event()

    def hang(request, call):
        serving_now.set()
        assert call.cancelled.wait(TIMEOUT)
        told.set()
        return request

    client, mux, other = client_by_hand()
    RPCServer(other.open(1), methods(Hang=hang))
    errors = []

    def ask():
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


def test_two_servers_share_a_trunk():
    ours, theirs = (Mux(sock) for sock in socket.socketpair())
    clients = {}
    for number, name in ((1, "first"), (2, "second")):
        RPCServer(theirs.open(number), methods(Who=lambda request, call, name=name: PodSandbox(name=name)))
        clients[number] = RPCClient(ours.open(number))
    with running(ours, theirs):
        assert [call(clients[number], "Who").name for number in (2, 1, 2)] == ["second", "first", "second"]


def test_each_end_may_call_the_other_while_it_is_called():
    ours, theirs = (Mux(sock) for sock in socket.socketpair())
    back, forth = RPCClient(theirs.open(2)), RPCClient(ours.open(1))
    RPCServer(ours.open(2), methods(Inner=lambda request, _: PodSandbox(name=f"inner {request.name}")))
    RPCServer(theirs.open(1), methods(Outer=lambda request, _: call(back, "Inner", request.name)))
    with running(ours, theirs):
        assert call(forth, "Outer", "x").name == "inner x"


def test_no_thread_and_no_descriptor_is_left():
    until(lambda: not at_work(), "the end of earlier tests' threads")
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with serving(methods(Echo=echo)) as client:
            for _ in range(10):
                call(client, "Echo")
    until(lambda: not at_work(), "the threads' end")
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_a_request_that_is_handed_out_after_the_end_is_not_served():
    served = []
    server = RPCServer(Wire(), methods(Echo=lambda request, call: served.append(call)))
    server.closed(NRIError("over"))
    request = codec.encode(1, codec.REQUEST, b"")
    assert server.receive(request) == []
    again = codec.encode(3, codec.REQUEST, Request(service=SERVICE, method="Echo").SerializeToString())
    assert server.receive(again) == []
    assert served == []
    assert server.due() is None


def test_a_call_whose_deadline_passes_before_a_thread_takes_it_does_not_reach_its_handler():
    served, wire = [], Wire()
    server = RPCServer(wire, methods(Echo=lambda request, call: served.append(call)))
    request = Request(service=SERVICE, method="Echo", timeout_nano=1)
    (job,) = server.receive(codec.encode(1, codec.REQUEST, request.SerializeToString()))
    until(lambda: server.due() <= time.monotonic())
    server.expire()
    until(lambda: wire.sent)
    job()
    assert served == []
    (answer,) = codec.MessageDecoder().feed(b"".join(wire.sent))
    assert Response.FromString(answer.data).status.code == Code.DEADLINE_EXCEEDED
    assert server.wait_until_answered(0)
    server.closed(NRIError("over"))


def test_a_client_that_was_told_of_the_end_sends_nothing_more():
    wire = Wire()
    client = RPCClient(wire)
    client.closed(NRIError("over"))
    with pytest.raises(NRIError, match=r"^over$"):
        call(client, "Echo", timeout=TIMEOUT)
    assert wire.sent == []


def test_the_thread_that_reads_never_waits_for_the_peer_to_read():
    release, sent, serving_now = threading.Event(), [], threading.Event()

    def send(data):
        assert release.wait(TIMEOUT)
        sent.append(data)

    def hang(request, call):
        serving_now.set()
        assert release.wait(TIMEOUT)
        return request

    server = RPCServer(Wire(send), methods(Hang=hang))
    request = Request(service=SERVICE, method="Hang", timeout_nano=1).SerializeToString()
    (job,) = server.receive(codec.encode(1, codec.REQUEST, request))
    serving = threading.Thread(target=job)
    serving.start()
    assert serving_now.wait(TIMEOUT)
    server.expire()
    assert server.due() is None
    server.receive(codec.encode(2, codec.REQUEST, b"") + codec.encode(3, codec.REQUEST, b"\xff"))
    assert sent == []
    release.set()
    until(lambda: len(sent) == 3)
    server.closed(NRIError("over"))
    serving.join()
