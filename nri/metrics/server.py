"""The HTTP server of ``nri metrics --listen``: few connections at a time, each with a bounded time.

What the answers are: :mod:`nri.metrics.http_answer`. Connections beyond :data:`MAX_CONNECTIONS` wait in the kernel's
queue, so neither threads nor questions to the bridge add up.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import TYPE_CHECKING

from nri.errors import NRIError
from nri.metrics.http_answer import END_OF_HEAD, MAX_HEAD, answer

if TYPE_CHECKING:
    from collections.abc import Callable

LOOPBACK = "127.0.0.1"

MAX_CONNECTIONS = 4
"""Connections that are served at a time."""

TIMEOUT = 5.0
"""Seconds for a peer to send its request, and again to take its answer."""

_BACKLOG = 32
_PAUSE = 0.05  # seconds after an error of accept
_LINGER = 1.0  # seconds for a peer to close its side


class ListenError(NRIError):
    """An address on which this process cannot listen."""


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``, ``[IPv6]:PORT``, ``:PORT`` or ``PORT``; without a host it is loopback.

    :raises ListenError: it is none of these.
    """
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ListenError(f"{text}: found an IPv6 address without brackets, expected [ADDRESS]:PORT")
    if not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ListenError(f"{text}: found the port {port!r}, expected HOST:PORT or :PORT, with a port up to 65535")
    return host or LOOPBACK, int(port)


class MetricsServer:
    """Serves the page at an address.

    :param address: host and port; port 0 lets the kernel choose.
    :param text: makes the page, from any thread.
    :raises ListenError: the address is not one of this machine, or is in use.
    """

    def __init__(self, address: tuple[str, int], text: Callable[[], bytes]) -> None:
        host, port = address
        try:
            family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            self._socket = socket.create_server(place[:2], family=family, backlog=_BACKLOG)
        except OSError as error:
            known = error.errno is not None and error.errno > 0  # not an error of getaddrinfo
            why = os.strerror(error.errno or 0) if known else str(error.strerror or error)
            raise ListenError(
                f"cannot listen on {host} port {port}: {why}; expected an address of this machine and a free port"
            ) from error
        self._text = text
        self._free = threading.Semaphore(MAX_CONNECTIONS)

    @property
    def url(self) -> str:
        """The URL of the page."""
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}/metrics" if ":" in host else f"http://{host}:{port}/metrics"

    @property
    def is_local(self) -> bool:
        """True if only this machine can connect."""
        host = str(self._socket.getsockname()[0])
        return host.startswith("127.") or host == "::1"

    def start(self) -> None:
        """Serve in the background, until the process ends."""
        threading.Thread(target=self._accept, name="metrics-accept", daemon=True).start()

    def _accept(self) -> None:
        while True:
            self._free.acquire()
            connection: socket.socket | None = None
            try:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(connection,), name="metrics-scrape", daemon=True).start()
            except (OSError, RuntimeError):  # a peer that has gone again; no descriptor or thread is left just now
                if connection is not None:
                    connection.close()
                self._free.release()
                time.sleep(_PAUSE)

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                head = _read_head(connection)
                connection.settimeout(TIMEOUT)  # for the whole of sendall
                connection.sendall(answer(head, self._text))
                _close(connection)
        except OSError:
            pass  # the peer is gone, or too slow
        finally:
            self._free.release()


def _read_head(connection: socket.socket) -> bytes:
    """Read until the empty line, the end of the stream or one byte too many."""
    head, end = b"", time.monotonic() + TIMEOUT
    while END_OF_HEAD not in head and len(head) <= MAX_HEAD:
        connection.settimeout(max(end - time.monotonic(), 0.001))
        data = connection.recv(MAX_HEAD + 1 - len(head))
        if not data:
            break
        head += data
    whole, found, _ = head.partition(END_OF_HEAD)
    return whole + found if found else head


def _close(connection: socket.socket) -> None:
    """End the stream. To close a socket with unread data would take back the answer, so read some of it first."""
    connection.shutdown(socket.SHUT_WR)
    end = time.monotonic() + _LINGER
    while (left := end - time.monotonic()) > 0:
        connection.settimeout(left)
        if not connection.recv(65536):
            break
