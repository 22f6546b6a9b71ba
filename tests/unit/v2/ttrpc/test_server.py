"""A server's answers: to handlers that fail or hang, and to peers that break the rules."""

import threading
import time
from typing import Any

import pytest

from nri.errors import NRIError, bounded
from nri.v2.api import PodSandbox
from nri.v2.mux import RELIEVED_AFTER
from nri.v2.ttrpc import MAX_DATA, Call, Code, RPCServer, StatusError, codec
from nri.v2.ttrpc.codec import MessageFrame
from nri.v2.ttrpc.ttrpc_pb2 import Request, Response
from tests.support.connected import SERVICE, Wire, by_hand, call, echo, methods, serving
from tests.support.waiting import SOON, until


@pytest.mark.raw
def test_a_server_takes_requests_up_to_its_own_limit() -> None:
    with serving(
        methods(Echo=lambda request, call: PodSandbox()), max_request=MAX_DATA + 100
    ) as client:
        client.max_request = 2 * MAX_DATA
        assert call(client, "Echo", "x" * MAX_DATA) == PodSandbox()
        with pytest.raises(
            StatusError,
            match=rf"RESOURCE_EXHAUSTED: a request of .* at most {MAX_DATA + 100} are taken",
        ):
            call(client, "Echo", "x" * (MAX_DATA + 100))
        assert call(client, "Echo", "x") == PodSandbox()


def test_hanging_handler_is_answered_for_and_cancelled() -> None:
    release, finished, calls = threading.Event(), threading.Event(), []

    def hang(request: PodSandbox, call: Call) -> PodSandbox:
        calls.append(call)
        assert release.wait(SOON)
        finished.set()
        return request

    with by_hand(methods(Echo=echo, Hang=hang)) as peer:
        started = time.monotonic()
        peer.request(1, "Hang", timeout_nano=300_000_000)
        what = "Hang was not done within its deadline"
        assert peer.answer() == (1, Code.DEADLINE_EXCEEDED, what, b"")
        assert time.monotonic() - started >= 0.3
        assert not calls[0].is_abandoned
        release.set()  # its result is discarded
        assert finished.wait(SOON)
        peer.request(3)
        assert peer.answer()[:2] == (3, 0)


def test_hanging_handler_is_answered_for_after_a_long_job_that_nobody_waited_for() -> None:
    """The relief reads during that job, which has no deadline; the next one begins without waking it."""
    release = threading.Event()

    def hang(request: PodSandbox, call: Call) -> PodSandbox:
        assert release.wait(SOON)
        return request

    for _ in range(3):
        release.clear()
        handlers = methods(Quick=echo, Hang=hang)
        with by_hand(handlers, idle=lambda: time.sleep(3 * RELIEVED_AFTER)) as peer:
            peer.request(1, "Quick")
            assert peer.answer()[:2] == (1, 0)
            time.sleep(6 * RELIEVED_AFTER)  # it is done, and the relief waits for input
            peer.request(3, "Hang", timeout_nano=200_000_000)
            peer.sock.settimeout(SOON / 4)
            try:
                assert peer.answer()[:2] == (3, Code.DEADLINE_EXCEEDED)
            finally:
                release.set()


def test_at_most_half_of_the_timeout_is_kept_for_the_answer() -> None:
    found = []

    def note(request: PodSandbox, call: Call) -> PodSandbox:
        assert call.answer_by is not None
        assert call.deadline is not None
        found.append(call.deadline - call.answer_by)
        return request

    with serving(methods(Echo=note), early=1e6) as client:
        assert call(client, "Echo", "x", timeout=300).name == "x"
    assert found == [pytest.approx(150)]


def test_huge_and_negative_timeouts_do_no_harm() -> None:
    def wait(request: PodSandbox, call: Call) -> PodSandbox:
        time.sleep(0.1)  # until another thread reads
        return request

    with by_hand(methods(Echo=echo, Wait=wait)) as peer:
        peer.request(1, "Wait", timeout_nano=2**63 - 1)
        peer.request(3, timeout_nano=10**18)
        assert peer.answer()[:2] == (1, 0)
        assert peer.answer()[:2] == (3, 0)
        peer.request(5, timeout_nano=-5)
        assert peer.answer() == (5, 0, "", b"")


def test_failure_of_a_handler_becomes_its_status(caplog: pytest.LogCaptureFixture) -> None:
    failures = {
        "Refuse": (
            StatusError(Code.FAILED_PRECONDITION, "not now"),
            Code.FAILED_PRECONDITION,
            "not now",
        ),
        "Ours": (NRIError("the chain failed"), Code.UNKNOWN, "the chain failed"),
        "Bug": (ValueError("a bug"), Code.UNKNOWN, "a bug"),
        "Nothing": (None, Code.UNKNOWN, "'NoneType' object has no attribute 'SerializeToString'"),
        "Mute": (ValueError(), Code.UNKNOWN, "ValueError"),
        "Exit": (SystemExit(3), Code.UNKNOWN, "3"),
        "Long": (ValueError("é" * 70_000), Code.UNKNOWN, bounded("é" * 70_000, 65536)),
        "Surrogate": (StatusError(Code.ABORTED, "file \udcff"), Code.ABORTED, "file ?"),
        "Fine": (StatusError(Code.OK, "not an error"), Code.UNKNOWN, "not an error"),
        "Huge": (StatusError(2**40, "which code"), Code.UNKNOWN, "which code"),
        "Odd": (StatusError(77, "odd"), 77, "odd"),
    }

    def fail(request: PodSandbox, call: Call) -> None:
        if (failure := failures[call.method][0]) is not None:
            raise failure

    with serving(methods(Echo=echo, **dict.fromkeys(failures, fail))) as client:
        for method, (_, code, message) in failures.items():
            with pytest.raises(StatusError) as caught:
                call(client, method, timeout=SOON)
            assert (caught.value.code, caught.value.message) == (code, message)
        assert call(client, "Echo", "alive").name == "alive"
    logged = [f"{method} failed" for method in ("Bug", "Nothing", "Mute", "Exit", "Long")]
    assert [record.message for record in caplog.records] == logged


