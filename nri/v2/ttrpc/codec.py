"""Message frames of ttRPC: bytes in, frames out. No I/O.

A message frame is a header of ten bytes (the length of its data, its stream's id, both unsigned 32-bit numbers in
network order; its type; its flags), then its data. Source: PROTOCOL.md of containerd/ttrpc.

Malformed input is handled so:

- a length above the decoder's limit is an ``Oversized``: its data are skipped as they arrive, nothing is kept,
  and the frame after it is read as any other. The connection is not lost.
- types, flags and ids are handed out as they are; the server and the client check them.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

HEADER = struct.Struct(">IIBB")

MAX_DATA = 4 * 1024 * 1024
"""Bytes of the longest data of a message frame. A peer with an older ttRPC may send more."""

REQUEST = 1
RESPONSE = 2
DATA = 3
"""Types of a message frame."""

FLAG_REMOTE_CLOSED = 1
FLAG_REMOTE_OPEN = 2
FLAG_NO_DATA = 4
"""Flags of a message frame: the sender sends no more; more will follow; this one carries no data."""


class MessageFrame(NamedTuple):
    """A whole message frame."""

    stream: int
    type: int
    flags: int
    data: bytes


class Oversized(NamedTuple):
    """A message frame that was too long; its data are skipped."""

    stream: int
    type: int
    length: int


class MessageDecoder:
    """Cuts a channel's bytes into message frames.

    :param limit: bytes of the longest data; by default ``MAX_DATA``. Memory is allocated for the bytes that have
        arrived, not for the length in a header.
    """

    def __init__(self, limit: int = MAX_DATA) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._skip = 0

    def feed(self, data: bytes) -> list[MessageFrame | Oversized]:
        """Return the frames that end in ``data``, and the oversized ones that begin there, in order."""
        frames: list[MessageFrame | Oversized] = []
        buffer = self._buffer
        buffer += data
        while True:
            if self._skip:
                passed = min(self._skip, len(buffer))
                del buffer[:passed]
                self._skip -= passed
            if len(buffer) < HEADER.size:
                return frames
            length, stream, kind, flags = HEADER.unpack_from(buffer)
            end = HEADER.size + length
            if length > self._limit:
                frames.append(Oversized(stream, kind, length))
                self._skip = end
            elif len(buffer) < end:
                return frames
            else:
                with memoryview(buffer) as view:
                    frames.append(MessageFrame(stream, kind, flags, bytes(view[HEADER.size : end])))
                del buffer[:end]


def encode(stream: int, kind: int, data: bytes, flags: int = 0) -> bytes:
    """Return a message frame; the caller checks that ``data`` are at most ``MAX_DATA`` bytes."""
    return HEADER.pack(len(data), stream, kind, flags) + data
