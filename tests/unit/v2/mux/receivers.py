"""Receivers that tests script."""

import socket
import time
from collections.abc import Sequence

from nri.v2.mux import Job
from tests.support.connected import Recorder

Pair = tuple[socket.socket, socket.socket]


class Asking(Recorder):
    """A receiver that returns a job for each byte: the one that ``jobs`` has for it; and that may have work due."""

    def __init__(self, jobs: dict[bytes, Job]) -> None:
        super().__init__()
        self.jobs = jobs
        self.when: float | None = None
        self.expired = 0

    def receive(self, data: bytes) -> Sequence[Job]:
        super().receive(data)
        return [self.jobs[bytes([byte])] for byte in data]

    def due(self) -> float | None:
        return self.when

    def expire(self) -> None:
        if self.when is not None and self.when <= time.monotonic():
            self.when, self.expired = None, self.expired + 1


class Broken(Recorder):
    """A receiver with a bug."""

    def receive(self, data: bytes) -> None:
        raise RuntimeError("a bug")
