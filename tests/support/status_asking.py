"""Questions to a status socket, by bare sockets: what any program can do."""

from __future__ import annotations

import json
import os
import socket
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.support.waiting import SOON

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def connected(path: Path) -> Iterator[socket.socket]:
    """A connection to the socket, whose path may be longer than an address."""
    at = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            # A connection with a Python timeout does not wait for room in the listener's queue.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(SOON), 0))
            sock.connect(f"/proc/self/fd/{at}/{path.name}")
            sock.settimeout(SOON)
            yield sock
    finally:
        os.close(at)


def rest_of(sock: socket.socket) -> bytes:
    """What comes until the end of the stream."""
    pieces = []
    while piece := sock.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


def told(path: Path, line: bytes) -> bytes:
    """The answer to a line."""
    with connected(path) as sock:
        sock.sendall(line)
        return rest_of(sock)


def ask(path: Path, pod: str = "") -> dict[str, Any]:
    """The answer about a pod, or the status, decoded."""
    answer: dict[str, Any] = json.loads(told(path, pod.encode() + b"\n"))
    return answer


def status_of(path: Path) -> dict[str, Any]:
    """The status."""
    return ask(path)
