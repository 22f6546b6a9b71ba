"""A connection: one socket, the threads that read it, and the receiver of its bytes.

The contract:

- One thread at a time reads and calls the receiver, which must not block. The receiver returns work that may block as
  jobs: the thread that has read a job does it, while another reads on (:mod:`nri.multiplex.leader_followers`).
- A thread that waits for an answer, in :meth:`Connection.wait`, reads it itself: the other threads are not woken.
- An open connection has a thread that reads. If the last one fails, the connection is closed.
- Any thread may send. ``send`` blocks until the kernel has taken all, at most :data:`SEND_TIMEOUT` seconds. A peer
  that takes nothing for longer loses the connection, because half of a message may have been sent.
- The first reason to close is kept. ``closed`` of the receiver is called once; a last call of ``receive`` may still
  be about to return.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from collections.abc import Sequence

from nri.errors import NRIError
from nri.multiplex.channel import ClosedError, Job, ProtocolError, Receiver
from nri.multiplex.leader_followers import LeaderFollowers
from nri.multiplex.timer import Timer

SEND_TIMEOUT = 10
"""Seconds that the peer has to take what is sent."""

_CHUNK = 64 * 1024
_LONGEST_WAIT = 3600.0  # seconds; a peer's deadline may lie further ahead than poll can count


class Connection:
    """A connected stream socket, which it owns. It is a channel itself, or carries the channels of a Mux."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(True)
        timeout = struct.pack("ll", int(SEND_TIMEOUT), int(SEND_TIMEOUT % 1 * 1e6))  # struct timeval
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)
        self._socket = sock
        self._receiver = Receiver()
        self._buffer = memoryview(bytearray(_CHUNK))
        self._reading = threading.Lock()
        self._poll = select.poll()  # for a thread that reads in place of the pool
        self._poll.register(sock, select.POLLIN)
        self._timer = Timer()
        self._epoll = select.epoll()  # for the pool: input wakes one thread, and no other until it is armed again
        self._epoll.register(sock, select.EPOLLIN | select.EPOLLONESHOT)
        self._epoll.register(self._timer, select.EPOLLIN | select.EPOLLET)
        self._pool = LeaderFollowers("connection", self._lead)
        self._sending = threading.Lock()
        self._closing = threading.Lock()
        self._is_told = False
        self.reason: ClosedError | None = None
        """The reason for which it is closed; None while it is open."""

    def attach(self, receiver: Receiver) -> None:
        """Pass the received bytes to ``receiver``, as :meth:`nri.multiplex.Channel.attach`."""
        self._receiver = receiver

    def run(self) -> ClosedError:
        """Read until the connection is closed, by the peer or by us; returns the reason."""
        self._set_timer()
        try:
            self._pool.run()
        finally:
            reason = self.close("no reading thread is left")
            self._pool.join()
            with self._reading, self._sending:  # a closed descriptor's number may be reused, so hold both locks
                self._epoll.close()
                self._timer.close()
                self._socket.close()
        return reason

    def wait(self, done: threading.Lock, timeout: float | None = None) -> bool:
        """Acquire ``done``, as :meth:`nri.multiplex.Channel.wait`."""
        until = None if timeout is None else time.monotonic() + timeout
        if self._reading.acquire(blocking=False):
            try:
                if self.reason is None and done.locked():
                    self._read_in_place(until)
            finally:
                self._reading.release()
        left = -1 if until is None else min(max(0.0, until - time.monotonic()), threading.TIMEOUT_MAX)
        return done.acquire(timeout=left)

    def send(self, data: bytes) -> None:
        """Send all of ``data``, as :meth:`nri.multiplex.Channel.send`."""
        with self._sending:
            if self.reason is not None:
                raise self.reason.with_traceback(None)  # the traceback would grow with every send
            try:
                self._socket.sendall(data)
            except OSError as error:
                stalled = isinstance(error, BlockingIOError)
                why = f"it took nothing for {SEND_TIMEOUT} s" if stalled else error.strerror or str(error)
            else:
                return
        raise self.close(f"sending to the peer failed: {why}").with_traceback(None)

    def close(self, reason: str) -> ClosedError:
        """Close the connection, unless it is closed already; returns the first reason."""
        with self._closing:
            if self.reason is None:
                self.reason = ClosedError(reason)
            is_told, self._is_told = self._is_told, True
            if not is_told:
                self._pool.stop()
                try:
                    self._socket.shutdown(socket.SHUT_RDWR)  # wakes the threads that read and send
                except OSError:
                    pass  # the peer was faster
        if not is_told:
            self._receiver.closed(self.reason)
        return self.reason

    def _lead(self) -> Sequence[Job]:
        """Wait until bytes arrive or a time is due; returns the jobs that follow."""
        jobs: Sequence[Job] = ()
        for fd, _ in self._epoll.poll(None, 1):
            if fd == self._timer.fileno():
                self._timer.clear()
                self._expire()
            else:
                with self._reading:
                    try:
                        jobs = self._read()
                    finally:
                        self._epoll.modify(self._socket, select.EPOLLIN | select.EPOLLONESHOT)
        return jobs

    def _expire(self) -> None:
        try:
            self._receiver.expire()
        except BaseException:
            self.close("a deadline could not be handled")
            raise
        self._set_timer()

    def _set_timer(self) -> None:
        if (due := self._receiver.due()) is not None:
            self._timer.set(due)

    def _read(self) -> Sequence[Job]:
        """Read once, without blocking, and call the receiver. Call this with ``_reading`` held."""
        try:
            size = self._socket.recv_into(self._buffer, 0, socket.MSG_DONTWAIT)
            if size:
                jobs = self._receiver.receive(bytes(self._buffer[:size]))
                if jobs:
                    self._set_timer()
                    return jobs
            else:
                self.close("the peer closed the connection")
        except BlockingIOError:
            pass  # another thread has read it
        except ProtocolError as error:
            self.close(f"the peer broke the protocol: {error}")
        except OSError as error:
            self.close(f"reading failed: {error.strerror or error}")
        except BaseException:  # the bytes that were read are lost
            self.close("what was read could not be handled")
            raise
        return ()

    def _read_in_place(self, until: float | None) -> None:
        """Wait and read once in place of the pool, which does the jobs."""
        self._epoll.modify(self._socket, select.EPOLLONESHOT)
        try:
            left = None if until is None else max(0.0, min(until - time.monotonic(), _LONGEST_WAIT)) * 1000
            if self._poll.poll(left):
                self._pool.submit(self._read())
        finally:
            self._epoll.modify(self._socket, select.EPOLLIN | select.EPOLLONESHOT)


def inherited_socket(descriptor: int) -> socket.socket:
    """Return the connected socket that this process inherited as ``descriptor``.

    :raises NRIError: when it is not a connected socket; it stays open then.
    """
    sock = None
    try:
        sock = socket.socket(fileno=descriptor)
        sock.getpeername()
        sock.set_inheritable(False)
    except OSError as error:
        if sock is not None:
            sock.detach()  # do not close a descriptor that is not ours
        raise NRIError(f"descriptor {descriptor} is not a connected socket: {error.strerror}") from error
    return sock
