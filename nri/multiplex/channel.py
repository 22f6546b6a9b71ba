"""The two sides of a channel: the sender of messages, and the receiver of bytes; and how both end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from nri.errors import NRIError

Job = Callable[[], object]
"""A unit of work for the event thread. Its result is ignored; it must not raise."""


class ClosedError(NRIError):
    """The connection is closed; ``str()`` is the reason. Expected whenever a peer goes away."""


class ProtocolError(NRIError):
    """The peer broke the protocol: nothing more can be trusted. If a receiver raises it, the connection is closed."""


class Receiver:
    """Receives the bytes of a channel. This base class drops them."""

    def receive(self, data: bytes) -> Sequence[Job] | None:
        """Take the next bytes without blocking; return jobs for work that may block.

        :raises ProtocolError: when the connection can no longer be used.
        """

    def closed(self, reason: ClosedError) -> None:
        """Take note that the connection is closed. Called once."""

    def due(self) -> float | None:
        """Return the time of :func:`time.monotonic` at which to call :meth:`expire`; None for never."""

    def expire(self) -> None:
        """Do what is due, while a job runs that takes long."""


class Channel(Protocol):
    """One stream of messages in each direction."""

    def attach(self, receiver: Receiver) -> None:
        """Pass the received bytes to ``receiver``. Do it before the connection runs: earlier bytes are dropped."""

    def send(self, message: bytes) -> None:
        """Send one whole message. Any thread may call this.

        :raises ClosedError: when the connection is closed, or closes because the message cannot be sent.
        """

    def later(self, function: Job) -> None:
        """Call a function when no event keeps the event thread busy; once, if it is given several times until then.

        Only the event thread may call this.
        """

    def wait(self, done: threading.Lock, timeout: float | None = None) -> bool:
        """Acquire ``done``, which the receiver releases when the awaited bytes have arrived.

        Returns False when ``timeout`` seconds pass before that; None waits without a limit.
        """
