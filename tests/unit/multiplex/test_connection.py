"""Links and trunks over socketpairs: who is told what, why they close, and what is left behind."""

import gc
import os
import socket
import threading
import time

import pytest

from nri.errors import NRIError
from nri.multiplex import ClosedError, Connection, Mux, codec, connection, encode, inherited
from tests.support.connected import Recorder, running
from tests.support.waiting import TIMEOUT, until


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def test_connections_of_a_trunk_do_not_mix(pair):
    ours, theirs = Mux(pair[0]), Mux(pair[1])
    here, there = {}, {}
    for number in (1, 2, 77):
        here[number], there[number] = Recorder(), Recorder()
        here[number].send = ours.open(number, here[number])
        there[number].send = theirs.open(number, there[number])
    with running(ours, theirs):
        for number in (1, 2, 77, 2, 1):
            here[number].send(b"to %d;" % number)
            there[number].send(b"from %d;" % number)
        until(lambda: here[1].data == b"from 1;from 1;" and there[1].data == b"to 1;to 1;")
        assert (here[77].data, there[77].data) == (b"from 77;", b"to 77;")
        assert (here[2].data, there[2].data) == (b"from 2;from 2;", b"to 2;to 2;")


def test_frames_of_a_connection_that_nobody_opened_are_dropped(pair):
    mux, known = Mux(pair[1]), Recorder()
    mux.open(1, known)
    with running(mux):
        pair[0].sendall(encode(3, b"lost") + encode(0, b"lost") + encode(0xFFFFFFFF, b"lost") + encode(1, b"kept"))
        until(lambda: known.data == b"kept")
        assert mux.reason is None


def test_what_is_longer_than_a_frame_arrives_whole(pair):
    ours, theirs, there = Mux(pair[0]), Mux(pair[1]), Recorder()
    send = ours.open(1, Recorder())
    theirs.open(1, there)
    data = os.urandom(codec.MAX_PAYLOAD + 100)
    with running(ours, theirs):
        send(data)
        until(lambda: len(there.data) >= len(data))
    assert there.data == data


def test_what_several_threads_send_is_not_interleaved(pair):
    ours, receiver = Connection(pair[0], Recorder()), Recorder()
    theirs = Connection(pair[1], receiver)
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


def test_the_first_reason_to_close_sticks_and_is_told_once(pair):
    receiver = Recorder()
    end = Connection(pair[1], receiver)
    assert end.reason is None
    with running(end):
        first = end.close("it is enough")
        assert str(first) == "it is enough"
        assert end.close("something else") is first
        pair[0].close()
    assert end.reason is first
    assert receiver.reasons == ["it is enough"]
    with pytest.raises(ClosedError, match=r"^it is enough$"):
        end.send(b"x")


