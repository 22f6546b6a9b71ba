"""The workers that wait for a request, as they come from a server over the control socket."""

from __future__ import annotations

import errno
import os
import select
import threading
import time
from _socket import CMSG_SPACE, MSG_CMSG_CLOEXEC, MSG_CTRUNC, MSG_DONTWAIT
from typing import TYPE_CHECKING

from nri.prefork import protocol
from nri.prefork.pool.worker_conversation import Worker

if TYPE_CHECKING:
    from _socket import socket

READY_WITHIN = 0.05  # seconds that a request waits for a worker that was asked for; then the plugin is started for it
MISSED_WITHIN = 2.0  # seconds that a server may take to fork a worker, as on a busy node, before it is replaced
SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)  # the host is out of a resource
_RIGHTS = 3  # descriptors that come with a worker
_MESSAGE = 64  # bytes of a message with a worker at most


class NoWorkerError(Exception):
    """All workers are busy, or the server could not fork another in time."""


class ServerGoneError(Exception):
    """The server has ended, or does not work as it should."""


class WorkerQueue:
    """The workers of one server, in the order in which they were forked. It owns the control socket.

    :param is_shared: the server is shared; then a worker is asked to prepare for the next request.
    """

    def __init__(self, control: socket, *, is_shared: bool = False) -> None:
        self._control, self._is_shared = control, is_shared
        self._taking = threading.Lock()
        self._lock = threading.Lock()
        self._coming = 0  # workers that were ordered and have not arrived
        self._ready: Worker | None = None  # received before there is a request for it
        self._gone = False  # True if the server was found to be gone while no request waited
        self._missed = 0.0  # the time since which an ordered worker is missing; 0 if none is missing

    def ask(self, word: bytes, pid: int | None = None) -> None:
        """Send a message to the server: ``more``, or ``next`` or ``done`` with a process id."""
        if word != protocol.DONE:
            with self._lock:
                self._coming += 1
        try:
            self._control.send(protocol.encode_message(word, pid), MSG_DONTWAIT)
        except OSError:
            pass  # the server is gone; the next take() reports it

    def comes(self, until: float) -> bool:
        """Wait until a worker has come; return whether it came in time.

        :param until: of :func:`time.monotonic`.
        """
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        events = poll.poll(max(0.0, until - time.monotonic()) * 1000)
        return any(event & select.POLLIN for _, event in events)

    def fetch(self) -> None:
        """Receive a worker for the next request, if none was received and no other thread is about to."""
        if self._ready is None and self._taking.acquire(blocking=False):
            try:
                if self._ready is None:
                    self._ready = self._receive()
                    if self._is_shared and self._ready is not None:
                        self._ready.ask_to_prepare()
            except (NoWorkerError, OSError):
                pass  # the next request will find out
            except ServerGoneError:
                self._gone = True
            finally:
                self._taking.release()

    def close(self) -> None:
        """Close the control socket, so that the server ends."""
        with self._taking:
            self._control.close()
            worker, self._ready = self._ready, None
            if worker is not None:
                worker.close()

    def take(self, deadline: float) -> Worker:
        """Return the worker that has waited longest.

        :raises NoWorkerError: when no worker comes in time.
        :raises ServerGoneError: when no more workers will arrive.
        """
        until = min(time.monotonic() + (0.0 if self._missed else READY_WITHIN), deadline)
        if not self._taking.acquire(timeout=max(0.0, until - time.monotonic())):
            raise NoWorkerError
        try:
            if self._gone:
                raise ServerGoneError
            worker, self._ready = self._ready, None
            return worker or self._next(until)
        except OSError as error:
            # If a resource is scarce, starting the plugin for the request fails, too, and names it.
            raise (NoWorkerError if error.errno in SCARCE else ServerGoneError) from error
        finally:
            self._taking.release()

    def _next(self, until: float) -> Worker:
        if worker := self._receive():
            return worker
        with self._lock:
            if self._coming == 0:
                raise NoWorkerError
        if self.comes(until):
            if worker := self._receive():
                return worker
        else:
            now = time.monotonic()
            self._missed = self._missed or now
            if now - self._missed > MISSED_WITHIN:
                raise ServerGoneError
        raise NoWorkerError

    def _receive(self) -> Worker | None:
        """Return a worker that has arrived, or None."""
        try:
            data, ancillary, flags, _ = self._control.recvmsg(
                _MESSAGE, CMSG_SPACE(4 * _RIGHTS), MSG_CMSG_CLOEXEC | MSG_DONTWAIT
            )
        except BlockingIOError:
            return None
        numbers = [number for _, _, rights in ancillary for number in memoryview(rights).cast("i")]
        word, argument = protocol.decode_message(data)
        pid = protocol.decode_pid(argument) if word == protocol.READY else 0
        if pid:
            with self._lock:
                self._coming -= 1
        if not pid or len(numbers) != _RIGHTS:
            for number in numbers:
                os.close(number)
            if pid and flags & MSG_CTRUNC:  # this process is out of descriptors
                self.ask(protocol.NEXT, pid)
                raise NoWorkerError
            raise ServerGoneError  # as at the end of the socket
        self._missed = 0.0
        worker = Worker(pid, *numbers)
        try:
            for number in (worker.channel, worker.stderr):
                os.set_blocking(number, False)
        except OSError:
            worker.close()
            self.ask(protocol.NEXT, pid)
            raise
        return worker
