"""Messages of ttRPC: however the bytes are cut, the decoder returns the same messages, and marks too long ones
without their data. It keeps at most the longest message with its header. An encoded message is decoded to the same
message.
"""

from __future__ import annotations

import struct

from fuzz.cutting import LIMIT, held, ways
from nri.v2.ttrpc import codec
from nri.v2.ttrpc.codec import MessageDecoder, MessageFrame, Oversized

_HEADER = struct.Struct(">IIBB")


def check(data: bytes) -> None:
    """Decode the bytes after the first, cut in several ways."""
    stream, cuts = ways(data)
    expected = _model(stream)
    for pieces in cuts:
        assert _decode(pieces) == expected
    whole = [message for message in expected if isinstance(message, MessageFrame)]
    wire = b"".join(
        codec.encode(frame.stream, frame.type, frame.data, frame.flags) for frame in whole
    )
    assert _decode([wire]) == whole


def _decode(pieces: list[bytes]) -> list[MessageFrame | Oversized]:
    decoder, frames = MessageDecoder(LIMIT), []
    for piece in pieces:
        frames += decoder.feed(piece)
        assert held(decoder) <= LIMIT + _HEADER.size, "more is kept than a message has"
    return frames


def _model(stream: bytes) -> list[MessageFrame | Oversized]:
    """Return the messages in the bytes by the format."""
    frames: list[MessageFrame | Oversized] = []
    while len(stream) >= _HEADER.size:
        length, number, kind, flags = _HEADER.unpack_from(stream)
        data, stream = stream[_HEADER.size :][:length], stream[_HEADER.size + length :]
        if length > LIMIT:
            frames.append(Oversized(number, kind, length))
        elif len(data) == length:
            frames.append(MessageFrame(number, kind, flags, data))
    return frames


def _message(
    stream: int, kind: int, data: bytes, flags: int = 0, length: int | None = None
) -> bytes:
    return _HEADER.pack(len(data) if length is None else length, stream, kind, flags) + data


SEEDS = (
    b"\x00" + _message(1, 1, b"a") + _message(1, 2, b"") + _message(3, 3, b"data", 5),
    b"\x25" + _message(0, 0, b"\0") + _message(0xFFFFFFFF, 255, b"z", 255),
    b"\x13"
    + _message(9, 1, bytes(LIMIT))
    + _message(11, 1, bytes(LIMIT + 1))
    + _message(13, 1, b"after"),
    b"\x02" + _message(9, 1, b"the beginning", length=0xFFFFFFFF),
    b"\x7f" + _message(5, 1, b"half", length=9),
    b"\x10" + _message(5, 1, b"") + b"\x00\x00\x00",
)
