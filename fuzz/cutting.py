"""Streams for the decoders of the wire: cut as the first byte says, with a limit that short inputs can reach."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 48
"""Bytes of the longest message or payload while a target runs: four mebibytes are out of a fuzzer's reach."""


@contextmanager
def limited(module: Any, name: str, limit: int = LIMIT) -> Iterator[None]:
    """Let the constant ``name`` of a codec be ``limit``."""
    with mock.patch.object(module, name, limit):
        yield


def ways(data: bytes) -> tuple[bytes, list[list[bytes]]]:
    """The stream after the first byte, and it in pieces: whole, byte by byte, and in sizes that the byte says."""
    sizes, stream = (data[0], data[1:]) if data else (0, b"")
    first, second = sizes % 16 + 1, sizes // 16 + 1
    cuts, at = [0], 0
    while at < len(stream):
        at += first if len(cuts) % 2 else second
        cuts.append(min(at, len(stream)))
    pieces = [stream[start:end] for start, end in itertools.pairwise(cuts)]
    return stream, [[stream], [stream[at : at + 1] for at in range(len(stream))], pieces]


def held(decoder: object) -> int:
    """Bytes that a decoder keeps between two calls."""
    names = getattr(type(decoder), "__slots__", None) or vars(decoder)
    values = [getattr(decoder, name) for name in names]
    return sum(len(value) for value in values if isinstance(value, bytes | bytearray))
