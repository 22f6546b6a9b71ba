"""The protocol between a plugin's prefork server and a host's pool: a codec without I/O.

A worker reads one request from its socket: the length (:data:`LENGTH` bytes, network order), then the request.
It writes its stdout in pieces: the length of a piece (the same form, not 0), then the piece. Last come zeros in
place of a length, and the exit status in one byte.
"""

from __future__ import annotations

VERSION = 5
"""The version of the protocol, which ``TYPE version`` tells."""

LENGTH = 4
"""Bytes of the length of a request or of a piece."""

MAX_PIECE = 1 << 28
"""Bytes of a piece at most. The first four bytes of a text are a larger number, so a text is told from a piece."""

_END = bytes(LENGTH)


def encode_request(data: bytes) -> bytes:
    """Return the bytes that a worker reads for the request ``data``."""
    return len(data).to_bytes(LENGTH, "big") + data


class ResultDecoder:
    """Decodes what a worker writes to its socket, in whatever pieces it arrives."""

    __slots__ = ("_head", "_piece", "is_over", "is_text", "status", "stdout")

    def __init__(self) -> None:
        self.stdout = bytearray()
        """The decoded stdout of the worker."""
        self.status: int | None = None
        """The exit status that the worker has told; None before its end."""
        self.is_over = False
        """Whether the result is complete: the end was read, or the bytes are not in pieces."""
        self.is_text = False
        """Whether the bytes that arrive belong to no piece.

        They follow the end, or the plugin wrote to the socket directly. They become part of ``stdout``, which makes
        the result invalid."""
        self._head = b""  # the bytes read so far of a length, or of the end
        self._piece = 0  # bytes of the current piece that are still to come

    def feed(self, data: bytes) -> None:
        """Decode ``data``, the bytes that were read next."""
        left = self._head + data
        self._head = b""
        while left:
            if self._piece:
                self.stdout += left[: self._piece]
                self._piece, left = max(0, self._piece - len(left)), left[self._piece :]
            elif self.is_text:
                self.stdout += left
                break
            elif len(left) <= LENGTH:
                self._head = left  # a length is followed by at least one byte of the piece, or by the exit status
                break
            elif left.startswith(_END):
                self.status, left = left[LENGTH], left[LENGTH + 1 :]
                self.is_over = self.is_text = True
            elif (size := int.from_bytes(left[:LENGTH], "big")) <= MAX_PIECE:
                self._piece, left = size, left[LENGTH:]
            else:
                self.is_over = self.is_text = True
