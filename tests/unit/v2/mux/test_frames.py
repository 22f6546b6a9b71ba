"""Frames, both ways from a table of vectors; fuzz/targets/multiplex_codec.py has them cut in any way."""

import pytest

from nri.v2 import frames as codec
from nri.v2.frames import MAX_PAYLOAD, OLD_MAX_PAYLOAD, FrameDecoder, ProtocolError, encode
from tests.support.cutting import every_way

VECTORS = [
    (
        2,
        b"\x00\x00\x00\x01",
        bytes.fromhex("00000002 00000004 00000001"),
    ),  # a payload that looks like a header
    (0xFFFFFFFF, b"far", bytes.fromhex("ffffffff 00000003 666172")),
    (0x01020304, bytes(16), bytes.fromhex("01020304 00000010" + "00" * 16)),
]


def decode(parts: list[bytes]) -> tuple[dict[int, bytes], FrameDecoder]:
    """The bytes of each channel."""
    decoder = FrameDecoder()
    streams: dict[int, bytes] = {}
    for part in parts:
        for channel, piece in decoder.feed(part):
            assert piece
            streams[channel] = streams.get(channel, b"") + piece
    return streams, decoder


def test_frames_match_the_vectors() -> None:
    for channel, payload, frame in VECTORS:
        assert encode(channel, payload) == frame
        assert decode([frame])[0] == {channel: payload}
    assert decode([bytes(8) + VECTORS[0][2]])[0] == {2: VECTORS[0][1]}  # after an empty payload
    assert encode(1, b"") == b""


def test_payload_is_handed_out_as_it_arrives_and_not_kept() -> None:
    decoder = FrameDecoder()
    assert decoder.feed(codec.HEADER.pack(7, MAX_PAYLOAD)) == []
    for _ in range(4):
        assert decoder.feed(bytes(1 << 20)) == [(7, bytes(1 << 20))]
    assert decoder.feed(bytes(10)) == [(7, bytes(10))]


def lengths(wire: bytes) -> list[int]:
    """The lengths of the payloads of whole frames."""
    found, at = [], 0
    while at < len(wire):
        found.append(codec.HEADER.unpack_from(wire, at)[1])
        at += codec.HEADER.size + found[-1]
    assert at == len(wire)
    return found


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (4096, [4096]),
        (MAX_PAYLOAD + 4096, [4096, MAX_PAYLOAD]),
        (2 * MAX_PAYLOAD + 4097, [4096, MAX_PAYLOAD, MAX_PAYLOAD, 1]),
    ],
)
def test_message_is_a_short_frame_and_one_for_the_rest(size: int, expected: list[int]) -> None:
    data = (bytes(range(256)) * (size // 256 + 1))[:size]
    wire = encode(3, data)
    assert lengths(wire) == expected
    assert decode([wire])[0] == {3: data}


def test_old_nri_has_longer_frames() -> None:
    data = bytes(OLD_MAX_PAYLOAD)
    wire = encode(1, data, OLD_MAX_PAYLOAD)
    assert lengths(wire) == [4096, OLD_MAX_PAYLOAD - 4096]
    decoder = FrameDecoder(OLD_MAX_PAYLOAD)
    assert b"".join([piece for _, piece in decoder.feed(wire)]) == data
    with pytest.raises(ProtocolError, match=f"expected at most {OLD_MAX_PAYLOAD}$"):
        decoder.feed(codec.HEADER.pack(1, OLD_MAX_PAYLOAD + 1))


@pytest.mark.parametrize("length", [MAX_PAYLOAD + 1, 0xFFFFFFFF])
def test_length_that_no_frame_has_is_refused_for_good(length: int) -> None:
    for parts in every_way(codec.HEADER.pack(5, length)):
        decoder = FrameDecoder()
        with pytest.raises(
            ProtocolError,
            match=rf"^a frame of channel 5 says it has {length} bytes, expected at most {MAX_PAYLOAD}$",
        ):
            for part in [*parts, b"x"]:
                assert decoder.feed(part) == []
        with pytest.raises(ProtocolError):
            decoder.feed(VECTORS[0][2])