def test_invalid_messages_are_refused_or_dropped() -> None:
    with by_hand(methods(Echo=echo)) as peer:
        peer.send(codec.encode(1, codec.REQUEST, b"\xff\xff"))
        assert peer.answer() == (
            1,
            Code.INVALID_ARGUMENT,
            "the request is not a ttrpc.Request",
            b"",
        )
        for stream in (1, 4):
            peer.request(stream)
            what = f"a request on stream {stream}, expected an odd number above 1"
            assert peer.answer()[:3] == (stream, Code.INVALID_ARGUMENT, what)
        peer.request(0)
        assert peer.answer()[:2] == (0, Code.INVALID_ARGUMENT)
        peer.request(5, flags=codec.FLAG_REMOTE_OPEN)
        assert peer.answer()[:3] == (5, Code.UNIMPLEMENTED, f"/{SERVICE}/Echo is no streaming call")
        peer.request(9, payload=b"\xff")
        what = "the payload of Echo is not a nri.pkg.api.v1alpha1.PodSandbox"
        assert peer.answer()[:3] == (9, Code.INVALID_ARGUMENT, what)
        peer.request(3)  # below the last
        assert peer.answer()[:2] == (3, Code.INVALID_ARGUMENT)
        for kind in (codec.RESPONSE, codec.DATA, 0, 4, 255):
            peer.send(codec.encode(11, kind, b"dropped", 255))
        peer.send(codec.HEADER.pack(MAX_DATA + 1, 11, codec.DATA, 0) + bytes(MAX_DATA + 1))
        peer.request(11, flags=codec.FLAG_REMOTE_CLOSED)
        assert peer.answer()[:2] == (11, 0)
        peer.request(0xFFFFFFFF)
        assert peer.answer()[:2] == (0xFFFFFFFF, 0)


def test_too_long_request_is_refused_from_its_header() -> None:
    with by_hand(methods(Echo=echo)) as peer:
        peer.send(codec.HEADER.pack(MAX_DATA + 1, 1, codec.REQUEST, 0))
        what = "a request of 4194305 bytes, at most 4194304 are taken"
        assert peer.answer()[:3] == (1, Code.RESOURCE_EXHAUSTED, what)
        peer.send(bytes(MAX_DATA + 1))
        peer.request(1)  # its number is used
        assert peer.answer()[:2] == (1, Code.INVALID_ARGUMENT)
        peer.request(3)
        assert peer.answer()[:2] == (3, 0)


def test_request_after_the_end_is_not_served() -> None:
    served = []
    server = RPCServer(Wire(), methods(Echo=lambda request, call: served.append(call)))
    server.closed(NRIError("over"))
    request = Request(service=SERVICE, method="Echo").SerializeToString()
    for job in server.receive(codec.encode(1, codec.REQUEST, request)):
        job()
    assert served == []
    assert server.due() == float("inf")


def test_next_call_means_that_the_last_was_abandoned() -> None:
    began, calls, found = threading.Event(), [], []

    def hang(request: PodSandbox, call: Call) -> PodSandbox:
        abandoned = threading.Event()
        call.on_abandoned = abandoned.set
        began.set()
        assert abandoned.wait(SOON)
        calls.append(call)
        return request

    def note(request: PodSandbox, call: Call) -> PodSandbox:
        found.append((call.stream, call.is_abandoned))
        return request

    with by_hand(methods(Hang=hang, Note=note)) as peer:
        peer.request(1, "Hang")
        assert began.wait(SOON)
        peer.request(3, "Note")
        assert [peer.answer()[0] for _ in range(2)] == [1, 3]
        peer.request(5, "Note")
        assert peer.answer()[0] == 5
    assert calls[0].is_abandoned
    assert found == [(3, False), (5, False)]


@pytest.mark.parametrize("has_late", [False, True])
def test_expired_call_reaches_a_handler_of_late_calls_alone(has_late: bool) -> None:
    served, wire = [], Wire()

    def note(request: Any, call: Call) -> Any:
        served.append(call.is_late)
        return request

    server = RPCServer(wire, methods(Echo=note), has_late=has_late)
    request = Request(service=SERVICE, method="Echo", timeout_nano=1)
    (job,) = server.receive(codec.encode(1, codec.REQUEST, request.SerializeToString()))
    due = server.due()
    assert due is not None
    until(lambda: due <= time.monotonic())
    server.expire()
    until(lambda: wire.sent)
    job()
    assert served == [True] * has_late
    (answer,) = codec.MessageDecoder().feed(b"".join(wire.sent))
    assert isinstance(answer, MessageFrame)
    assert Response.FromString(answer.data).status.code == Code.DEADLINE_EXCEEDED
    assert server.wait_until_answered(0)
    server.closed(NRIError("over"))


def test_the_thread_that_reads_sends_no_refusal_itself() -> None:
    wire = Wire()
    server = RPCServer(wire, {})
    jobs = server.receive(
        codec.encode(2, codec.REQUEST, b"") + codec.encode(3, codec.REQUEST, b"\xff")
    )
    assert wire.sent == []
    for job in jobs:
        job()
    assert len(wire.sent) == 2
