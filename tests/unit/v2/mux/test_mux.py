"""Muxes over socketpairs: their channels, the order of jobs, who reads meanwhile, and how they end."""

import math
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from nri.errors import NRIError
from nri.v2 import mux
from nri.v2.frames import encode
from nri.v2.mux import ClosedError, Job, Mux, Receiver, inherited_socket
from tests.support.connected import Recorder, running
from tests.support.waiting import SOON, until

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """The two ends of a connection."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


class Asking(Recorder):
    """A receiver that returns a job for each byte: the one that ``jobs`` has for it; and that may have work due."""

    def __init__(self, jobs: dict[bytes, Job]) -> None:
        super().__init__()
        self.jobs = jobs
        self.when = math.inf
        self.expired = 0

    def receive(self, data: bytes) -> Sequence[Job]:
        super().receive(data)
        return [self.jobs[bytes([byte])] for byte in data]

    def due(self) -> float:
        return self.when

    def expire(self) -> None:
        if self.when <= time.monotonic():
            self.when, self.expired = math.inf, self.expired + 1


def attached(sock: socket.socket, receiver: Receiver) -> Mux:
    """A mux with a receiver on channel 1."""
    mux = Mux(sock)
    mux.open(1).attach(receiver)
    return mux


def peer(pair: Pair, data: bytes) -> None:
    """Send data on channel 1 as the peer does."""
    pair[0].sendall(encode(1, data))


def test_frames_of_a_channel_that_is_not_open_are_dropped(pair: Pair) -> None:
    known = Recorder()
    mux = attached(pair[1], known)
    with running(mux):
        pair[0].sendall(
            encode(3, b"lost")
            + encode(0, b"lost")
            + encode(0xFFFFFFFF, b"lost")
            + encode(1, b"kept")
        )
        until(lambda: known.data == b"kept")
        assert mux.reason is None


def test_messages_of_several_threads_are_not_interleaved(pair: Pair) -> None:
    receiver = Recorder()
    ours, theirs = Mux(pair[0]), attached(pair[1], receiver)
    size = 300_000  # more than a socket's buffer
    with running(ours, theirs):
        send = ours.open(1).send
        threads = [
            threading.Thread(target=send, args=(bytes([letter]) * size,)) for letter in b"abcdefgh"
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        until(lambda: len(receiver.data) == 8 * size)
    assert sorted({receiver.data[at : at + size] for at in range(0, 8 * size, size)}) == sorted(
        bytes([letter]) * size for letter in b"abcdefgh"
    )


# jobs


def test_jobs_are_done_in_order_in_the_thread_that_runs_the_mux(pair: Pair) -> None:
    done: list[tuple[str, str]] = []

    def note(name: str) -> Callable[[], None]:
        return lambda: done.append((name, threading.current_thread().name))

    receiver = Asking({b"a": note("a"), b"b": note("b"), b"c": note("c")})
    with running(attached(pair[1], receiver)):
        peer(pair, b"ab")
        peer(pair, b"c")
        until(lambda: len(done) == 3)
    assert done == [(name, "test-reader") for name in "abc"]


def test_another_thread_reads_while_a_job_hangs(pair: Pair) -> None:
    release, done = threading.Event(), []
    threads: set[str] = set()

    class Slow(Asking):
        def receive(self, data: bytes) -> Sequence[Job]:
            if self.data:
                threads.add(threading.current_thread().name)
                self.when = time.monotonic() + 0.01
            return super().receive(data)

    receiver = Slow({b"h": release.wait, b"n": lambda: done.append("next")})
    with running(attached(pair[1], receiver)):
        for letter in b"hnnn":
            peer(pair, bytes([letter]))
            until(lambda: receiver.data.endswith(bytes([letter])))  # noqa: B023
        until(lambda: receiver.expired > 0)
        assert done == []
        release.set()
        until(lambda: done == ["next"] * 3)
    assert threads == {"relief"}


class Slow(Asking):
    """A receiver whose ``expire`` takes a while."""

    def __init__(self, jobs: dict[bytes, Job]) -> None:
        super().__init__(jobs)
        self.has_begun = threading.Event()
        self.has_ended = False

    def expire(self) -> None:
        self.has_begun.set()
        time.sleep(0.2)
        self.has_ended = True


def test_run_returns_when_its_second_thread_has_ended(pair: Pair) -> None:
    """Else that thread would use a descriptor whose number is another file's by then."""

    def job() -> None:
        assert receiver.has_begun.wait(SOON)
        mux.close("done")

    receiver = Slow({b"a": job})
    mux = attached(pair[1], receiver)
    peer(pair, b"a")
    assert str(mux.run()) == "done"
    assert receiver.has_ended
    assert "relief" not in {thread.name for thread in threading.enumerate()}


