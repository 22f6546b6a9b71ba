"""A model of how NRI's Go side reads a connection of a mux. It is not a byte stream.

Built from the sources, not from what we send:

- ``mux.reader`` and ``conn.Read`` of pkg/net/multiplex/mux.go (NRI 0.6.1 to 0.12): each frame's payload is queued, at
  most 256; one ``Read`` takes one payload, and fails with ENOMEM if that is longer than the buffer.
- ``bufio.Reader`` of Go with its default of 4096 bytes.
- ``channel.recv`` of channel.go of ttRPC: the header through that reader, then as many bytes as the header states.
"""

from __future__ import annotations

import struct
from collections import deque

from nri.v2.ttrpc.codec import MessageFrame

QUEUE = 256
BUFFER = 4096
MESSAGE_MAX = 4 << 20

_FRAME = struct.Struct(">II")
_HEADER = struct.Struct(">IIBB")


class ConnectionOverError(AssertionError):
    """The Go side has closed the connection; the text is its log line."""


class GoReader:
    """One Go peer: ``messages`` returns the messages in a mux's bytes, in order for each connection."""

    def __init__(self) -> None:
        self._trunk = b""
        self._queues: dict[int, _Connection] = {}

    def messages(self, wire: bytes) -> list[tuple[int, MessageFrame]]:
        """Queue all frames before any is read, as a busy peer does, then read every message.

        :raises ConnectionOverError: where the Go side ends the connection.
        """
        self._trunk += wire
        while len(self._trunk) >= _FRAME.size:
            connection, length = _FRAME.unpack_from(self._trunk)
            if len(self._trunk) < _FRAME.size + length:
                break
            payload = self._trunk[_FRAME.size : _FRAME.size + length]
            self._trunk = self._trunk[_FRAME.size + length :]
            queue = self._queues.setdefault(connection, _Connection()).frames
            if len(queue) == QUEUE:
                raise ConnectionOverError("failed to queue payload for reading")
            queue.append(payload)
        return [
            (number, message) for number, each in self._queues.items() for message in each.receive()
        ]


class _Connection:
    def __init__(self) -> None:
        self.frames: deque[bytes] = deque()
        self._buffered = b""

    def receive(self) -> list[MessageFrame]:
        found = []
        while self._buffered or self.frames:
            length, stream, kind, flags = _HEADER.unpack(self._read_full(_HEADER.size))
            if length > MESSAGE_MAX:
                raise ConnectionOverError(
                    f"message length {length} exceed maximum message size of {MESSAGE_MAX}"
                )
            found.append(MessageFrame(stream, kind, flags, self._read_full(length)))
        return found

    def _read_full(self, size: int) -> bytes:
        """``io.ReadFull(bufio.Reader, buffer of size bytes)``."""
        got = b""
        while len(got) < size:
            wanted = size - len(got)
            if not self._buffered:
                if wanted >= BUFFER:
                    got += self._read(wanted)  # past the buffer, straight into the caller's
                    continue
                self._buffered = self._read(BUFFER)
            got += self._buffered[:wanted]
            self._buffered = self._buffered[wanted:]
        return got

    def _read(self, capacity: int) -> bytes:
        """``conn.Read``: one frame, or nothing at all."""
        if not self.frames:
            raise ConnectionOverError("a message is not complete: the reader waits for ever")
        payload = self.frames.popleft()
        if len(payload) > capacity:
            raise ConnectionOverError(
                f"cannot allocate memory: a frame of {len(payload)} bytes, room for {capacity}"
            )
        return payload
