"""A peer on a status socket that answers what a test says: a document, any bytes, or nothing."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ACCEPTS = 0.05
"""Seconds after which the server looks whether it is to end."""


class StatusServer:
    """Serves one client after another.

    :param path: the socket's place; its directory is made.
    :param serve: is called with each connection and what the client has sent.
    :ivar requests: what clients have sent.
    """

    def __init__(self, path: Path, serve: Callable[[socket.socket, bytes], None]) -> None:
        self.path, self.requests = path, list[bytes]()
        self._serve, self._ended = serve, threading.Event()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        _bind(self._listener, path)
        path.chmod(0o600)
        self._listener.listen(8)
        self._listener.settimeout(ACCEPTS)
        self._thread = threading.Thread(target=self._run, name="status-server")
        self._thread.start()

    def close(self) -> None:
        """End; the socket is removed."""
        self._ended.set()
        self._thread.join()
        self._listener.close()
        self.path.unlink(missing_ok=True)

    def _run(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                client, _ = self._listener.accept()
                client.settimeout(10)
                with client, contextlib.suppress(OSError):
                    request = client.makefile("rb").readline(8192)
                    self.requests.append(request)
                    self._serve(client, request)


def _bind(listener: socket.socket, path: Path) -> None:
    """Bind to a path that may be longer than the address of a socket."""
    directory = os.open(path.parent, os.O_PATH | os.O_CLOEXEC)
    try:
        listener.bind(f"/proc/self/fd/{directory}/{path.name}")
    finally:
        os.close(directory)


@contextlib.contextmanager
def serving(path: Path, answer: Any = b"") -> Iterator[StatusServer]:
    """A server at ``path``.

    :param answer: bytes, or a document; or a function that is called with the decoded request and returns either.
    """

    def serve(client: socket.socket, request: bytes) -> None:
        value = answer(json.loads(request)) if callable(answer) else answer
        client.sendall(value if isinstance(value, bytes) else json.dumps(value).encode())

    with served_by(path, serve) as server:
        yield server


@contextlib.contextmanager
def served_by(path: Path, serve: Callable[[socket.socket, bytes], None]) -> Iterator[StatusServer]:
    """A server at ``path`` that does with a connection whatever ``serve`` does."""
    server = StatusServer(path, serve)
    try:
        yield server
    finally:
        server.close()
