"""A mux: one socket that carries several channels, and the two threads that read it.

- **The event thread**, which calls ``Mux.run``, reads, hands the bytes to the receivers, and does the jobs that
  they return, in order. An NRI runtime sends the next event when it has the answer of the last one, so none waits
  meanwhile, and no thread has to wake another.
- **The relief thread** sleeps until a job has begun, and then for ``RELIEVED_AFTER``. It takes over when a job lasts
  longer than that: it reads, so that the jobs which arrive wait in the queue with the times of
  their arrival, and has the receivers do what is due, until the job has ended.

One thread at a time reads and calls the receivers. Any thread may send. ``send`` blocks until the kernel has taken
all, at most ``SEND_TIMEOUT`` seconds; a peer that takes nothing for longer loses the connection, because half of
a message may have been sent. The first reason to close is kept.
"""

from __future__ import annotations

import logging
import math
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from nri.errors import NRIError, reason_of
from nri.v2.frames import MAX_PAYLOAD, FrameDecoder, ProtocolError, encode

RELIEVED_AFTER = 0.02
"""Seconds after which a job does not keep the connection from being read."""

SEND_TIMEOUT = 10
"""Seconds that the peer has to take what is sent."""

QUIET = 0.002
QUIET_WITHIN = 0.05
"""Seconds without input after which the event thread does what can wait, and after which it does so anyway."""

MAX_WAITING = 64
MAX_AHEAD = 32 * 1024 * 1024
"""Jobs that wait, and bytes that are read while one job runs, after which no more are read until it has ended. A
runtime sends one event at a time, and its largest message has 4 MiB."""

_CHUNK = 64 * 1024
_LOOKS_EVERY = 0.02
"""Seconds between the relief's looks at the job: the event thread may take the input that it waits for, and begin
another job, which has a deadline of its own."""

log = logging.getLogger("nri.v2.mux")

Job = Callable[[], object]
"""A unit of work for the event thread. Its result is ignored; it must not raise."""


class ClosedError(NRIError):
    """The connection is closed; ``str()`` is the reason. Expected whenever a peer goes away."""


class Receiver:
    """Receives the bytes of a channel. This base class drops them."""

    def receive(self, data: bytes) -> Sequence[Job]:
        """Take the next bytes without blocking; return jobs for work that may block.

        :raises ProtocolError: when the connection can no longer be used.
        """
        return ()

    def closed(self, reason: ClosedError) -> None:
        """Take note that the connection is closed. Called once."""

    def due(self) -> float:
        """Return the time of ``time.monotonic`` at which to call ``expire``; infinity for never."""
        return math.inf

    def expire(self) -> None:
        """Do what is due, while a job runs that takes long."""


def _rest() -> None:
    """Do nothing."""


_DROPS = Receiver()


