"""The status socket: one request and one answer for each connection, all in one thread.

No client can hold up the bridge, or another client: nothing blocks, a connection has :data:`SECONDS`, and if there
are too many, the oldest one is dropped.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import selectors
import socket
import threading
import time
from typing import TYPE_CHECKING

from nri import peer, trust
from nri.background import in_background
from nri.errors import NRIError, escape
from nri.v1bridge.status import refusal

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 5.0
"""Seconds that a connection has."""

CLIENTS = 64
"""Connections at a time."""

MAX_REQUEST = 4096
"""Bytes of a request."""

log = logging.getLogger("nri.v1bridge")


class StatusSocket:
    """Answers at a Unix socket. All methods may be called from any thread.

    :param answer: returns the answer to a request, or raises an NRIError.
    """

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self._path = ""
        self._identity: tuple[int, int] | None = None  # device and inode of our socket
        self._wake: socket.socket | None = None

    def open(self, path: str) -> None:
        """Answer at ``path`` from now on. The log has the reason if that cannot be."""
        with self._lock:
            if path == self._path and self._wake is not None:
                return
            self._close()
            try:
                listener = _listen(path)
            except (OSError, NRIError) as error:
                reason = str(error) if isinstance(error, NRIError) else error.strerror or str(error)
                log.error("no status socket: %s: %s", escape(path), escape(reason))
                return
            status = os.lstat(path)
            self._path, self._identity = path, (status.st_dev, status.st_ino)
            self._wake, theirs = socket.socketpair()
            if why := in_background(functools.partial(self._serve, listener, theirs), "status"):
                log.error("no status socket: %s", why)
                listener.close()
                theirs.close()
                self._close()

    def close(self) -> None:
        """Answer no more, and remove the socket."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._wake is None:
            return
        self._wake.close()  # ends the thread
        self._wake = None
        try:
            status = os.lstat(self._path)
            if (status.st_dev, status.st_ino) == self._identity:
                os.unlink(self._path)
        except OSError:
            pass  # another bridge's, or removed

    def _serve(self, listener: socket.socket, stop: socket.socket) -> None:
        clients: list[_Client] = []  # the oldest first
        with listener, stop, selectors.DefaultSelector() as selector:
            selector.register(stop, selectors.EVENT_READ)
            selector.register(listener, selectors.EVENT_READ)
            while True:
                left = max(0.0, clients[0].until - time.monotonic()) if clients else None
                for key, _ in selector.select(left):
                    if key.fileobj is stop:
                        for client in clients:
                            client.sock.close()
                        return
                    if key.fileobj is listener:
                        if (sock := _accepted(listener)) is not None:
                            clients.append(_Client(sock))
                            selector.register(sock, selectors.EVENT_READ, clients[-1])
                    elif key.data.go_on(self._answered):
                        selector.modify(key.fileobj, key.data.waits_for, key.data)
                    else:
                        key.data.until = 0.0
                for client in clients[:-CLIENTS]:
                    client.until = 0.0
                now = time.monotonic()
                for client in [each for each in clients if each.until <= now]:
                    clients.remove(client)
                    selector.unregister(client.sock)
                    client.sock.close()

    def _answered(self, line: bytes) -> bytes:
        try:
            return self._answer(line)
        except NRIError as error:
            return refusal(str(error))
        except (Exception, SystemExit):  # PyInstaller raises the latter when its files are gone
            log.exception("unexpected error")
            return b""


class _Client:
    """One connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.until = time.monotonic() + SECONDS
        self.waits_for = selectors.EVENT_READ
        self._received = b""
        self._rest = memoryview(b"")  # of the answer

    def go_on(self, answer: Callable[[bytes], bytes]) -> bool:
        """Read the request, or write the answer; return whether there is more to do."""
        try:
            if self.waits_for == selectors.EVENT_READ:
                return self._receive(answer)
            self._rest = self._rest[self.sock.send(self._rest) :]
            return bool(self._rest)
        except BlockingIOError:
            return True
        except OSError:
            return False  # the client is gone

    def _receive(self, answer: Callable[[bytes], bytes]) -> bool:
        data = self.sock.recv(MAX_REQUEST + 1)
        self._received += data
        line, newline, _ = self._received.partition(b"\n")
        if len(line) > MAX_REQUEST:
            text = refusal(f"found more than {MAX_REQUEST} bytes, expected a line with a request")
        elif not newline and data:
            return True  # the rest of the line comes
        elif not line.strip():
            return False
        else:
            text = answer(line)
        self.waits_for, self._rest = selectors.EVENT_WRITE, memoryview(text)
        return bool(text)


def _accepted(listener: socket.socket) -> socket.socket | None:
    """Return the next connection of a client that may ask, if there is one."""
    try:
        sock, _ = listener.accept()
    except OSError:
        time.sleep(0.05)  # no descriptor is left, and the connection stays in the queue
        return None
    if not peer.is_trusted(peer.credentials(sock)[1]):
        sock.close()
        return None
    sock.setblocking(False)
    return sock


def _listen(path: str) -> socket.socket:
    """Return a socket that listens at ``path``, in place of any socket there. Root alone can connect.

    :raises OSError: it cannot be made.
    :raises NRIError: others can write to the directory.
    """
    directory, name = os.path.split(path)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    if wrong := trust.judge_path(directory, os.stat(directory)):
        raise NRIError(wrong)
    part = f"{name}.part"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    at = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part, dir_fd=at)
        # The directory's path may be longer than an address of a socket.
        listener.bind(f"/proc/self/fd/{at}/{part}")
        os.chmod(part, 0o600, dir_fd=at)  # before it listens, so that nobody can have connected
        listener.listen(CLIENTS)
        listener.setblocking(False)
        os.rename(part, name, src_dir_fd=at, dst_dir_fd=at)
    except BaseException:
        listener.close()
        with contextlib.suppress(OSError):
            os.unlink(part, dir_fd=at)
        raise
    finally:
        os.close(at)
    return listener
