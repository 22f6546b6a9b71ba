"""Frames of a trunk: bytes in, pieces of connections out. No I/O.

A frame is a connection's id and a payload's length, each an unsigned 32-bit number in network order, then the
payload. There is no handshake: both ends know the ids. A payload is a piece of its connection's byte stream and
nothing more; where it begins and ends means nothing to what is said on the connection.

What is done about malformed input:

- a length above :data:`MAX_PAYLOAD` is a :class:`FrameError`, and the trunk is lost: where the next frame begins
  can't be known. Nothing is allocated for a length: what has come of a payload is handed out at once.
- an id that nobody listens to is not this module's affair; id 0 is reserved, and is handed out like any other.
- an empty payload is no piece at all.
- a stream that ends within a frame leaves :attr:`FrameDecoder.inside` true.
"""

from __future__ import annotations

import struct

from nri.multiplex.errors import ProtocolError

HEADER = struct.Struct(">II")

MAX_PAYLOAD = 4 * 1024 * 1024 + 10
"""Bytes of the longest payload: the longest ttRPC message with its header. A longer write is several frames."""

PLUGIN_SERVICE = 1
"""The connection on which the plugin is the server."""

RUNTIME_SERVICE = 2
"""The connection on which the runtime is the server."""


class FrameError(ProtocolError):
    """The peer sent what can't be a frame. The trunk can't be used any more."""


class FrameDecoder:
    """Cuts the bytes of a trunk into pieces of its connections."""

    def __init__(self) -> None:
        self._header = b""
        self._connection = 0
        self._left = 0

    @property
    def inside(self) -> bool:
        """Whether a frame has begun and not ended."""
        return self._left > 0 or bool(self._header)

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """The pieces that ``data`` holds, in order, each with the id of its connection.

        :raises FrameError: for a length that no frame has; the pieces before it are lost with the trunk.
        """
        pieces = []
        at, size = 0, len(data)
        while at < size:
            if self._left == 0:
                head = self._header + data[at : at + HEADER.size - len(self._header)]
                at += len(head) - len(self._header)
                if len(head) < HEADER.size:
                    self._header = head
                    break
                self._header = b""
                self._connection, self._left = HEADER.unpack(head)
            if self._left > MAX_PAYLOAD:  # and stays so: nothing is read after it
                raise FrameError(
                    f"a frame of connection {self._connection} says it has {self._left} bytes, "
                    f"expected at most {MAX_PAYLOAD}"
                )
            piece = data[at : at + self._left]
            at += len(piece)
            self._left -= len(piece)
            if piece:
                pieces.append((self._connection, piece))
        return pieces


def encode(connection: int, data: bytes) -> bytes:
    """``data`` as frames of ``connection``; none for no data."""
    if len(data) <= MAX_PAYLOAD:
        return HEADER.pack(connection, len(data)) + data if data else b""
    cuts = range(0, len(data), MAX_PAYLOAD)
    return b"".join([encode(connection, data[at : at + MAX_PAYLOAD]) for at in cuts])
