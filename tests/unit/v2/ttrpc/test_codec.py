"""Messages of ttRPC, both ways from one table of vectors."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.v2 import frames as trunk
from nri.v2.ttrpc import MAX_DATA, codec
from nri.v2.ttrpc.codec import MessageDecoder, MessageFrame, Oversized
from tests.support.cutting import every_way
from tests.support.go_reader import ConnectionOverError, GoReader

VECTORS = {
    "request": (MessageFrame(1, codec.REQUEST, 0, b"a"), "00000001 00000001 01 00 61"),
    "response without data": (MessageFrame(1, codec.RESPONSE, 0, b""), "00000000 00000001 02 00"),
    "data with flags": (MessageFrame(3, codec.DATA, 5, b"data"), "00000004 00000003 03 05 64617461"),
    "stream 0, type 0": (MessageFrame(0, 0, 0, b"\0"), "00000001 00000000 00 00 00"),
    "everything at its highest": (MessageFrame(0xFFFFFFFF, 255, 255, b"z"), "00000001 ffffffff ff ff 7a"),
    "network order": (MessageFrame(0x01020304, 1, 0, bytes(12)), "0000000c 01020304 01 00" + "00" * 12),
}
ALL = [(message, bytes.fromhex(wire)) for message, wire in VECTORS.values()]


def decode(parts: list[bytes]) -> tuple[list[MessageFrame | Oversized], MessageDecoder]:
    decoder, found = MessageDecoder(), []
    for part in parts:
        found += decoder.feed(part)
    return found, decoder


def test_messages_match_the_table_however_they_are_cut() -> None:
    for message, wire in ALL:
        assert codec.encode(message.stream, message.type, message.data, message.flags) == wire
        assert GoReader().messages(trunk.encode(1, wire)) == [(1, message)]
        assert all(decode([wire[:size]])[1].inside for size in range(1, len(wire)))
    whole = b"".join([wire for _, wire in ALL])
    for data, expected in [*[(wire, [message]) for message, wire in ALL], (whole, [message for message, _ in ALL])]:
        for parts in every_way(data):
            found, decoder = decode(parts)
            assert found == expected
            assert not decoder.inside


SIZES = [0, 1, 4085, 4086, 4087, 4096, 4097, 8182, 8183, 100_000, MAX_DATA]


def test_message_of_any_size_on_a_trunk_is_read_by_a_go_peer() -> None:
    for size in SIZES:
        message = MessageFrame(3, codec.RESPONSE, 0, bytes(range(251)) * (size // 251) + bytes(size % 251))
        peer = GoReader()
        wire = trunk.encode(2, codec.encode(message.stream, message.type, message.data))
        assert peer.messages(wire) == [(2, message)]
        assert peer.messages(wire + wire) == [(2, message)] * 2


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.integers(0, 3 * 4096)), max_size=40))
def test_any_messages_on_both_connections_are_read_by_a_go_peer(sizes: list[tuple[int, int]]) -> None:
    sent = [
        (number, MessageFrame(2 * at + 1, codec.REQUEST, 0, bytes(size))) for at, (number, size) in enumerate(sizes)
    ]
    wire = b"".join([trunk.encode(number, codec.encode(*message[:2], message.data)) for number, message in sent])
    assert GoReader().messages(wire) == sorted(sent, key=lambda item: [found[0] for found in sent].index(item[0]))


@pytest.mark.parametrize(
    ("frames", "why"),
    [
        ([5000], "cannot allocate memory: a frame of 5000 bytes, room for 4096"),
        ([10, 8000], "cannot allocate memory: a frame of 8000 bytes, room for 4990"),
        ([5010, 5010], "cannot allocate memory: a frame of 5010 bytes, room for 4096"),
        ([19] * 264, "failed to queue payload for reading"),
        ([4096, 904], "a message is not complete: the reader waits for ever"),
    ],
    ids=["one frame", "the rest and more", "two messages", "many frames", "half a message"],
)
def test_model_of_a_go_peer_fails_as_the_real_one_does(frames: list[int], why: str) -> None:
    stream = codec.encode(1, codec.REQUEST, bytes(5000 - codec.HEADER.size if frames != [4096, 904] else 5000)) * 2
    wire, at = b"", 0
    for size in frames:
        wire += trunk.HEADER.pack(1, size) + stream[at : at + size].ljust(size, b"\0")
        at += size
    with pytest.raises(ConnectionOverError, match=f"^{why}$"):
        GoReader().messages(wire)


@pytest.mark.parametrize("length", [MAX_DATA + 1, 0xFFFFFFFF])
def test_too_long_message_is_reported_from_its_header(length: int) -> None:
    for parts in every_way(codec.HEADER.pack(length, 9, codec.DATA, 4)):
        found, decoder = decode(parts)
        assert found == [Oversized(9, codec.DATA, length)]
        assert decoder.inside


def test_memory_is_taken_for_received_bytes_only() -> None:
    limit = 64 * 1024 * 1024
    decoder = MessageDecoder(limit)
    tracemalloc.start()
    assert decoder.feed(codec.HEADER.pack(limit, 1, codec.REQUEST, 0)) == []
    assert decoder.feed(bytes(100_000)) == []
    assert tracemalloc.get_traced_memory()[1] < 400_000
    tracemalloc.stop()
    assert MessageDecoder(limit).feed(codec.HEADER.pack(limit + 1, 1, codec.REQUEST, 0)) == [
        Oversized(1, codec.REQUEST, limit + 1)
    ]


@pytest.mark.parametrize("step", [4099, 5 * 1024 * 1024])
def test_too_long_message_is_skipped_without_being_kept(step: int) -> None:
    length = 5 * 1024 * 1024
    decoder, piece, left = MessageDecoder(), bytes(step), length
    assert decoder.feed(codec.HEADER.pack(length, 9, codec.REQUEST, 0)) == [Oversized(9, codec.REQUEST, length)]
    tracemalloc.start()
    while left > step:
        assert decoder.feed(piece) == []
        left -= step
    assert tracemalloc.get_traced_memory()[1] < 2 * step + 65536
    tracemalloc.stop()
    message, wire = ALL[0]
    assert decoder.feed(piece[:left] + wire) == [message]
    assert not decoder.inside


def test_message_after_a_too_long_one_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MAX_DATA", 8)
    message, tail = ALL[0]
    for parts in every_way(codec.HEADER.pack(9, 7, 1, 0) + bytes(9) + tail):
        found, decoder = decode(parts)
        assert found == [Oversized(7, 1, 9), message]
        assert not decoder.inside


def test_never_more_is_kept_than_the_longest_message() -> None:
    decoder, wire = MessageDecoder(), codec.encode(1, codec.REQUEST, bytes(MAX_DATA))
    tracemalloc.start()
    for _ in range(3):
        for at in range(0, len(wire), 300_000):
            decoder.feed(wire[at : at + 300_000])
    assert tracemalloc.get_traced_memory()[1] < 2.5 * MAX_DATA
    assert tracemalloc.get_traced_memory()[0] < MAX_DATA / 2
    tracemalloc.stop()