class Mux:
    """A connected stream socket, which it owns, that carries several channels.

    Data for a channel that is not open are dropped.

    :param max_payload: bytes of the longest payload in either direction; by default
        ``nri.v2.frames.MAX_PAYLOAD``.
    :param idle: called in the event thread after jobs, when nothing else is to be done, as long as it is open.
    """

    def __init__(
        self, sock: socket.socket, *, max_payload: int = MAX_PAYLOAD, idle: Job = _rest
    ) -> None:
        sock.setblocking(True)
        # A struct timeval.
        timeout = struct.pack("ll", int(SEND_TIMEOUT), int(SEND_TIMEOUT % 1 * 1e6))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)
        self._socket = sock
        self._decoder = FrameDecoder(max_payload)
        self._max_payload = max_payload
        self._receivers: dict[int, Receiver] = {}
        self._buffer = memoryview(bytearray(_CHUNK))
        self.busy = threading.Event()  # set while jobs are done, and when it is closed
        self._began = 0.0  # when the job began
        self._jobs: deque[Job] = deque()
        # 0 without a job since
        self._idle = idle
        self._idle_by = 0.0
        # Held while a job begins or the queue is left, and while it is relieved.
        self._turn = threading.Lock()
        self._job = 0  # the number of the job that runs; 0 while the event thread reads
        self._count = 0
        self._sending = threading.Lock()
        self._closing = threading.Lock()
        self.reason: ClosedError | None = None
        """The reason for which it is closed; None while it is open."""

    def open(self, number: int) -> Channel:
        """Open a channel. Attach its receiver before ``run``: data that arrive earlier are dropped."""
        return Channel(self, number)

    def run(self) -> ClosedError:
        """Read, and do the jobs, until the connection is closed, by the peer or by us; returns the reason.

        It returns when the job that runs then has ended; those that have not begun are dropped.
        """
        relief = threading.Thread(target=self._relieve, name="relief", daemon=True)
        try:
            relief.start()
        except RuntimeError as error:  # the limit of threads is reached
            self.close(f"a thread cannot be started: {error}")
        input_ = select.poll()
        input_.register(self._socket, select.POLLIN)
        try:
            while self.reason is None:
                if self._is_quiet(input_):
                    self._idle_by = 0.0
                    self._jobs.append(self._idle)
                else:
                    self._read()
                self._work()
        finally:
            reason = self.close("the event thread was interrupted")
            self.busy.set()  # the last job may have cleared it since
            if relief.ident is not None:
                relief.join()
            with self._sending:  # a closed descriptor's number may be reused
                self._socket.close()
        return reason

    def close(self, reason: str) -> ClosedError:
        """Close the connection, unless it is closed already; returns the first reason."""
        with self._closing:
            if self.reason is not None:
                return self.reason
            self.reason = ClosedError(reason)
            self.busy.set()
            try:
                self._socket.shutdown(socket.SHUT_RDWR)  # wakes the threads that read and send
            except OSError:
                pass  # the peer was faster
        for receiver in list(self._receivers.values()):
            receiver.closed(self.reason)
        return self.reason

    def send(self, number: int, message: bytes) -> None:
        """Send one whole message on a channel, as ``Channel.send``."""
        data = encode(number, message, self._max_payload)
        with self._sending:
            if self.reason is not None:
                raise self.reason.with_traceback(None)  # the traceback would grow with every send
            try:
                self._socket.sendall(data)
            except OSError as error:
                stalled = isinstance(error, BlockingIOError)
                if stalled:
                    reason = f"it took nothing for {SEND_TIMEOUT} s"
                else:
                    reason = reason_of(error)
            else:
                return
        raise self.close(f"sending to the peer failed: {reason}").with_traceback(None)

    def attach(self, number: int, receiver: Receiver) -> None:
        """Pass the bytes of a channel to ``receiver``."""
        self._receivers[number] = receiver

    def _work(self) -> None:
        """Do the jobs that have arrived, and those that arrive meanwhile."""
        while True:
            with self._turn:
                self._job = 0
                if self.reason is not None:
                    self._jobs.clear()
                    return
                if not self._jobs:
                    self.busy.clear()
                    return
                job = self._jobs.popleft()
                self._count += 1
                self._job = self._count
                self._began = time.monotonic()
                self.busy.set()
            _do(job)
            if job is not self._idle and not self._idle_by:
                self._idle_by = time.monotonic() + QUIET_WITHIN

    def _relieve(self) -> None:
        """Read in place of the event thread, for each job that lasts long."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        while True:
            self.busy.wait()
            while self.reason is None:
                left = self._began + RELIEVED_AFTER - time.monotonic()
                if left <= 0:
                    break
                time.sleep(left)
            job = self._job
            ahead = 0
            while self.reason is None and job == self._job != 0:
                try:
                    for receiver in self._receivers.values():
                        receiver.expire()
                    left = self._until_due()
                    if len(self._jobs) >= MAX_WAITING or ahead >= MAX_AHEAD:
                        time.sleep(left)
                        continue
                    has_input = poll.poll(left * 1000)
                    with self._turn:
                        if has_input and job == self._job:
                            ahead += self._read(socket.MSG_DONTWAIT)
                except Exception:
                    log.exception("a deadline could not be handled")
                    self.close("a deadline could not be handled")
            if self.reason is not None:
                return

    def _is_quiet(self, input_: select.poll) -> bool:
        """Return whether the work that no job waits for is due: nothing arrives, or it has waited long."""
        if self._idle_by == 0:
            return False
        return time.monotonic() >= self._idle_by or not input_.poll(QUIET * 1000)

    def _until_due(self) -> float:
        """Return the seconds until the next deadline of a receiver, or until the next look."""
        now = time.monotonic()
        left = _LOOKS_EVERY
        for receiver in self._receivers.values():
            left = min(left, receiver.due() - now)
        return max(0.0, left)

    def _read(self, flags: int = 0) -> int:
        """Read once, and put the jobs that follow into the queue; return how many bytes were read."""
        size = 0
        try:
            size = self._socket.recv_into(self._buffer, 0, flags)
            if not size:
                self.close("the peer closed the connection")
            for number, piece in self._decoder.feed(bytes(self._buffer[:size])):
                receiver = self._receivers.get(number, _DROPS)
                self._jobs += receiver.receive(piece)
        except BlockingIOError:
            pass
        except ProtocolError as error:
            self.close(f"the peer broke the protocol: {error}")
        except OSError as error:
            self.close(f"reading failed: {reason_of(error)}")
        except Exception:  # the bytes that were read are lost
            log.exception("what was read could not be handled")
            self.close("what was read could not be handled")
        return size


class Channel:
    """One stream of messages in each direction. A Go peer reads no other frames than ``nri.v2.frames`` makes."""

    def __init__(self, mux: Mux, number: int) -> None:
        self._mux = mux
        self._number = number

    def attach(self, receiver: Receiver) -> None:
        """Pass the received bytes to ``receiver``. Do it before the connection runs: earlier bytes are dropped."""
        self._mux.attach(self._number, receiver)

    def send(self, message: bytes) -> None:
        """Send one whole message. Any thread may call this.

        :raises ClosedError: when the connection is closed, or closes because the message cannot be sent.
        """
        self._mux.send(self._number, message)


def _do(job: Job) -> None:
    """Do a job. One that raises is a bug, and must not end the event thread."""
    try:
        job()
    except Exception:
        log.exception("a job has failed")


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
        raise NRIError(
            f"descriptor {descriptor} is not a connected socket: {error.strerror}"
        ) from error
    return sock
