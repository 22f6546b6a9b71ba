"""A rule for tests that import it in their conftest: a Go peer can read every message that they send on a mux."""

from collections.abc import Iterator

import pytest

from nri.v2 import mux
from nri.v2.frames import encode
from tests.support.go_reader import ConnectionOverError, GoReader

RAW = "tests/unit/v2/mux/"
"""Tests of muxes without messages of ttRPC; single tests elsewhere have the mark ``raw``."""


@pytest.fixture(autouse=True)
def readable_by_go(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    wrong: list[str] = []

    def checked(channel: int, message: bytes, limit: int) -> bytes:
        wire = encode(channel, message, limit)
        try:
            read = [message for _, message in GoReader().messages(wire)]
            if len(read) != 1:
                wrong.append(f"{len(read)} messages in one call of send: {message[:100]!r}")
        except ConnectionOverError as error:
            wrong.append(f"{error}: {message[:100]!r}")
        return wire

    if not request.node.nodeid.startswith(RAW) and not request.node.get_closest_marker("raw"):
        monkeypatch.setattr(mux, "encode", checked)
    yield
    assert not wrong, "a Go peer would end the connection"
