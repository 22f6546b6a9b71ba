"""The two sides of a channel: what sends messages on it, and what takes the bytes that arrive; and how both end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from nri.errors import NRIError

Job = Callable[[], object]
"""A unit of work for a reading thread. Its result is ignored; it must not raise."""


class ClosedError(NRIError):
    """The connection is closed; ``str()`` says why. Expected whenever a peer goes away."""


class ProtocolError(NRIError):
    """The peer broke the protocol, and nothing after that can be trusted. A receiver that raises it closes."""


class Receiver:
    """Takes what arrives on a channel or connection. This base class drops it."""

    def receive(self, data: bytes) -> Sequence[Job] | None:
        """Take the next bytes without blocking; returns jobs for what may block.

        :raises ProtocolError: when the connection cannot be used any more.
        """

    def closed(self, reason: ClosedError) -> None:
        """Take note that the connection is closed. Called once."""

    def due(self) -> float | None:
        """Return the time of :func:`time.monotonic` at which to call :meth:`expire`; None for never.

        Asked when reading begins, after each :meth:`receive` that returns jobs, and after each :meth:`expire`.
        """

    def expire(self) -> None:
        """Do what is due by now."""


class Channel(Protocol):
    """One stream of messages in each direction: a channel of a Mux, or a Connection of its own."""

    def attach(self, receiver: Receiver) -> None:
        """Hand what arrives to ``receiver``. Do it before the connection runs: until then, bytes are dropped."""

    def send(self, message: bytes) -> None:
        """Send one whole message. Any thread may call this.

        :raises ClosedError: when the connection is closed, or closes because the message cannot be sent.
        """

    def wait(self, done: threading.Lock, timeout: float | None = None) -> bool:
        """Acquire ``done``, which the receiver releases when the awaited bytes have arrived.

        Returns False when ``timeout`` seconds are over before; None waits without a limit.
        """
