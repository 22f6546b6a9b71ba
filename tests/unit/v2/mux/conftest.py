"""The two ends of a connection."""

import socket
from collections.abc import Iterator

import pytest

from tests.unit.v2.mux.receivers import Pair


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()
