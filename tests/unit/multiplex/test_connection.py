"""Connections over socketpairs: their receivers, the reasons for which they close, and what they leave behind."""

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from nri.errors import NRIError
from nri.multiplex import ClosedError, Connection, Job, connection, inherited_socket
from tests.support.connected import Recorder, running
from tests.support.waiting import TIMEOUT, until, until_there_are
from tests.unit.multiplex.receivers import Due, Pair, Releasing, connected


def test_what_several_threads_send_is_not_interleaved(pair: Pair) -> None:
    ours, receiver = connected(pair[0], Recorder()), Recorder()
    theirs = connected(pair[1], receiver)
    size = 300_000  # more than a socket's buffer
    with running(ours, theirs):
        threads = [threading.Thread(target=ours.send, args=(bytes([letter]) * size,)) for letter in b"abcdefgh"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        until(lambda: len(receiver.data) == 8 * size)
    assert sorted({receiver.data[at : at + size] for at in range(0, 8 * size, size)}) == sorted(
        bytes([letter]) * size for letter in b"abcdefgh"
    )


def test_first_of_many_reasons_to_close_is_kept_and_reported_once(pair: Pair) -> None:
    receiver = Recorder()
    end = connected(pair[1], receiver)
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
            end.send(b"x")
        depths.append(len(caught.traceback))
    assert depths == [2, 2, 2]


def test_a_peer_that_takes_nothing_loses_the_connection(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SEND_TIMEOUT", 0.1)
    pair[1].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    receiver = Recorder()
    end = connected(pair[1], receiver)
    with running(end):
        with pytest.raises(ClosedError, match=r"^sending to the peer failed: it took nothing for 0\.1 s$"):
            end.send(bytes(10_000_000))
        assert receiver.reasons == [str(end.reason)]


def test_closing_wakes_a_thread_that_sends_to_a_peer_that_takes_nothing(pair: Pair) -> None:
    pair[1].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    end, failed = connected(pair[1], Recorder()), []

    def send() -> None:
        try:
            end.send(bytes(10_000_000))
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
    end = connected(pair[1], Recorder())
    pair[0].close()
    with pytest.raises(ClosedError, match=r"^sending to the peer failed: Broken pipe$"):
        end.send(b"x")
    assert str(end.run()) == "sending to the peer failed: Broken pipe"


def test_what_is_due_is_done_also_when_more_and_more_comes(pair: Pair) -> None:
    flooding = threading.Event()

    def flood() -> None:
        while not flooding.is_set():
            try:
                pair[0].sendall(bytes(65536))
            except OSError:
                return

    class Slow(Due):
        def receive(self, data: bytes) -> None:
            time.sleep(0.005)  # so that there is always more

    receiver = Slow(time.monotonic() + 0.05)
    end = connected(pair[1], receiver)
    sender = threading.Thread(target=flood)
    with running(end):
        sender.start()
        until(lambda: receiver.expired == 1)
        flooding.set()
    sender.join()


def test_what_is_due_in_a_thousand_years_does_no_harm(pair: Pair) -> None:
    receiver = Due(time.monotonic() + 3e10)
    with running(connected(pair[1], receiver)):
        pair[0].sendall(b"still here")
        until(lambda: receiver.data == b"still here")


def test_a_thread_that_waits_reads_what_comes_itself(pair: Pair) -> None:
    receiver = Releasing(b"answer")
    end = connected(pair[1], receiver)

    def send() -> None:
        until(end._reading.locked)  # by the thread that waits
        pair[0].sendall(b"answer")

    sender = threading.Thread(target=send)
    with running(end):
        sender.start()
        assert end.wait(receiver.done, TIMEOUT)
        assert receiver.readers == [threading.current_thread()]
        pair[0].sendall(b"!")  # and the others read on
        until(lambda: receiver.data == b"answer!")
        assert receiver.readers[1] is not threading.current_thread()
    sender.join()


def test_a_thread_that_waits_in_vain_gives_up_in_time_and_others_read_on(pair: Pair) -> None:
    receiver = Releasing(b"answer")
    end = connected(pair[1], receiver)
    with running(end):
        assert not end.wait(receiver.done, 0.05)
        assert not end.wait(receiver.done, -1)
        pair[0].sendall(b"answer")
        until(lambda: receiver.readers)
        assert end.wait(receiver.done, 0)


def test_a_thread_that_waits_is_woken_when_the_connection_is_closed(pair: Pair) -> None:
    class Telling(Releasing):
        def closed(self, reason: ClosedError) -> None:
            super().closed(reason)
            self.done.release()

    receiver = Telling(b"answer")
    end = connected(pair[1], receiver)
    with running(end):
        closing = threading.Timer(0.05, end.close, ["it is enough"])
        closing.start()
        assert end.wait(receiver.done)
        assert receiver.reasons == ["it is enough"]
        closing.join()


def test_what_becomes_due_while_a_thread_waits_is_done_in_time(pair: Pair) -> None:
    class Asked(Due):
        """Asked for something that is due at once, and does it late."""

        def receive(self, data: bytes) -> list[Job]:
            self.when = time.monotonic() + 0.02
            return [release.wait]

    release, waiting = threading.Event(), threading.Lock()
    receiver = Asked(None)
    end = connected(pair[1], receiver)
    with running(end), waiting:
        pair[0].sendall(b"x")
        assert not end.wait(waiting, 0.1)
        until(lambda: receiver.expired == 1)
        release.set()


def test_a_job_that_hangs_does_not_stop_reading_and_does_not_keep_the_connection_open(pair: Pair) -> None:
    class Asked(Due):
        def receive(self, data: bytes) -> list[Job]:
            super().receive(data)
            self.when = self.when or time.monotonic() + 0.02
            return [began.release, release.wait]

    release, began = threading.Event(), threading.Semaphore(0)
    receiver = Asked(None)
    end = connected(pair[1], receiver)
    with running(end):
        for number in range(5):
            pair[0].sendall(b"x")
            assert began.acquire(timeout=TIMEOUT)
            until_there_are(number + 1, receiver.data)
        until(lambda: receiver.expired >= 1)
    assert str(end.reason) == "the test is over"
    release.set()


def test_receiver_that_fails_closes_the_connection(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Recorder):
        def receive(self, data: bytes) -> None:
            raise RuntimeError("a bug")

    receiver = Broken()
    end = connected(pair[1], receiver)
    pair[0].sendall(b"x")
    assert str(end.run()) == "what was read could not be handled"
    assert "RuntimeError: a bug" in caplog.text
    assert receiver.reasons == ["what was read could not be handled"]
    assert pair[0].recv(1) == b""


def test_deadline_that_fails_closes_the_connection(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Due):
        def expire(self) -> None:
            raise RuntimeError("a bug")

    assert str(connected(pair[1], Broken(time.monotonic())).run()) == "a deadline could not be handled"
    assert "RuntimeError: a bug" in caplog.text


def test_a_connection_without_a_reading_thread_is_closed_and_says_so(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def lead(self: Connection) -> None:
        raise MemoryError("no memory to wait with")

    monkeypatch.setattr(Connection, "_lead", lead)
    receiver = Recorder()
    assert str(connected(pair[1], receiver).run()) == "no reading thread is left"
    assert receiver.reasons == ["no reading thread is left"]
    assert "MemoryError: no memory to wait with" in caplog.text
    assert pair[0].recv(1) == b""


def test_a_socket_that_was_left_to_us_is_ours_and_not_our_childrens(pair: Pair) -> None:
    number = os.dup(pair[1].fileno())
    os.set_inheritable(number, True)
    with inherited_socket(number) as sock:
        assert not os.get_inheritable(sock.fileno())
        pair[0].sendall(b"x")
        assert sock.recv(1) == b"x"


def test_a_descriptor_that_is_no_connected_socket_is_refused_and_left_alone(tmp_path: Path) -> None:
    with open(tmp_path / "file", "w") as file, socket.socket(socket.AF_UNIX) as unconnected:
        for descriptor, why in ((file.fileno(), "Socket operation on non-socket"), (unconnected.fileno(), "T")):
            with pytest.raises(NRIError, match=rf"^descriptor {descriptor} is not a connected socket: {why}"):
                inherited_socket(descriptor)
            os.fstat(descriptor)
    with pytest.raises(NRIError, match=r"^descriptor 999999 is not a connected socket: Bad file descriptor$"):
        inherited_socket(999999)
