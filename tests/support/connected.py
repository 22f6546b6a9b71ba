"""Two connected ends of ttRPC, each with a thread that reads."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nri.api import PodSandbox
from nri.multiplex import Connection, Mux
from nri.ttrpc import Client, Server, codec
from nri.ttrpc.server import unary
from nri.ttrpc.ttrpc_pb2 import Request, Response
from tests.support.waiting import TIMEOUT

SERVICE = "test.Service"


def at_work() -> list[str]:
    """The names of this process's threads that read links, serve calls, or send answers."""
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith(("link", "ttrpc")))


class Recorder:
    """A receiver that keeps what it is given."""

    def __init__(self) -> None:
        self.data = b""
        self.reasons: list[str] = []
        self.send: Callable[[bytes], None] = lambda data: None

    def receive(self, data: bytes) -> None:
        self.data += data

    def closed(self, reason: Exception) -> None:
        self.reasons.append(str(reason))

    def due(self) -> None:
        pass

    def expire(self) -> None:
        pass


@contextmanager
def running(*ends: Connection | Mux) -> Iterator[None]:
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
            thread.join(TIMEOUT)
            assert not thread.is_alive()


@contextmanager
def serving(server: Server, *, mux: bool = True, connection: int = 1) -> Iterator[Client]:
    """A client of ``server``, on a trunk's connection or on a link of their own."""
    ours, theirs = socket.socketpair()
    client = Client()
    ends: list[Connection | Mux]
    if mux:
        ends = [Mux(ours), Mux(theirs)]
        client.send, server.send = ends[0].open(connection, client), ends[1].open(connection, server)
    else:
        ends = [Connection(ours, client), Connection(theirs, server)]
        client.send, server.send = ends[0].send, ends[1].send
    client.wait = ends[0].wait
    with running(*ends):
        yield client


class PluginConnection:
    """The raw other end of a link that a server sits on: writes messages by hand, reads answers by hand."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.sock.settimeout(TIMEOUT)
        self._decoder = codec.MessageDecoder()
        self._found: list[codec.Message | codec.Oversized] = []

    def request(
        self, stream: int, method: str = "Echo", payload: bytes = b"", *, flags: int = 0, **rest: Any
    ) -> None:
        data = Request(service=SERVICE, method=method, payload=payload, **rest).SerializeToString()
        self.sock.sendall(codec.encode(stream, codec.REQUEST, data, flags))

    def message(self) -> codec.Message | codec.Oversized:
        while not self._found:
            data = self.sock.recv(1 << 20)
            assert data, "the server has closed the connection"
            self._found += self._decoder.feed(data)
        return self._found.pop(0)

    def answer(self) -> tuple[int, int, str, bytes]:
        """Stream, status code, status message, payload."""
        message = self.message()
        assert isinstance(message, codec.Message)
        assert message.type == codec.RESPONSE
        response = Response.FromString(message.data)
        return message.stream, response.status.code, response.status.message, response.payload


@contextmanager
def by_hand(server: Server) -> Iterator[PluginConnection]:
    """The raw peer of ``server``, which is on a link of its own."""
    ours, theirs = socket.socketpair()
    link = Connection(theirs, server)
    server.send = link.send
    with ours, running(link):
        yield PluginConnection(ours)


def methods(**functions: Callable[..., Any]) -> dict[tuple[str, str], Any]:
    """Handlers of the test's service, all of which take a PodSandbox."""
    return {(SERVICE, name): unary(PodSandbox, function) for name, function in functions.items()}


def call(client: Client, method: str, name: str = "", **options: Any) -> PodSandbox:
    """Call a method of the test's service with a PodSandbox of that name."""
    return client.call(SERVICE, method, PodSandbox(name=name), PodSandbox, **options)
