"""Frames of a mux: bytes in, pieces of channels out. No I/O.

A frame is a channel's id and a payload's length, each an unsigned 32-bit number in network order, then the
payload. There is no handshake: both ends know the ids. (Go calls a channel a connection.)

A reader must take payloads as pieces of a byte stream, since Go's writer cuts messages anywhere. A writer must not:
one ``Read`` of Go's takes one frame, and ends the connection if the frame is longer than its buffer, or if more than
256 frames wait (``conn.Read`` in pkg/net/multiplex/mux.go of containerd/nri; decision 11). So ``encode``
makes frames of one message: the first has at most ``FIRST_PAYLOAD`` bytes, the rest follows in one frame.

Malformed input is handled so:

- a length above the decoder's limit is a ``ProtocolError``, and the connection is lost: the beginning of the
  next frame is unknown. A length allocates nothing: the bytes of a payload are handed out as they arrive.
- an unknown id is handed out like any other, and so is id 0, which is reserved.
- an empty payload makes no piece.
"""

from __future__ import annotations

import struct

from nri.errors import NRIError

HEADER = struct.Struct(">II")

MAX_PAYLOAD = 4 * 1024 * 1024 + 10
"""Bytes of the longest payload: the longest ttRPC message with its header. A longer write is several frames."""

OLD_MAX_PAYLOAD = 1 << 24
"""The same up to NRI 0.6 (``maxPayloadSize`` of its mux.go), whose writer does not cut and refuses more."""

FIRST_PAYLOAD = 4096
"""Bytes of a message's first frame at most: the size of Go's ``bufio.Reader``, through which ttRPC reads a header."""

PLUGIN_SERVICE = 1
RUNTIME_SERVICE = 2
"""The channels on which the plugin and the runtime are the servers."""


class ProtocolError(NRIError):
    """The peer broke the protocol, as with bytes that are no frame: the connection can no longer be used."""


class FrameDecoder:
    """Cuts the bytes of a connection into pieces of its channels.

    :param limit: bytes of the longest payload; by default ``MAX_PAYLOAD``.
    """

    def __init__(self, limit: int = MAX_PAYLOAD) -> None:
        self._limit = limit
        self._header = b""
        self._channel = self._left = 0

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return the pieces that ``data`` holds, in order, each with the id of its channel.

        :raises ProtocolError: for a length above the limit; the pieces before it are lost with the connection.
        """
        pieces = []
        at = 0
        size = len(data)
        while at < size:
            if self._left == 0:
                head = self._header + data[at : at + HEADER.size - len(self._header)]
                at += len(head) - len(self._header)
                if len(head) < HEADER.size:
                    self._header = head
                    break
                self._header = b""
                self._channel, self._left = HEADER.unpack(head)
            if self._left > self._limit:  # it stays above: nothing is read after this
                fault = f"a frame of channel {self._channel} says it has {self._left} bytes"
                raise ProtocolError(f"{fault}, expected at most {self._limit}")
            piece = data[at : at + self._left]
            at += len(piece)
            self._left -= len(piece)
            if piece:
                pieces.append((self._channel, piece))
        return pieces


def encode(channel: int, message: bytes, limit: int = MAX_PAYLOAD) -> bytes:
    """Return one whole message as frames of ``channel``; no frame for an empty one.

    :param limit: bytes of the longest payload; by default ``MAX_PAYLOAD``.
    """
    parts = []
    size = FIRST_PAYLOAD
    start = 0
    while start < len(message):
        piece = message[start : start + size]
        parts += [HEADER.pack(channel, len(piece)), piece]
        start += size
        size = limit
    return b"".join(parts)
