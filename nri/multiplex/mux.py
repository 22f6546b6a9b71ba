"""A mux: one socket that carries several channels."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from nri.multiplex.channel import Channel, ClosedError, Job, Receiver
from nri.multiplex.codec import FrameDecoder, encode
from nri.multiplex.connection import Connection


class Mux(Receiver):
    """A connected stream socket, which it owns, that carries several channels.

    The contract of :mod:`nri.multiplex.connection` holds for each of them. Data for a channel that is not open are
    dropped.

    :param max_payload: bytes of the longest payload in either direction; by default
        :data:`nri.multiplex.codec.MAX_PAYLOAD`.
    """

    def __init__(self, sock: socket.socket, *, max_payload: int | None = None) -> None:
        self._trunk = Connection(sock)
        self._trunk.attach(self)
        self._decoder = FrameDecoder(max_payload)
        self._max_payload = max_payload
        self._receivers: dict[int, Receiver] = {}

    @property
    def reason(self) -> ClosedError | None:
        """The reason for which it is closed; None while it is open."""
        return self._trunk.reason

    def open(self, number: int) -> Channel:
        """Open a channel. Attach its receiver before :meth:`run`: data that arrive earlier are dropped."""
        return _MuxChannel(number, self._trunk, self._receivers, self._max_payload)

    def run(self) -> ClosedError:
        """Read until the connection is closed, by the peer or by us; returns the reason."""
        return self._trunk.run()

    def close(self, reason: str) -> ClosedError:
        """Close the connection, unless it is closed already; returns the first reason."""
        return self._trunk.close(reason)

    def receive(self, data: bytes) -> Sequence[Job]:
        """Hand each channel's pieces to its receiver."""
        jobs: list[Job] = []
        for number, piece in self._decoder.feed(data):
            if (receiver := self._receivers.get(number)) is not None:
                jobs += receiver.receive(piece) or ()
        return jobs

    def closed(self, reason: ClosedError) -> None:
        """Notify every receiver."""
        for receiver in list(self._receivers.values()):
            receiver.closed(reason)

    def due(self) -> float | None:
        """Return the earliest time of all receivers."""
        return min((due for each in self._receivers.values() if (due := each.due()) is not None), default=None)

    def expire(self) -> None:
        """Do the work that is due on any channel."""
        for receiver in self._receivers.values():
            receiver.expire()


@dataclass(slots=True)
class _MuxChannel:
    """One channel of a mux. A Go peer reads no other frames than :func:`nri.multiplex.codec.encode` makes."""

    number: int
    connection: Connection
    receivers: dict[int, Receiver]
    max_payload: int | None

    def attach(self, receiver: Receiver) -> None:
        self.receivers[self.number] = receiver

    def send(self, message: bytes) -> None:
        self.connection.send(encode(self.number, message, self.max_payload))

    def wait(self, done: threading.Lock, timeout: float | None = None) -> bool:
        return self.connection.wait(done, timeout)
