"""Messages of ttRPC, both ways from a table of vectors; fuzz/targets/ttrpc_codec.py has them cut in any way."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.v2 import frames as trunk
from nri.v2.ttrpc import MAX_DATA, codec
from nri.v2.ttrpc.codec import MessageDecoder, MessageFrame, Oversized
from tests.support.go_reader import GoReader

VECTORS = [
    (MessageFrame(1, codec.RESPONSE, 0, b""), bytes.fromhex("00000000 00000001 02 00")),
    (MessageFrame(0xFFFFFFFF, 255, 255, b"z"), bytes.fromhex("00000001 ffffffff ff ff 7a")),
    (
        MessageFrame(0x01020304, 1, 5, bytes(12)),
        bytes.fromhex("0000000c 01020304 01 05" + "00" * 12),
    ),
]


def test_messages_match_the_vectors() -> None:
    for message, wire in VECTORS:
        assert codec.encode(message.stream, message.type, message.data, message.flags) == wire
        assert GoReader().messages(trunk.encode(1, wire)) == [(1, message)]
        assert MessageDecoder().feed(wire) == [message]


SIZES = [0, 1, 4085, 4086, 4087, 4096, 4097, 8182, 8183, 100_000, MAX_DATA]


def test_message_of_any_size_on_a_trunk_is_read_by_a_go_peer() -> None:
    for size in SIZES:
        message = MessageFrame(
            3, codec.RESPONSE, 0, bytes(range(251)) * (size // 251) + bytes(size % 251)
        )
        peer = GoReader()
        wire = trunk.encode(2, codec.encode(message.stream, message.type, message.data))
        assert peer.messages(wire) == [(2, message)]
        assert peer.messages(wire + wire) == [(2, message)] * 2


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.integers(0, 3 * 4096)), max_size=40))
def test_any_messages_on_both_connections_are_read_by_a_go_peer(
    sizes: list[tuple[int, int]],
) -> None:
    sent = [
        (number, MessageFrame(2 * at + 1, codec.REQUEST, 0, bytes(size)))
        for at, (number, size) in enumerate(sizes)
    ]
    wire = b"".join(
        [trunk.encode(number, codec.encode(*message[:2], message.data)) for number, message in sent]
    )
    assert GoReader().messages(wire) == sorted(
        sent, key=lambda item: [found[0] for found in sent].index(item[0])
    )


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
    assert decoder.feed(codec.HEADER.pack(length, 9, codec.REQUEST, 0)) == [
        Oversized(9, codec.REQUEST, length)
    ]
    tracemalloc.start()
    while left > step:
        assert decoder.feed(piece) == []
        left -= step
    assert tracemalloc.get_traced_memory()[1] < 2 * step + 65536
    tracemalloc.stop()
    message, wire = VECTORS[1]
    assert decoder.feed(piece[:left] + wire) == [message]


def test_never_more_is_kept_than_the_longest_message() -> None:
    decoder, wire = MessageDecoder(), codec.encode(1, codec.REQUEST, bytes(MAX_DATA))
    tracemalloc.start()
    for _ in range(3):
        for at in range(0, len(wire), 300_000):
            decoder.feed(wire[at : at + 300_000])
    assert tracemalloc.get_traced_memory()[1] < 2.5 * MAX_DATA
    assert tracemalloc.get_traced_memory()[0] < MAX_DATA / 2
    tracemalloc.stop()
