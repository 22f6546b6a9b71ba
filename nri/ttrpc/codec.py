"""Messages of ttRPC: bytes in, messages out. No I/O.

A message is a header of ten bytes (the length of its data, its stream's id, both unsigned 32-bit numbers in network
order; its type; its flags), then its data. Source: PROTOCOL.md of containerd/ttrpc.

What is done about malformed input:

- a length above the decoder's limit is an :class:`Oversized`: its data are passed over as they come, nothing is kept,
  and the message after it is read as any other. The connection is not lost.
- types, flags and ids are handed out as they are; what they may be is the server's or the client's to say.
- a stream that ends within a message leaves :attr:`MessageDecoder.inside` true.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

HEADER = struct.Struct(">IIBB")

MAX_DATA = 4 * 1024 * 1024
"""Bytes of the longest data of a message, of ttRPC's own making. A peer with an older one may send longer ones."""

REQUEST, RESPONSE, DATA = 1, 2, 3
"""Types of a message."""

FLAG_REMOTE_CLOSED, FLAG_REMOTE_OPEN, FLAG_NO_DATA = 1, 2, 4
"""Flags of a message: the sender sends no more; more will come; this one carries nothing."""


class Message(NamedTuple):
    """A whole message."""

    stream: int
    type: int
    flags: int
    data: bytes


class Oversized(NamedTuple):
    """A message that was too long, and whose data are gone."""

    stream: int
    type: int
    length: int


class MessageDecoder:
    """Cuts a connection's bytes into messages.

    :param limit: bytes of the longest data; by default :data:`MAX_DATA`. Memory is taken for what has come, and not
        for what a header says.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = MAX_DATA if limit is None else limit
        self._buffer = bytearray()
        self._header: tuple[int, int, int, int] | None = None
        self._skip = 0

    @property
    def inside(self) -> bool:
        """Whether a message has begun and not ended."""
        return bool(self._buffer) or self._header is not None or self._skip > 0

    def feed(self, data: bytes) -> list[Message | Oversized]:
        """The messages that end in ``data``, and the oversized ones that begin there, in order."""
        found: list[Message | Oversized] = []
        if self._skip:
            passed = min(self._skip, len(data))
            self._skip -= passed
            data = data[passed:]
        self._buffer += data
        buffer = self._buffer
        while True:
            if self._header is None:
                if len(buffer) < HEADER.size:
                    return found
                length, stream, kind, _ = header = HEADER.unpack_from(buffer)
                del buffer[: HEADER.size]
                if length > self._limit:
                    found.append(Oversized(stream, kind, length))
                    passed = min(length, len(buffer))
                    del buffer[:passed]
                    self._skip = length - passed
                    continue
                self._header = header
            length, stream, kind, flags = self._header
            if len(buffer) < length:
                return found
            with memoryview(buffer) as view:
                found.append(Message(stream, kind, flags, bytes(view[:length])))
            del buffer[:length]
            self._header = None


def encode(stream: int, kind: int, data: bytes, flags: int = 0) -> bytes:
    """A message; the caller sees to it that ``data`` are at most :data:`MAX_DATA` bytes."""
    return HEADER.pack(len(data), stream, kind, flags) + data