def test_a_job_that_raises_is_logged_and_the_next_is_done(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    done = []

    def fail() -> None:
        raise RuntimeError("a bug")

    with running(attached(pair[1], Asking({b"f": fail, b"n": lambda: done.append(1)}))):
        peer(pair, b"fn")
        until(lambda: done == [1])
    assert "RuntimeError: a bug" in caplog.text


@pytest.mark.parametrize("is_quiet", [True, False])
def test_idle_is_called_once_after_jobs(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, is_quiet: bool
) -> None:
    monkeypatch.setattr(mux, "QUIET", 0.0 if is_quiet else SOON)
    monkeypatch.setattr(mux, "QUIET_WITHIN", SOON if is_quiet else 0.0)
    done: list[str] = []
    ours = Mux(pair[1], idle=lambda: done.append(threading.current_thread().name))
    ours.open(1).attach(Asking({b"a": lambda: done.append("job")}))
    with running(ours):
        peer(pair, b"aa")
        until(lambda: len(done) == 3)
        peer(pair, b"a")
        until(lambda: len(done) == 5)
    assert done == ["job", "job", "test-reader", "job", "test-reader"]


# the end


def test_peer_that_goes_away_even_within_a_frame_closes(pair: Pair) -> None:
    mux, receivers = Mux(pair[1]), [Recorder(), Recorder()]
    for number, receiver in enumerate(receivers):
        mux.open(number).attach(receiver)
    pair[0].sendall(b"\0\0\0\1\0\0\0\5half")
    pair[0].close()
    assert str(mux.run()) == "the peer closed the connection"
    assert [receiver.reasons for receiver in receivers] == [["the peer closed the connection"]] * 2


def test_peer_that_breaks_the_protocol_is_closed(pair: Pair) -> None:
    receiver = Recorder()
    mux = attached(pair[1], receiver)
    pair[0].sendall(b"\0\0\0\1\xff\xff\xff\xff")
    expected = "the peer broke the protocol: a frame of channel 1 says it has 4294967295 bytes, "
    assert str(mux.run()).startswith(expected)
    assert pair[0].recv(1) == b""
    assert receiver.reasons == [str(mux.reason)]


def test_first_close_reason_is_kept_and_reported_once(pair: Pair) -> None:
    receiver = Recorder()
    end = attached(pair[1], receiver)
    assert end.reason is None
    given, start = [], threading.Barrier(8)

    def close(number: int) -> None:
        start.wait()
        given.append(end.close(f"reason {number}"))

    with running(end):
        threads = [threading.Thread(target=close, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        pair[0].close()
    assert len(given) == 8
    assert {id(reason) for reason in given} == {id(end.reason)}
    assert receiver.reasons == [str(end.reason)]
    depths = []
    for _ in range(3):  # the error does not grow when it is raised again
        with pytest.raises(ClosedError, match=f"^{end.reason}$") as caught:
            end.send(1, b"x")
        depths.append(len(caught.traceback))
    assert depths == [2, 2, 2]


def test_waiting_jobs_are_dropped_at_the_end(pair: Pair) -> None:
    began, release, done = threading.Event(), threading.Event(), []

    def hang() -> None:
        began.set()
        assert release.wait(SOON)
        done.append("hang")

    end = attached(pair[1], Asking({b"h": hang, b"n": lambda: done.append("next")}))
    with running(end):
        peer(pair, b"hn")
        assert began.wait(SOON)
        end.close("it is enough")
        release.set()
    assert done == ["hang"]


def test_a_peer_that_takes_nothing_loses_the_connection(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mux, "SEND_TIMEOUT", 0.1)
    pair[1].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    receiver = Recorder()
    end = attached(pair[1], receiver)
    with running(end):
        with pytest.raises(
            ClosedError, match=r"^sending to the peer failed: it took nothing for 0\.1 s$"
        ):
            end.send(1, bytes(10_000_000))
        assert receiver.reasons == [str(end.reason)]


def test_closing_wakes_a_blocked_sender(pair: Pair) -> None:
    pair[1].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    end, failed = attached(pair[1], Recorder()), []

    def send() -> None:
        try:
            end.send(1, bytes(10_000_000))
        except ClosedError as error:
            failed.append(str(error))

    sender = threading.Thread(target=send)
    with running(end):
        sender.start()
        assert pair[0].recv(1)  # it has begun
        end.close("it is enough")
        sender.join()
    assert failed == ["it is enough"]


def test_a_send_to_a_peer_that_went_away_says_so(pair: Pair) -> None:
    end = attached(pair[1], Recorder())
    pair[0].close()
    with pytest.raises(ClosedError, match=r"^sending to the peer failed: Broken pipe$"):
        end.send(1, b"x")
    assert str(end.run()) == "sending to the peer failed: Broken pipe"


def test_a_peer_that_went_away_without_reading_is_reported(pair: Pair) -> None:
    end = attached(pair[1], Recorder())
    end.send(1, b"x")
    pair[0].close()
    assert str(end.run()) == "reading failed: Connection reset by peer"


def test_receiver_that_fails_closes_the_connection(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Recorder):
        def receive(self, data: bytes) -> Sequence[Job]:
            raise RuntimeError("a bug")

    receiver = Broken()
    end = attached(pair[1], receiver)
    peer(pair, b"x")
    assert str(end.run()) == "what was read could not be handled"
    assert "RuntimeError: a bug" in caplog.text
    assert receiver.reasons == ["what was read could not be handled"]
    assert pair[0].recv(1) == b""


def test_deadline_that_fails_closes_the_connection(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    release = threading.Event()

    class Failing(Asking):
        def expire(self) -> None:
            release.set()
            raise RuntimeError("a bug")

    end = attached(pair[1], Failing({b"h": release.wait}))
    peer(pair, b"h")
    assert str(end.run()) == "a deadline could not be handled"
    assert "RuntimeError: a bug" in caplog.text


def test_without_a_thread_the_connection_is_closed_and_says_so(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    receiver = Recorder()
    end = attached(pair[1], receiver)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        assert str(end.run()) == "a thread cannot be started: can't start new thread"
    assert receiver.reasons == [str(end.reason)]
    assert pair[0].recv(1) == b""


def test_a_close_while_the_queue_is_left_ends_the_other_thread(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = attached(pair[1], Asking({b"j": lambda: None}))
    wait, clear = end.busy.wait, end.busy.clear
    is_open, is_cleared, waits = threading.Event(), threading.Event(), list[None]()

    def wait_again(*_: object) -> bool:
        waits.append(None)
        if len(waits) == 2:  # it has seen the connection open
            is_open.set()
            assert is_cleared.wait(SOON)
        return wait()

    def close_and_clear() -> None:
        assert is_open.wait(SOON)
        end.close("closed meanwhile")
        clear()
        is_cleared.set()

    monkeypatch.setattr(end.busy, "wait", wait_again)
    monkeypatch.setattr(end.busy, "clear", close_and_clear)
    peer(pair, b"j")
    thread = threading.Thread(target=end.run, daemon=True)
    thread.start()
    thread.join(SOON)
    assert not thread.is_alive()


def test_an_interrupt_ends_the_connection(pair: Pair) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    end = attached(pair[1], Asking({b"i": interrupt}))
    peer(pair, b"i")
    with pytest.raises(KeyboardInterrupt):
        end.run()
    assert str(end.reason) == "the event thread was interrupted"
    assert pair[0].recv(1) == b""


def test_inherited_socket_is_not_passed_to_children(pair: Pair) -> None:
    number = os.dup(pair[1].fileno())
    os.set_inheritable(number, True)
    with inherited_socket(number) as sock:
        assert not os.get_inheritable(sock.fileno())
        pair[0].sendall(b"x")
        assert sock.recv(1) == b"x"


def test_unconnected_descriptor_is_refused_and_left_open(tmp_path: Path) -> None:
    with open(tmp_path / "file", "w") as file, socket.socket(socket.AF_UNIX) as unconnected:
        for descriptor, why in (
            (file.fileno(), "Socket operation on non-socket"),
            (unconnected.fileno(), "T"),
        ):
            with pytest.raises(
                NRIError, match=rf"^descriptor {descriptor} is not a connected socket: {why}"
            ):
                inherited_socket(descriptor)
            os.fstat(descriptor)
    with pytest.raises(
        NRIError, match=r"^descriptor 999999 is not a connected socket: Bad file descriptor$"
    ):
        inherited_socket(999999)
