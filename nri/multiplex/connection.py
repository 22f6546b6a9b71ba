"""A link: one socket, the threads that read it, and whoever takes what comes.

The contract of what is hard about it:

- One thread at a time reads, and calls the receiver, which must not wait. What takes time it returns as tasks: each
  is done by the thread that has read it, while another reads on (:mod:`nri.multiplex.leader_followers`).
- Who waits for an answer, in :meth:`Connection.wait`, reads it: the other threads sleep on.
- A link that is open has a thread that reads. If the last one ends because of an error, the link is closed.
- Any thread may send. ``send`` waits until the kernel has taken all, at most :data:`SEND_TIMEOUT` seconds; a peer
  that takes nothing for longer has lost the link, as half a message can't be taken back.
- The first reason to close is the one that sticks. The receiver is told of it once, after the last call of
  ``receive`` that is under way has been made or is about to return.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from collections.abc import Sequence
from typing import Protocol

from nri.errors import NRIError
from nri.multiplex.errors import ClosedError, ProtocolError
from nri.multiplex.leader_followers import LeaderFollowers, Task
from nri.multiplex.timer import Timer

SEND_TIMEOUT = 10
"""Seconds that the peer has to take what is sent."""

_CHUNK = 64 * 1024

_LONGEST_WAIT = 3600.0  # seconds; a peer's deadline may lie further ahead than poll can count


class Receiver(Protocol):
    """What is at our end of a link, or of a connection of a trunk."""

    def receive(self, data: bytes) -> Sequence[Task] | None:
        """Take the next bytes; returns what is to be done about them and may take time."""

    def closed(self, reason: ClosedError) -> None:
        """Take note that no more will come."""

    def due(self) -> float | None:
        """When :meth:`expire` wants to be called, of :func:`time.monotonic`; None for never.

        Asked after each :meth:`receive` that returns tasks, and after each :meth:`expire`.
        """

    def expire(self) -> None:
        """Do what is due by now."""


class Connection:
    """A connected stream socket, which it owns, and its receiver."""

    def __init__(self, sock: socket.socket, receiver: Receiver) -> None:
        sock.setblocking(True)
        timeout = struct.pack("ll", int(SEND_TIMEOUT), int(SEND_TIMEOUT % 1 * 1e6))  # struct timeval
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)
        self._socket = sock
        self._receiver = receiver
        self._buffer = memoryview(bytearray(_CHUNK))
        self._reading = threading.Lock()
        self._poll = select.poll()  # of whoever reads in the place of the readers
        self._poll.register(sock, select.POLLIN)
        self._timer = Timer()
        self._epoll = select.epoll()  # of the readers: what comes wakes one of them, and no other until it is armed
        self._epoll.register(sock, select.EPOLLIN | select.EPOLLONESHOT)
        self._epoll.register(self._timer, select.EPOLLIN | select.EPOLLET)
        self._readers = LeaderFollowers("link", self._turn)
        self._sending = threading.Lock()
        self._closing = threading.Lock()
        self._told = False
        self.reason: ClosedError | None = None
        """Why it is closed; None while it is open."""

    def run(self) -> ClosedError:
        """Read until the link is closed, by the peer or by us; returns the reason."""
        self._set_timer()
        try:
            self._readers.run()
        finally:
            reason = self.close("no thread reads any more")
            self._readers.join()
            with self._reading, self._sending:  # else a number may be another file's when it comes to the system call
                self._epoll.close()
                self._timer.close()
                self._socket.close()
        return reason

    def wait(self, done: threading.Lock, timeout: float | None = None) -> bool:
        """Acquire ``done``, which the receiver releases when what is waited for has come; whether it has in time.

        :param timeout: seconds; None waits as long as it takes.
        """
        until = None if timeout is None else time.monotonic() + timeout
        if self._reading.acquire(blocking=False):
            try:
                if self.reason is None and done.locked():
                    self._read_instead(until)
            finally:
                self._reading.release()
        left = -1 if until is None else min(max(0.0, until - time.monotonic()), threading.TIMEOUT_MAX)
        return done.acquire(timeout=left)

    def send(self, data: bytes) -> None:
        """Send all of ``data``.

        :raises ClosedError: when the link is, or now has been, closed.
        """
        with self._sending:
            if self.reason is not None:
                raise self.reason.with_traceback(None)  # else it grows with every send
            try:
                self._socket.sendall(data)
            except OSError as error:
                stalled = isinstance(error, BlockingIOError)
                why = f"it took nothing for {SEND_TIMEOUT} s" if stalled else error.strerror or str(error)
            else:
                return
        raise self.close(f"sending to the peer failed: {why}").with_traceback(None)

    def close(self, reason: str) -> ClosedError:
        """Close the link, unless it is closed already; returns the reason that sticks."""
        with self._closing:
            if self.reason is None:
                self.reason = ClosedError(reason)
            told, self._told = self._told, True
            if not told:
                self._readers.end()
                try:
                    self._socket.shutdown(socket.SHUT_RDWR)  # wakes the reader, and whoever sends
                except OSError:
                    pass  # the peer was faster
        if not told:
            self._receiver.closed(self.reason)
        return self.reason

    def _turn(self) -> Sequence[Task]:
        """Wait until something comes, or is due; returns what is to be done about it."""
        tasks: Sequence[Task] = ()
        for fd, _ in self._epoll.poll(None, 1):
            if fd == self._timer.fileno():
                self._timer.clear()
                self._expire()
            else:
                with self._reading:
                    try:
                        tasks = self._read()
                    finally:
                        self._epoll.modify(self._socket, select.EPOLLIN | select.EPOLLONESHOT)
        return tasks

    def _expire(self) -> None:
        try:
            self._receiver.expire()
        except BaseException:
            self.close("what was due could not be done")
            raise
        self._set_timer()

    def _set_timer(self) -> None:
        due = self._receiver.due()
        if due is not None:
            self._timer.set(due)

    def _read(self) -> Sequence[Task]:
        """Read once, if there is something, and hand it out. To be done by who holds ``_reading``."""
        try:
            size = self._socket.recv_into(self._buffer, 0, socket.MSG_DONTWAIT)
            if size:
                tasks = self._receiver.receive(bytes(self._buffer[:size]))
                if tasks:
                    self._set_timer()
                    return tasks
            else:
                self.close("the peer closed the connection")
        except BlockingIOError:
            pass  # another thread was here before
        except ProtocolError as error:
            self.close(f"the peer broke the protocol: {error}")
        except OSError as error:
            self.close(f"reading failed: {error.strerror or error}")
        except BaseException:  # what has been read can't be read again
            self.close("reading was broken off")
            raise
        return ()

    def _read_instead(self, until: float | None) -> None:
        """Read once, in the place of the readers."""
        self._epoll.modify(self._socket, select.EPOLLONESHOT)
        try:
            left = None if until is None else max(0.0, min(until - time.monotonic(), _LONGEST_WAIT)) * 1000
            if self._poll.poll(left):
                self._readers.hand_out(self._read())
        finally:
            self._epoll.modify(self._socket, select.EPOLLIN | select.EPOLLONESHOT)


def inherited(descriptor: int) -> socket.socket:
    """The connected socket that our caller left to us as a descriptor.

    :raises NRIError: when it is none.
    """
    sock = None
    try:
        sock = socket.socket(fileno=descriptor)
        sock.getpeername()
        sock.set_inheritable(False)
    except OSError as error:
        if sock is not None:
            sock.detach()  # whatever it is, it is not ours
        raise NRIError(f"descriptor {descriptor} is no connected socket: {error.strerror}") from error
    return sock
