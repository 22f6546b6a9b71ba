"""The status socket: one request and one answer for each connection, all in one thread.

No client can hold up the bridge, or another client: nothing blocks, a connection has :data:`SECONDS`, and a piece of
an answer is made when the one before it is sent.
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
from nri.v1bridge.explaining import considerate
from nri.v1bridge.status import refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECONDS = 5.0
"""Seconds that a connection has."""

CLIENTS = 8
"""Connections that are answered at a time."""

MAX_REQUEST = 4096
"""Bytes of a request."""

log = logging.getLogger("nri.v1bridge")


class _Connection:
    """One client."""

    __slots__ = ("answer", "received", "rest", "sock", "until")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.until = time.monotonic() + SECONDS
        self.received = b""
        self.answer: Iterator[bytes] | None = None
        self.rest = b""  # of the piece that is being sent


class StatusSocket:
    """Answers at a Unix socket. All methods may be called from any thread.

    :param answer: returns the answer to a request in pieces, or raises an NRIError.
    """

    def __init__(self, answer: Callable[[bytes], Iterator[bytes]]) -> None:
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
                log.info("no status socket: %s: %s", escape(path), escape(reason))
                return
            status = os.lstat(path)
            self._path, self._identity = path, (status.st_dev, status.st_ino)
            self._wake, theirs = socket.socketpair()
            if why := in_background(functools.partial(self._serve, listener, theirs), "status"):
                log.info("no status socket: %s", why)
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
        with listener, stop, selectors.DefaultSelector() as selector:
            loop = _Loop(self._answer, listener, selector)
            selector.register(stop, selectors.EVENT_READ)
            while not loop.run_once(stop):
                pass
            loop.end()


class _Loop:
    """The thread's work."""

    def __init__(
        self,
        answer: Callable[[bytes], Iterator[bytes]],
        listener: socket.socket,
        selector: selectors.BaseSelector,
    ) -> None:
        self._answer, self._listener, self._selector = answer, listener, selector
        self._open: set[_Connection] = set()
        self._accepts = False

    def run_once(self, stop: socket.socket) -> bool:
        """Wait for something to do, and do it; return whether *stop* is readable."""
        self._accept_or_not()
        now = time.monotonic()
        until = min([each.until for each in self._open], default=None)
        for key, _ in self._selector.select(None if until is None else max(0.0, until - now)):
            if key.fileobj is stop:
                return True
            if key.fileobj is self._listener:
                self._accept()
            else:
                self._go_on(key.data)
        now = time.monotonic()
        for each in [each for each in self._open if each.until <= now]:
            self._drop(each)
        return False

    def end(self) -> None:
        """Close all connections."""
        for each in list(self._open):
            self._drop(each)

    def _accept_or_not(self) -> None:
        """Leave further clients in the kernel's queue."""
        has_room = len(self._open) < CLIENTS
        if has_room and not self._accepts:
            self._selector.register(self._listener, selectors.EVENT_READ)
        elif self._accepts and not has_room:
            self._selector.unregister(self._listener)
        self._accepts = has_room

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            time.sleep(0.05)  # no descriptor is left, and the connection stays in the queue
            return
        if not peer.is_trusted(peer.credentials(sock)[1]):
            sock.close()
            return
        sock.setblocking(False)
        connection = _Connection(sock)
        self._open.add(connection)
        self._selector.register(sock, selectors.EVENT_READ, connection)

    def _go_on(self, each: _Connection) -> None:
        try:
            if each.answer is None:
                self._receive(each)
            else:
                self._send(each)
        except BlockingIOError:
            pass
        except OSError:
            self._drop(each)  # the client is gone

    def _receive(self, each: _Connection) -> None:
        data = each.sock.recv(MAX_REQUEST + 1)
        each.received += data
        line, newline, _ = each.received.partition(b"\n")
        if len(line) > MAX_REQUEST:
            each.answer = iter([refusal(f"found more than {MAX_REQUEST} bytes, expected a line with a request")])
        elif not newline and data:
            return  # the rest of the line comes
        elif not line.strip():
            self._drop(each)
            return
        else:
            each.answer = self._answered(line)
        self._selector.modify(each.sock, selectors.EVENT_WRITE, each)

    def _answered(self, line: bytes) -> Iterator[bytes]:
        try:
            yield from self._answer(line)
        except NRIError as error:
            yield refusal(str(error))
        except (Exception, SystemExit):  # PyInstaller raises the latter when its files are gone
            log.exception("unexpected error")
            yield b"\n"  # what was sent is no JSON, and neither is this

    def _send(self, each: _Connection) -> None:
        if not each.rest and each.answer is not None:
            with considerate():
                each.rest = next(each.answer, b"")
            if not each.rest:
                self._drop(each)
                return
        each.rest = each.rest[each.sock.send(each.rest) :]

    def _drop(self, each: _Connection) -> None:
        self._open.discard(each)
        with contextlib.suppress(KeyError):
            self._selector.unregister(each.sock)
        each.sock.close()


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
