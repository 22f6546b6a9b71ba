"""The client's end of a ttRPC connection: any thread calls, and waits for its answer until its deadline."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import DecodeError

from nri.errors import NRIError
from nri.ttrpc import codec
from nri.ttrpc.status import Code, DeadlineError, StatusError
from nri.ttrpc.ttrpc_pb2 import Request, Response

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from google.protobuf.message import Message

Out = TypeVar("Out", bound="Message")


class _Waiting:
    """A call that waits for its answer. The thread that reads makes nothing of that: it wakes the one that asked."""

    __slots__ = ("answer", "done", "error")

    def __init__(self) -> None:
        self.done = threading.Lock()  # a threading.Event would be three objects, and slower
        self.done.acquire()
        self.answer: codec.Message | codec.Oversized | None = None
        self.error: NRIError | None = None


class Client:
    """Calls the methods of the server at the other end of one connection.

    :param send: sends bytes to the server; raises NRIError when it can't.
    :param wait: acquires a lock within a number of seconds, and returns whether it could, as
        :meth:`nri.multiplex.Connection.wait`; by default it just does that.
    :param max_request: bytes of the longest request that is sent; by default :data:`nri.ttrpc.MAX_DATA`.
    """

    def __init__(
        self,
        *,
        send: Callable[[bytes], None] | None = None,
        wait: Callable[[threading.Lock, float | None], bool] | None = None,
        max_request: int | None = None,
    ) -> None:
        self.send = send
        self._max_request = codec.MAX_DATA if max_request is None else max_request
        self.wait = wait or _wait
        self._decoder = codec.MessageDecoder()
        self._waiting: dict[int, _Waiting] = {}
        self._next_stream = 1
        self._sending = threading.Lock()
        self._lock = threading.Lock()
        self._closed: NRIError | None = None

    def call(
        self,
        service: str,
        method: str,
        request: Message,
        response: type[Out],
        *,
        timeout: float | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Out:
        """Call a method and wait for its answer.

        :param timeout: seconds; the server is told. None waits as long as the connection lives.
        :raises StatusError: with what the server answers, when that is not OK; a DeadlineError when it does not
            answer in time; INTERNAL when what it answers can't be read, RESOURCE_EXHAUSTED for a message too long.
        :raises NRIError: when the connection is closed.
        """
        envelope = Request(service=service, method=method, payload=request.SerializeToString())
        if timeout is not None:
            envelope.timeout_nano = max(1, int(timeout * 1e9))
        for key, value in (metadata or {}).items():
            envelope.metadata.add(key=key, value=value)
        data = envelope.SerializeToString()
        if len(data) > self._max_request:
            what = f"a request of {len(data)} bytes, at most {self._max_request} can be sent"
            raise StatusError(Code.RESOURCE_EXHAUSTED, what)
        started = time.monotonic()
        stream, waiting = self._send(data)
        left = None if timeout is None else timeout - (time.monotonic() - started)
        if not self.wait(waiting.done, left):
            with self._lock:
                self._waiting.pop(stream, None)
            raise DeadlineError(f"{method}: no answer within {timeout:g} s")
        if waiting.error is not None:
            raise waiting.error.with_traceback(None)
        try:
            return response.FromString(_payload(waiting.answer))
        except DecodeError:
            what = f"the answer to {method} is not a {response.DESCRIPTOR.full_name}"
            raise StatusError(Code.INTERNAL, what) from None

    def receive(self, data: bytes) -> None:
        """Take a piece of the connection's bytes."""
        for message in self._decoder.feed(data):
            if message.type != codec.RESPONSE:
                continue  # a client is asked nothing
            with self._lock:
                waiting = self._waiting.pop(message.stream, None)
            if waiting is not None:  # else it came after its deadline
                waiting.answer = message
                waiting.done.release()

    def closed(self, reason: NRIError) -> None:
        """Take note that the connection is closed: whoever waits is told."""
        with self._lock:
            self._closed = self._closed or reason
            waiting = list(self._waiting.values())
            self._waiting.clear()
        for call in waiting:
            call.error = reason
            call.done.release()

    def due(self) -> None:
        """Never: each call minds its own deadline."""

    def expire(self) -> None:
        """Nothing: see :meth:`due`."""

    def _send(self, data: bytes) -> tuple[int, _Waiting]:
        assert self.send is not None  # noqa: S101 - set before anything is called
        waiting = _Waiting()
        # Sent in the order of the numbers: a server refuses a stream that is not above the last.
        with self._sending:
            stream = self._next_stream
            self._next_stream += 2
            with self._lock:
                if self._closed is not None:
                    raise self._closed.with_traceback(None)  # else it grows with every call
                self._waiting[stream] = waiting
            try:
                self.send(codec.encode(stream, codec.REQUEST, data))
            except NRIError:
                with self._lock:
                    self._waiting.pop(stream, None)
                raise
        return stream, waiting


def _wait(done: threading.Lock, timeout: float | None) -> bool:
    return done.acquire(timeout=-1 if timeout is None else min(max(0.0, timeout), threading.TIMEOUT_MAX))


def _payload(answer: codec.Message | codec.Oversized | None) -> bytes:
    if isinstance(answer, codec.Oversized):
        what = f"an answer of {answer.length} bytes, at most {codec.MAX_DATA} are taken"
        raise StatusError(Code.RESOURCE_EXHAUSTED, what)
    try:
        response = Response.FromString(b"" if answer is None else answer.data)
    except DecodeError:
        raise StatusError(Code.INTERNAL, "the answer is not a ttrpc.Response") from None
    if response.HasField("status") and response.status.code != Code.OK:
        raise StatusError(response.status.code, response.status.message)
    return response.payload
