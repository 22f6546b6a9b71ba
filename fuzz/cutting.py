"""Streams for the decoders of the wire: cut into pieces, with a limit that short inputs can reach."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 48
"""The maximum size of a message or payload in bytes while a target runs; a fuzzer never reaches 4 MiB."""


@contextmanager
def limited(module: Any, name: str, limit: int = LIMIT) -> Iterator[None]:
    """Set the constant ``name`` of a codec to ``limit``."""
    with mock.patch.object(module, name, limit):
        yield


def ways(data: bytes) -> tuple[bytes, list[list[bytes]]]:
    """Return the stream after the first byte, and its pieces: whole, byte by byte, and in sizes from the first
    byte."""
    sizes, stream = (data[0], data[1:]) if data else (0, b"")
    first, second = sizes % 16 + 1, sizes // 16 + 1
    cuts, at = [0], 0
    while at < len(stream):
        at += first if len(cuts) % 2 else second
        cuts.append(min(at, len(stream)))
    pieces = [stream[start:end] for start, end in itertools.pairwise(cuts)]
    return stream, [[stream], [stream[at : at + 1] for at in range(len(stream))], pieces]


def held(decoder: object) -> int:
    """Return the number of bytes that a decoder keeps between two calls."""
    names = getattr(type(decoder), "__slots__", None) or vars(decoder)
    values = [getattr(decoder, name) for name in names]
    return sum(len(value) for value in values if isinstance(value, bytes | bytearray))
