"""Signals as a runtime leaves them."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_signal_is_ignored() -> Iterator[None]:
    """A child would ignore what the caller of the tests ignores: nohup and background jobs of scripts do so."""
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGINT)}
    ignored = [number for number, handler in before.items() if handler == signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda *_: None)  # which another program does not inherit
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
