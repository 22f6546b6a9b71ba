"""Trunks over socketpairs: each channel gets its own bytes, deadlines and end."""

import os
import threading
import time

import pytest

from nri.multiplex import Mux, codec
from nri.multiplex.codec import encode
from tests.support.connected import Recorder, running
from tests.support.waiting import TIMEOUT, until, until_there_are
from tests.unit.multiplex.receivers import Due, Pair, Releasing


def test_channels_of_a_trunk_do_not_mix(pair: Pair) -> None:
    ours, theirs = Mux(pair[0]), Mux(pair[1])
    here = {number: Recorder() for number in (1, 2, 77)}
    there = {number: Recorder() for number in here}
    for number, receiver in here.items():
        ours.open(number).attach(receiver)
        theirs.open(number).attach(there[number])
    with running(ours, theirs):
        for number in (1, 2, 77, 2, 1):
            ours.open(number).send(b"to %d;" % number)
            theirs.open(number).send(b"from %d;" % number)
        until(lambda: here[1].data == b"from 1;from 1;" and there[1].data == b"to 1;to 1;")
        assert (here[77].data, there[77].data) == (b"from 77;", b"to 77;")
        assert (here[2].data, there[2].data) == (b"from 2;from 2;", b"to 2;to 2;")


def test_frames_of_a_channel_that_is_not_open_are_dropped(pair: Pair) -> None:
    mux, known = Mux(pair[1]), Recorder()
    mux.open(1).attach(known)
    with running(mux):
        pair[0].sendall(encode(3, b"lost") + encode(0, b"lost") + encode(0xFFFFFFFF, b"lost") + encode(1, b"kept"))
        until(lambda: known.data == b"kept")
        assert mux.reason is None


def test_what_is_longer_than_a_frame_arrives_whole(pair: Pair) -> None:
    ours, theirs, there = Mux(pair[0]), Mux(pair[1]), Recorder()
    theirs.open(1).attach(there)
    data = os.urandom(codec.MAX_PAYLOAD + 100)
    with running(ours, theirs):
        ours.open(1).send(data)
        until(lambda: len(there.data) >= len(data))
    assert there.data == data


@pytest.mark.parametrize("sent", [b"", b"\0\0\0\1\0\0\0\5half"])
def test_peer_that_goes_away_even_within_a_frame_closes(pair: Pair, sent: bytes) -> None:
    mux, receivers = Mux(pair[1]), [Recorder(), Recorder()]
    for number, receiver in enumerate(receivers):
        mux.open(number).attach(receiver)
    pair[0].sendall(sent)
    pair[0].close()
    assert str(mux.run()) == "the peer closed the connection"
    assert [receiver.reasons for receiver in receivers] == [["the peer closed the connection"]] * 2


def test_a_peer_that_breaks_the_protocol_is_closed_and_told_from_one_that_went_away(pair: Pair) -> None:
    mux, receiver = Mux(pair[1]), Recorder()
    mux.open(1).attach(receiver)
    pair[0].sendall(b"\0\0\0\1\xff\xff\xff\xff")
    expected = "the peer broke the protocol: a frame of channel 1 says it has 4294967295 bytes, "
    assert str(mux.run()).startswith(expected)
    assert pair[0].recv(1) == b""
    assert receiver.reasons == [str(mux.reason)]


def test_what_is_due_is_done_also_when_nothing_comes(pair: Pair) -> None:
    mux, receivers = Mux(pair[1]), [Due(time.monotonic() + 0.02), Due(None), Due(time.monotonic())]
    for number, receiver in enumerate(receivers):
        mux.open(number).attach(receiver)
    with running(mux):
        until(lambda: [receiver.expired for receiver in receivers] == [1, 0, 1])


def test_of_several_that_wait_each_is_woken(pair: Pair) -> None:
    receivers = {number: Releasing(b"answer") for number in range(5)}
    mux, other = Mux(pair[1]), Mux(pair[0])
    sends = {}
    for number, receiver in receivers.items():
        mux.open(number).attach(receiver)
        sends[number] = other.open(number).send
    woken = []

    def wait(number: int) -> None:
        assert mux.open(number).wait(receivers[number].done, TIMEOUT)
        woken.append(number)

    with running(mux, other):
        threads = [threading.Thread(target=wait, args=(number,)) for number in receivers]
        for thread in threads:
            thread.start()
        for count, number in enumerate((3, 0, 4, 1, 2)):
            sends[number](b"ans")
            sends[number](b"wer")
            until_there_are(count + 1, woken)
        for thread in threads:
            thread.join()
    assert woken == [3, 0, 4, 1, 2]