def test_of_many_that_close_at_once_all_are_given_the_same_reason(pair):
    receiver = Recorder()
    end = Connection(pair[1], receiver)
    given, start = [], threading.Barrier(8)

    def close(number):
        start.wait()
        given.append(end.close(f"reason {number}"))

    with running(end):
        threads = [threading.Thread(target=close, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(given) == 8
    assert {id(reason) for reason in given} == {id(end.reason)}
    assert receiver.reasons == [str(end.reason)]


@pytest.mark.parametrize("sent", [b"", b"\0\0", b"\0\0\0\1\0\0\0\5", b"\0\0\0\1\0\0\0\5half"])
def test_a_peer_that_goes_away_also_within_a_frame_closes(pair, sent):
    mux, receivers = Mux(pair[1]), [Recorder(), Recorder()]
    for number, receiver in enumerate(receivers):
        mux.open(number, receiver)
    pair[0].sendall(sent)
    pair[0].close()
    assert str(mux.run()) == "the peer closed the connection"
    assert [receiver.reasons for receiver in receivers] == [["the peer closed the connection"]] * 2


def test_a_peer_that_breaks_the_protocol_is_closed_and_told_from_one_that_went_away(pair):
    mux, receiver = Mux(pair[1]), Recorder()
    mux.open(1, receiver)
    pair[0].sendall(b"\0\0\0\1\xff\xff\xff\xff")
    expected = "the peer broke the protocol: a frame of connection 1 says it has 4294967295 bytes, "
    assert str(mux.run()).startswith(expected)
    assert pair[0].recv(1) == b""
    assert receiver.reasons == [str(mux.reason)]


def test_a_peer_that_takes_nothing_loses_the_link(pair, monkeypatch):
    monkeypatch.setattr(connection, "SEND_TIMEOUT", 0.1)
    pair[1].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    receiver = Recorder()
    end = Connection(pair[1], receiver)
    with running(end):
        with pytest.raises(ClosedError, match=r"^sending to the peer failed: it took nothing for 0\.1 s$"):
            end.send(bytes(10_000_000))
        assert receiver.reasons == [str(end.reason)]


def test_closing_wakes_who_sends_to_a_peer_that_takes_nothing(pair):
    pair[1].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    end, failed = Connection(pair[1], Recorder()), []

    def send():
        try:
            end.send(bytes(10_000_000))
        except ClosedError as error:
            failed.append(str(error))

    sender = threading.Thread(target=send)
    with running(end):
        sender.start()
        until(end._sending.locked)
        end.close("it is enough")
        sender.join(5)
    assert failed == ["it is enough"]


def test_a_send_to_a_peer_that_went_away_says_so(pair):
    end = Connection(pair[1], Recorder())
    pair[0].close()
    with pytest.raises(ClosedError, match=r"^sending to the peer failed: Broken pipe$"):
        end.send(b"x")
    assert str(end.run()) == "sending to the peer failed: Broken pipe"


def test_an_error_that_is_raised_again_and_again_does_not_grow(pair):
    end = Connection(pair[1], Recorder())
    end.close("it is enough")
    depths = []
    for _ in range(3):
        with pytest.raises(ClosedError) as caught:
            end.send(b"x")
        depths.append(len(caught.traceback))
    end.run()
    assert depths == [2, 2, 2]


class Due(Recorder):
    """A receiver that wants to be called at a time."""

    def __init__(self, when):
        super().__init__()
        self.when, self.expired = when, 0

    def due(self):
        return self.when

    def expire(self):
        if self.when is not None and self.when <= time.monotonic():
            self.when, self.expired = None, self.expired + 1


def test_what_is_due_is_done_also_when_nothing_comes(pair):
    mux, receivers = Mux(pair[1]), [Due(time.monotonic() + 0.02), Due(None), Due(time.monotonic())]
    for number, receiver in enumerate(receivers):
        mux.open(number, receiver)
    with running(mux):
        until(lambda: [receiver.expired for receiver in receivers] == [1, 0, 1])


def test_what_is_due_is_done_also_when_more_and_more_comes(pair):
    receiver = Due(None)
    end = Connection(pair[1], receiver)
    flooding = threading.Event()

    def flood():
        while not flooding.is_set():
            try:
                pair[0].sendall(bytes(65536))
            except OSError:
                return

    class Slow(Due):
        def receive(self, data):
            time.sleep(0.005)  # so that there is always more

    receiver = Slow(time.monotonic() + 0.05)
    end = Connection(pair[1], receiver)
    sender = threading.Thread(target=flood)
    with running(end):
        sender.start()
        until(lambda: receiver.expired == 1)
        flooding.set()
    sender.join()


def test_what_is_due_in_a_thousand_years_harms_nobody(pair):
    receiver = Due(time.monotonic() + 3e10)
    with running(Connection(pair[1], receiver)):
        pair[0].sendall(b"still here")
        until(lambda: receiver.data == b"still here")


class Releasing(Recorder):
    """A receiver that releases a lock when all has come that is waited for."""

    def __init__(self, expected):
        super().__init__()
        self.expected, self.readers = expected, []
        self.done = threading.Lock()
        self.done.acquire()

    def receive(self, data):
        super().receive(data)
        self.readers.append(threading.current_thread())
        if self.data == self.expected:
            self.done.release()


def test_who_waits_reads_what_comes_itself(pair):
    receiver = Releasing(b"answer")
    end = Connection(pair[1], receiver)

    def send():
        until(end._reading.locked)  # by who waits
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


def test_of_several_that_wait_each_is_woken(pair):
    receivers = {number: Releasing(b"answer") for number in range(5)}
    mux, other = Mux(pair[1]), Mux(pair[0])
    sends = {}
    for number, receiver in receivers.items():
        mux.open(number, receiver)
        sends[number] = other.open(number, Recorder())
    woken = []

    def wait(number):
        assert mux.wait(receivers[number].done, TIMEOUT)
        woken.append(number)

    with running(mux, other):
        threads = [threading.Thread(target=wait, args=(number,)) for number in receivers]
        for thread in threads:
            thread.start()
        for count, number in enumerate((3, 0, 4, 1, 2)):
            sends[number](b"ans")
            sends[number](b"wer")
            until(lambda count=count: len(woken) == count + 1)
        for thread in threads:
            thread.join()
    assert woken == [3, 0, 4, 1, 2]


def test_who_waits_in_vain_gives_up_in_time_and_others_read_on(pair):
    receiver = Releasing(b"answer")
    end = Connection(pair[1], receiver)
    with running(end):
        started = time.monotonic()
        assert not end.wait(receiver.done, 0.05)
        assert not end.wait(receiver.done, -1)
        assert time.monotonic() - started < TIMEOUT / 2
        pair[0].sendall(b"answer")
        until(lambda: receiver.readers)
        assert end.wait(receiver.done, 0)


def test_who_waits_is_woken_when_the_link_is_closed(pair):
    class Telling(Releasing):
        def closed(self, reason):
            super().closed(reason)
            self.done.release()

    receiver = Telling(b"answer")
    end = Connection(pair[1], receiver)
    with running(end):
        closing = threading.Timer(0.05, end.close, ["it is enough"])
        closing.start()
        assert end.wait(receiver.done)
        assert receiver.reasons == ["it is enough"]
        closing.join()


def test_what_becomes_due_while_somebody_waits_is_done_in_time(pair):
    class Asked(Due):
        """Asked for something that is due at once, and does it late."""

        def receive(self, data):
            self.when = time.monotonic() + 0.02
            return [release.wait]

    release, waiting = threading.Event(), threading.Lock()
    receiver = Asked(None)
    end = Connection(pair[1], receiver)
    with running(end), waiting:
        pair[0].sendall(b"x")
        assert not end.wait(waiting, 0.1)
        until(lambda: receiver.expired == 1)
        release.set()


def test_a_task_that_hangs_keeps_nobody_from_reading_and_does_not_keep_the_link_open(pair):
    class Asked(Due):
        def receive(self, data):
            super().receive(data)
            self.when = self.when or time.monotonic() + 0.02
            return [began.release, release.wait]

    release, began = threading.Event(), threading.Semaphore(0)
    receiver = Asked(None)
    end = Connection(pair[1], receiver)
    with running(end):
        for number in range(5):
            pair[0].sendall(b"x")
            assert began.acquire(timeout=TIMEOUT)
            until(lambda number=number: receiver.data == b"x" * (number + 1))
        until(lambda: receiver.expired >= 1)
    assert str(end.reason) == "the test is over"
    release.set()


def test_no_descriptor_and_no_thread_is_left():
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    gc.collect()  # of what others have left open
    before, threads = descriptors(), threading.active_count()
    for _ in range(20):
        ours, theirs = (Mux(sock) for sock in socket.socketpair())
        send = ours.open(1, Recorder())
        with running(ours, theirs):
            send(b"x")
    assert descriptors() == before
    assert threading.active_count() <= threads  # one that another test has left may end meanwhile


def test_a_receiver_that_fails_does_not_leave_the_link_open(pair, caplog):
    class Broken(Recorder):
        def receive(self, data):
            raise RuntimeError("a bug")

    receiver = Broken()
    end = Connection(pair[1], receiver)
    pair[0].sendall(b"x")
    assert str(end.run()) == "reading was broken off"
    assert "RuntimeError: a bug" in caplog.text
    assert receiver.reasons == ["reading was broken off"]
    assert pair[0].recv(1) == b""


def test_what_can_not_be_done_when_it_is_due_does_not_leave_the_link_open(pair, caplog):
    class Broken(Due):
        def expire(self):
            raise RuntimeError("a bug")

    assert str(Connection(pair[1], Broken(time.monotonic())).run()) == "what was due could not be done"
    assert "RuntimeError: a bug" in caplog.text


def test_a_link_without_a_reading_thread_is_closed_and_says_so(pair, monkeypatch, caplog):
    def turn(self):
        raise MemoryError("no memory to wait with")

    monkeypatch.setattr(Connection, "_turn", turn)
    receiver = Recorder()
    assert str(Connection(pair[1], receiver).run()) == "no thread reads any more"
    assert receiver.reasons == ["no thread reads any more"]
    assert "MemoryError: no memory to wait with" in caplog.text
    assert pair[0].recv(1) == b""


def test_a_socket_that_was_left_to_us_is_ours_and_not_our_childrens(pair):
    number = os.dup(pair[1].fileno())
    os.set_inheritable(number, True)
    with inherited(number) as sock:
        assert not os.get_inheritable(sock.fileno())
        pair[0].sendall(b"x")
        assert sock.recv(1) == b"x"


def test_a_descriptor_that_is_no_connected_socket_is_refused_and_left_alone(tmp_path):
    with open(tmp_path / "file", "w") as file, socket.socket(socket.AF_UNIX) as unconnected:
        for descriptor, why in ((file.fileno(), "Socket operation on non-socket"), (unconnected.fileno(), "T")):
            with pytest.raises(NRIError, match=rf"^descriptor {descriptor} is no connected socket: {why}"):
                inherited(descriptor)
            os.fstat(descriptor)
    with pytest.raises(NRIError, match=r"^descriptor 999999 is no connected socket: Bad file descriptor$"):
        inherited(999999)
