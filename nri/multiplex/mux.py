"""A trunk: a link that several connections share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.multiplex.codec import FrameDecoder, encode
from nri.multiplex.connection import Connection, Receiver
from nri.multiplex.errors import ClosedError

if TYPE_CHECKING:
    import socket
    import threading
    from collections.abc import Callable, Sequence

    from nri.multiplex.leader_followers import Task


class Mux:
    """A connected stream socket, which it owns, that carries several connections.

    What :mod:`nri.multiplex.connection` promises holds for each of them. Data for a connection that is not open are
    dropped.

    :param max_payload: bytes of the longest payload in either direction; by default
        :data:`nri.multiplex.MAX_PAYLOAD`.
    """

    def __init__(self, sock: socket.socket, *, max_payload: int | None = None) -> None:
        self._link = Connection(sock, self)
        self._decoder = FrameDecoder(max_payload)
        self._max_payload = max_payload
        self._receivers: dict[int, Receiver] = {}

    @property
    def reason(self) -> ClosedError | None:
        """Why it is closed; None while it is open."""
        return self._link.reason

    def open(self, connection: int, receiver: Receiver) -> Callable[[bytes], None]:
        """Open a connection; returns the function that sends one whole message on it, and raises ClosedError.

        One call is one message: a Go peer can't read two in a frame, nor one in other pieces than
        :func:`nri.multiplex.encode` makes. To be done before :meth:`run`, or what comes in between is dropped.
        """
        self._receivers[connection] = receiver
        return lambda message: self._link.send(encode(connection, message, self._max_payload))

    def run(self) -> ClosedError:
        """Read until the trunk is closed, by the peer or by us; returns the reason."""
        return self._link.run()

    def wait(self, done: threading.Lock, timeout: float | None = None) -> bool:
        """As :meth:`nri.multiplex.Connection.wait`."""
        return self._link.wait(done, timeout)

    def close(self, reason: str) -> ClosedError:
        """Close the trunk, unless it is closed already; returns the reason that sticks."""
        return self._link.close(reason)

    def receive(self, data: bytes) -> Sequence[Task]:
        """For the link: hand out what came."""
        tasks: list[Task] = []
        for connection, piece in self._decoder.feed(data):
            receiver = self._receivers.get(connection)
            if receiver is not None:
                tasks += receiver.receive(piece) or ()
        return tasks

    def closed(self, reason: ClosedError) -> None:
        """For the link: tell every connection."""
        for receiver in list(self._receivers.values()):
            receiver.closed(reason)

    def due(self) -> float | None:
        """For the link: the earliest of all connections."""
        dues = [due for receiver in self._receivers.values() if (due := receiver.due()) is not None]
        return min(dues) if dues else None

    def expire(self) -> None:
        """For the link: whatever is due on any connection."""
        for receiver in self._receivers.values():
            receiver.expire()
