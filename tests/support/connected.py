"""Two connected ends of ttRPC, each with a thread that reads."""

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from nri.v2.api import PodSandbox
from nri.v2.frames import FrameDecoder, encode
from nri.v2.mux import Channel, ClosedError, Job, Mux, Receiver
from nri.v2.ttrpc import RPCClient, RPCServer, codec
from nri.v2.ttrpc.server import unary
from nri.v2.ttrpc.ttrpc_pb2 import Request, Response
from tests.support.waiting import SOON

SERVICE = "test.Service"


def at_work() -> list[str]:
    """The names of this process's threads that read connections."""
    return sorted(
        thread.name for thread in threading.enumerate() if thread.name.startswith("relief")
    )


class Recorder(Receiver):
    """A receiver that keeps all data."""

    def __init__(self) -> None:
        self.data = b""
        self.reasons: list[str] = []

    def receive(self, data: bytes) -> Sequence[Job]:
        self.data += data
        return ()

    def closed(self, reason: ClosedError) -> None:
        self.reasons.append(str(reason))


@contextmanager
def running(*ends: Mux) -> Iterator[None]:
    """Each end's reader in a thread of its own; afterwards they are closed, and the threads are gone."""
    threads = [threading.Thread(target=end.run, name="test-reader") for end in ends]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for end in ends:
            end.close("the test is over")
        for thread in threads:
            thread.join(SOON)
            assert not thread.is_alive()


class Wire(Channel):
    """A channel in memory that keeps all sent data."""

    def __init__(self, send: Callable[[bytes], object] | None = None) -> None:
        self.sent: list[bytes] = []
        self.receiver = Receiver()
        self._send = send or self.sent.append

    def attach(self, receiver: Receiver) -> None:
        self.receiver = receiver

    def send(self, message: bytes) -> None:
        self._send(message)


@contextmanager
def serving(handlers: Any, **options: Any) -> Iterator[RPCClient]:
    """A client of a server with ``handlers``."""
    ours, theirs = socket.socketpair()
    muxes = Mux(ours), Mux(theirs)
    client = RPCClient(muxes[0].open(1))
    RPCServer(muxes[1].open(1), handlers, **options)
    with running(*muxes):
        yield client


class PeerByHand:
    """The raw other end of a server's connection: writes messages by hand, reads answers by hand."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.sock.settimeout(SOON)
        self._frames, self._decoder = FrameDecoder(), codec.MessageDecoder()
        self._found: list[codec.MessageFrame | codec.Oversized] = []

    def request(
        self,
        stream: int,
        method: str = "Echo",
        payload: bytes = b"",
        *,
        flags: int = 0,
        **rest: Any,
    ) -> None:
        data = Request(service=SERVICE, method=method, payload=payload, **rest).SerializeToString()
        self.send(codec.encode(stream, codec.REQUEST, data, flags))

    def send(self, data: bytes) -> None:
        self.sock.sendall(encode(1, data))

    def message(self) -> codec.MessageFrame | codec.Oversized:
        while not self._found:
            data = self.sock.recv(1 << 20)
            assert data, "the server has closed the connection"
            for _, piece in self._frames.feed(data):
                self._found += self._decoder.feed(piece)
        return self._found.pop(0)

    def answer(self) -> tuple[int, int, str, bytes]:
        """Stream, status code, status message, payload."""
        message = self.message()
        assert isinstance(message, codec.MessageFrame)
        assert message.type == codec.RESPONSE
        response = Response.FromString(message.data)
        return message.stream, response.status.code, response.status.message, response.payload


@contextmanager
def by_hand(handlers: Any, *, idle: Job = list, **options: Any) -> Iterator[PeerByHand]:
    """The raw peer of a server with ``handlers``."""
    ours, theirs = socket.socketpair()
    mux = Mux(theirs, idle=idle)
    RPCServer(mux.open(1), handlers, **options)
    with ours, running(mux):
        yield PeerByHand(ours)


def methods(**functions: Callable[..., Any]) -> dict[tuple[str, str], Any]:
    """Handlers of the test's service, all of which take a PodSandbox."""
    return {(SERVICE, name): unary(PodSandbox, function) for name, function in functions.items()}


def call(client: RPCClient, method: str, name: str = "", **options: Any) -> PodSandbox:
    """Call a method of the test's service with a PodSandbox of that name."""
    return client.call(SERVICE, method, PodSandbox(name=name), PodSandbox, **options)


def echo(request: PodSandbox, call: Any) -> PodSandbox:
    """A handler of the test's service."""
    return request
