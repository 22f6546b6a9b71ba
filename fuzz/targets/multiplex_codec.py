"""Frames of a mux: however the bytes are cut, each channel gets the same bytes in the same order, or the mux fails
at the same frame for good. The decoder returns only bytes that came in, keeps at most a header, and decoded
frames are the same after encoding and decoding again.
"""

from __future__ import annotations

import struct

from fuzz.cutting import LIMIT, held, limited, ways
from nri.v2 import frames as codec
from nri.v2.frames import FrameDecoder, ProtocolError, encode

_HEADER = struct.Struct(">II")


def check(data: bytes) -> None:
    """Decode the bytes after the first, cut in several ways."""
    with limited(codec, "FIRST_PAYLOAD"):
        stream, cuts = ways(data)
        expected, lost = _model(stream)
        for pieces in cuts:
            got, failed = _decode(pieces)
            assert failed == lost, "the way of cutting decides about the end of the mux"
            if failed:
                # Frames in the same piece as the bad one are lost with it.
                assert all(expected.get(key, b"").startswith(value) for key, value in got.items())
            else:
                assert got == expected
        wire = b"".join(
            encode(connection, payload, LIMIT) for connection, payload in expected.items()
        )
        assert _decode([wire]) == (expected, False)


def _decode(pieces: list[bytes]) -> tuple[dict[int, bytes], bool]:
    decoder, failed = FrameDecoder(LIMIT), False
    streams: dict[int, bytes] = {}
    for piece in pieces:
        try:
            fed = decoder.feed(piece)
        except ProtocolError:
            failed = True
            continue
        assert not (failed and fed), "a failed mux goes on"
        assert all(part for _, part in fed), "the decoder returns an empty piece"
        assert sum(len(part) for _, part in fed) <= len(piece)
        assert held(decoder) < _HEADER.size
        for connection, part in fed:
            streams[connection] = streams.get(connection, b"") + part
    return streams, failed


def _model(stream: bytes) -> tuple[dict[int, bytes], bool]:
    """Return the channels' bytes, and whether the mux has failed, by the format."""
    streams: dict[int, bytes] = {}
    while len(stream) >= _HEADER.size:
        connection, length = _HEADER.unpack_from(stream)
        stream = stream[_HEADER.size :]
        if length > LIMIT:
            # A decoder may fail after the header, or with the next byte.
            return streams, True
        payload, stream = stream[:length], stream[length:]
        if payload:
            streams[connection] = streams.get(connection, b"") + payload
    return streams, False


def _frame(connection: int, payload: bytes, length: int | None = None) -> bytes:
    return _HEADER.pack(connection, len(payload) if length is None else length) + payload


SEEDS = (
    b"\x00" + _frame(1, b"a") + _frame(2, b"\x00\x00\x00\x01"),
    b"\x27" + _frame(1, b"first") + _frame(2, b"second") + _frame(1, b"third"),
    b"\x01" + _frame(1, b"") + _frame(0xFFFFFFFF, bytes(LIMIT)),
    b"\x35" + _frame(1, b"good") + _frame(7, b"bad", LIMIT + 1) + _frame(1, b"after"),
    b"\x10" + _frame(3, b"half", 9),
    b"\x10" + _frame(0, b"zero") + b"\x00\x00",
)
