"""Receivers that tests script, and a connection with one."""

import socket
import threading
import time

from nri.multiplex import Connection, Receiver
from tests.support.connected import Recorder

Pair = tuple[socket.socket, socket.socket]


def connected(sock: socket.socket, receiver: Receiver) -> Connection:
    connection = Connection(sock)
    connection.attach(receiver)
    return connection


class Due(Recorder):
    """A receiver that wants to be called at a time."""

    def __init__(self, when: float | None) -> None:
        super().__init__()
        self.when, self.expired = when, 0

    def due(self) -> float | None:
        return self.when

    def expire(self) -> None:
        if self.when is not None and self.when <= time.monotonic():
            self.when, self.expired = None, self.expired + 1


class Releasing(Recorder):
    """A receiver that releases a lock when all has come that is waited for."""

    def __init__(self, expected: bytes) -> None:
        super().__init__()
        self.expected = expected
        self.readers: list[threading.Thread] = []
        self.done = threading.Lock()
        self.done.acquire()

    def receive(self, data: bytes) -> None:
        super().receive(data)
        self.readers.append(threading.current_thread())
        if self.data == self.expected:
            self.done.release()
