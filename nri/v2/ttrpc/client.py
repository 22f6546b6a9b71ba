"""The client's end of a ttRPC channel: any thread calls, and waits for its answer until its deadline."""

from __future__ import annotations

import threading
import time
from queue import Empty, SimpleQueue
from typing import TypeAlias, TypeVar

from google.protobuf.message import DecodeError, Message

from nri.errors import NRIError
from nri.v2.mux import Channel, Receiver
from nri.v2.ttrpc import codec
from nri.v2.ttrpc.status import Code, DeadlineError, StatusError
from nri.v2.ttrpc.ttrpc_pb2 import Request, Response

Out = TypeVar("Out", bound="Message")
Pending: TypeAlias = "SimpleQueue[codec.MessageFrame | codec.Oversized | NRIError]"
"""Where a call waits for its answer: the thread that reads puts it there, and the caller decodes it."""


class RPCClient(Receiver):
    """Calls the methods of the server at the other end of ``channel``.

    :param max_request: bytes of the longest request that is sent; by default ``nri.v2.ttrpc.MAX_DATA``.
    """

    def __init__(self, channel: Channel, *, max_request: int = codec.MAX_DATA) -> None:
        self._channel = channel
        self.max_request = max_request
        self._decoder = codec.MessageDecoder()
        self.pending: dict[int, Pending] = {}
        self.next_stream = 1
        self._sending = threading.Lock()
        self._lock = threading.Lock()
        self._closed: NRIError | None = None
        channel.attach(self)

    def call(
        self,
        service: str,
        method: str,
        request: Message,
        response: type[Out],
        *,
        timeout: float | None = None,
    ) -> Out:
        """Call a method and wait for its answer.

        :param timeout: seconds, which are sent to the server; None waits as long as the connection lives.
        :raises StatusError: with the server's status when it is not OK; INTERNAL when its answer can't be decoded;
            RESOURCE_EXHAUSTED for a message that is too long; a DeadlineError when it does not answer in time.
        :raises NRIError: when the connection is closed.
        """
        envelope = Request(service=service, method=method, payload=request.SerializeToString())
        within = threading.TIMEOUT_MAX
        if timeout is not None:
            envelope.timeout_nano = max(1, int(timeout * 1e9))
            within = min(timeout, within)
        data = envelope.SerializeToString()
        if len(data) > self.max_request:
            fault = f"a request of {len(data)} bytes, at most {self.max_request} can be sent"
            raise StatusError(Code.RESOURCE_EXHAUSTED, fault)
        started = time.monotonic()
        stream, pending = self._send(data)
        left = max(0.0, within - (time.monotonic() - started))
        try:
            answer = pending.get(timeout=left)
        except Empty:
            with self._lock:
                self.pending.pop(stream, None)
            raise DeadlineError(f"{method}: no answer within {timeout:g} s") from None
        if isinstance(answer, NRIError):
            raise answer.with_traceback(None)
        try:
            return response.FromString(_payload(answer))
        except DecodeError:
            fault = f"the answer to {method} is not a {response.DESCRIPTOR.full_name}"
            raise StatusError(Code.INTERNAL, fault) from None

    def receive(self, data: bytes) -> tuple[()]:
        """Take a piece of the channel's bytes."""
        for message in self._decoder.feed(data):
            if message.type != codec.RESPONSE:
                continue  # a client serves no requests
            with self._lock:
                pending = self.pending.pop(message.stream, None)
            if pending is not None:  # otherwise it came after its deadline
                pending.put(message)
        return ()

    def closed(self, reason: NRIError) -> None:
        """End every pending call with ``reason``."""
        with self._lock:
            self._closed = reason
            pending = self.pending
            self.pending = {}
        for call in pending.values():
            call.put(reason)

    def _send(self, data: bytes) -> tuple[int, Pending]:
        pending: Pending = SimpleQueue()
        # Send in the order of the numbers: a server refuses a stream that is not above the last.
        with self._sending:
            stream = self.next_stream
            self.next_stream += 2
            with self._lock:
                if self._closed is not None:
                    # The traceback would grow with every call.
                    raise self._closed.with_traceback(None)
                self.pending[stream] = pending
            # It raises only when the connection is closed, and ``closed`` forgets all calls then.
            self._channel.send(codec.encode(stream, codec.REQUEST, data))
        return stream, pending


def _payload(answer: codec.MessageFrame | codec.Oversized) -> bytes:
    if isinstance(answer, codec.Oversized):
        fault = f"an answer of {answer.length} bytes, at most {codec.MAX_DATA} are taken"
        raise StatusError(Code.RESOURCE_EXHAUSTED, fault)
    try:
        response = Response.FromString(answer.data)
    except DecodeError:
        raise StatusError(Code.INTERNAL, "the answer is not a ttrpc.Response") from None
    if response.status.code != Code.OK:
        raise StatusError(response.status.code, response.status.message)
    return response.payload
