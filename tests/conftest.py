"""Rules for all tests.

Where everything is installed, in CI, a runtime test that is skipped has failed. What a test sends on a trunk must be
what a Go peer can read, whatever else the test is about. The caller's umask does not decide what modes the files of a
test have.
"""

import os
from collections.abc import Generator, Iterator

import pytest

from nri.multiplex import encode, trunk
from tests.go_reader import ConnectionOverError, GoReader

RAW = "tests/unit/multiplex/"
"""Tests of trunks that carry no messages of ttRPC; single tests elsewhere have the mark ``raw``."""


@pytest.fixture(autouse=True)
def _readable_by_go(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    wrong: list[str] = []

    def checked(connection: int, message: bytes, limit: int | None) -> bytes:
        wire = encode(connection, message, limit)
        try:
            read = [message for _, message in GoReader().messages(wire)]
            if len(read) != 1:
                wrong.append(f"{len(read)} messages in one call of send: {message[:100]!r}")
        except ConnectionOverError as error:
            wrong.append(f"{error}: {message[:100]!r}")
        return wire

    if not request.node.nodeid.startswith(RAW) and not request.node.get_closest_marker("raw"):
        monkeypatch.setattr(trunk, "encode", checked)
    yield
    assert not wrong, "a Go peer would end the connection"


def pytest_configure() -> None:
    os.umask(0o022)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and item.get_closest_marker("runtime"):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        report.outcome = "failed"
        report.longrepr = f"a runtime test must not be skipped in CI: {why}"
    return report
