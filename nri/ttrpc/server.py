"""The server's end of a ttRPC connection.

What it promises: each call is a task of its own for whoever reads the connection, so that calls don't wait for each
other; each is answered once; one that is not done when its deadline passes is answered ``DEADLINE_EXCEEDED``, and
what it comes to is discarded. What it does about a peer that does not play by the rules:

| what comes | what is done |
| --- | --- |
| a request of an unknown service or method | ``UNIMPLEMENTED`` |
| a request that can't be decoded | ``INVALID_ARGUMENT`` |
| a request that is longer than allowed | ``RESOURCE_EXHAUSTED``, the connection lives on |
| a request on an even stream, or on one that was used before | ``INVALID_ARGUMENT`` |
| a streaming call | ``UNIMPLEMENTED`` |
| a handler that raises | its status, where it is a StatusError; else ``UNKNOWN`` with its message (as Go does) |
| an answer that is too long | ``RESOURCE_EXHAUSTED`` |
| a response, or data of a stream that is not open | nothing, it is dropped |
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import DecodeError

from nri.errors import NRIError, bounded, escape
from nri.ttrpc import codec
from nri.ttrpc.reply_queue import ReplyQueue
from nri.ttrpc.status import Code, StatusError
from nri.ttrpc.ttrpc_pb2 import Request, Response

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from google.protobuf.message import Message

    Task = Callable[[], None]
    Handler = Callable[[bytes, "Call"], bytes]

In = TypeVar("In", bound="Message")
MAX_MESSAGE = 65536
"""Bytes of an error that a peer is told."""

_making_event = threading.Lock()
log = logging.getLogger("nri.ttrpc")


class Call:
    """What a handler may want to know of the call that it serves."""

    __slots__ = (
        "_event",
        "afterwards",
        "answer_by",
        "deadline",
        "is_cancelled",
        "metadata",
        "method",
        "service",
        "stream",
    )

    def __init__(self, stream: int, request: Request, early: float = 0.0) -> None:
        self.stream = stream
        self.service = request.service
        self.method = request.method
        seconds = request.timeout_nano / 1e9
        self.deadline = None if seconds <= 0 else time.monotonic() + seconds
        """Of :func:`time.monotonic`; None where the client set none."""
        self.answer_by = None if self.deadline is None else self.deadline - min(early, seconds / 2)
        """When it is answered for the handler, if that is not done."""
        self.metadata: Mapping[str, str] = {pair.key: pair.value for pair in request.metadata}
        self.is_cancelled = False
        """Whether nobody waits for the answer any more: the deadline has passed, or the connection is closed."""
        self._event: threading.Event | None = None
        self.afterwards: list[Callable[[], object]] = []
        """What the handler leaves to be done, in its thread, when the answer has been sent. It must not raise."""

    @property
    def cancelled(self) -> threading.Event:
        """``is_cancelled``, for a handler that wants to wait for it; made when it is asked for."""
        with _making_event:
            if self._event is None:
                self._event = threading.Event()
                if self.is_cancelled:
                    self._event.set()
            return self._event

    def cancel(self) -> None:
        """For the server: nobody waits any more."""
        with _making_event:
            self.is_cancelled = True
            if self._event is not None:
                self._event.set()

    def remaining(self) -> float | None:
        """Seconds until the deadline; None where there is none."""
        return None if self.deadline is None else self.deadline - time.monotonic()


class Server:
    """Answers the calls of one connection.

    :param handlers: by service and method; given the payload of the request, they return that of the response.
    :param send: sends bytes to the client; raises NRIError when it can't.
    :param early: seconds before a call's deadline at which it is answered for its handler, so that the answer
        arrives in time; at most half of the time that it has.
    :param max_request: bytes of the longest request that is accepted; by default :data:`nri.ttrpc.MAX_DATA`.
    """

    def __init__(
        self,
        handlers: Mapping[tuple[str, str], Handler],
        *,
        send: Callable[[bytes], None] | None = None,
        early: float = 0.0,
        max_request: int | None = None,
    ) -> None:
        self.send = send
        self._handlers = handlers
        self._replies = ReplyQueue()
        self._early = early
        self._max_request = codec.MAX_DATA if max_request is None else max_request
        self._decoder = codec.MessageDecoder(self._max_request)
        self._last_stream = -1
        self._calls: dict[int, Call] = {}
        self._lock = threading.Lock()  # taken as such, since a condition's own way takes four calls of Python
        self._changed = threading.Condition(self._lock)
        self._begun = 0
        self._closed = False

    def receive(self, data: bytes) -> list[Task]:
        """Take a piece of the connection's bytes; returns the calls that are to be served."""
        tasks: list[Task] = []
        for message in self._decoder.feed(data):
            if isinstance(message, codec.Oversized):
                if message.type == codec.REQUEST:
                    self._last_stream = max(self._last_stream, message.stream)
                    what = f"a request of {message.length} bytes, at most {self._max_request} are taken"
                    self._refuse(message.stream, Code.RESOURCE_EXHAUSTED, what)
            elif message.type == codec.REQUEST:
                task = self._request(message)
                if task is not None:
                    tasks.append(task)
            else:
                log.debug("dropped a message of type %d on stream %d", message.type, message.stream)
        return tasks

    def closed(self, reason: NRIError) -> None:
        """Take note that the connection is closed."""
        with self._lock:
            self._closed = True
            self._changed.notify_all()
            calls = list(self._calls.values())
            self._calls.clear()
        for call in calls:
            call.cancel()
        self._replies.end()

    def wait_until_answered(self, timeout: float) -> bool:
        """Wait until no handler is at work and every answer is sent, at most ``timeout`` seconds; whether that is so.

        Also when the connection is closed; not to be called by a handler.
        """
        with self._lock:
            return self._changed.wait_for(lambda: self._begun == 0 or self._closed, timeout)

    def due(self) -> float | None:
        """When the next call has to be answered for its handler."""
        with self._lock:
            return min([call.answer_by for call in self._calls.values() if call.answer_by is not None], default=None)

    def expire(self) -> None:
        """Answer the calls whose time is over."""
        now = time.monotonic()
        with self._lock:
            late = [call for call in self._calls.values() if call.answer_by is not None and call.answer_by <= now]
        for call in late:
            call.cancel()
            with self._lock:
                if self._calls.pop(call.stream, None) is None:
                    continue
            self._reply(call.stream, Code.DEADLINE_EXCEEDED, f"{call.method} was not done within its deadline")

    def _request(self, message: codec.Message) -> Task | None:
        stream = message.stream
        if stream % 2 == 0 or stream <= self._last_stream:
            what = f"a request on stream {stream}, expected an odd number above {self._last_stream}"
            self._refuse(stream, Code.INVALID_ARGUMENT, what)
            return None
        self._last_stream = stream
        try:
            request = Request.FromString(message.data)
        except DecodeError:
            self._refuse(stream, Code.INVALID_ARGUMENT, "the request is not a ttrpc.Request")
            return None
        handler = self._handlers.get((request.service, request.method))
        if handler is None:
            self._refuse(stream, Code.UNIMPLEMENTED, f"/{request.service}/{request.method} is not implemented")
            return None
        if message.flags & codec.FLAG_REMOTE_OPEN:
            self._refuse(stream, Code.UNIMPLEMENTED, f"/{request.service}/{request.method} is no streaming call")
            return None
        call = Call(stream, request, self._early)
        with self._lock:
            if self._closed:  # by another thread, while this one hands out what had come
                return None
            self._calls[stream] = call
            self._begun += 1
        return lambda: self._serve(handler, request.payload, call)

    def _serve(self, handler: Handler, payload: bytes, call: Call) -> None:
        try:
            if not call.is_cancelled:  # while it waited for a thread
                self._answer(call, self._handle(handler, payload, call))
            for task in call.afterwards:
                task()
        finally:
            with self._lock:
                self._begun -= 1
                self._changed.notify_all()

    def _handle(self, handler: Handler, payload: bytes, call: Call) -> Response:
        try:
            return Response(payload=handler(payload, call))
        except StatusError as error:
            return _failure(error.code, error.message)
        except NRIError as error:
            return _failure(Code.UNKNOWN, escape(str(error)))
        except BaseException as error:  # also sys.exit(), which would end a thread and answer nothing
            log.exception("%s failed", call.method)
            return _failure(Code.UNKNOWN, escape(str(error)) or type(error).__name__)

    def _answer(self, call: Call, response: Response) -> None:
        with self._lock:
            if self._calls.pop(call.stream, None) is None:
                return  # it was answered for its handler, or the connection is closed
        self._respond(call.stream, response)

    def _refuse(self, stream: int, code: Code, message: str) -> None:
        log.warning("refused: %s", escape(message[:500]))
        self._reply(stream, code, message)

    def _reply(self, stream: int, code: Code, message: str) -> None:
        self._replies.send(lambda: self._respond(stream, _failure(code, message)))

    def _respond(self, stream: int, response: Response) -> None:
        assert self.send is not None  # noqa: S101 - set before anything is received
        data = response.SerializeToString()
        if len(data) > codec.MAX_DATA:
            what = f"an answer of {len(data)} bytes, at most {codec.MAX_DATA} can be sent"
            data = _failure(Code.RESOURCE_EXHAUSTED, what).SerializeToString()
        try:
            self.send(codec.encode(stream, codec.RESPONSE, data))
        except NRIError as error:
            log.info("an answer could not be sent: %s", error)


def unary(request: type[In], function: Callable[[In, Call], Message]) -> Handler:
    """A handler of bytes out of a function of messages."""

    def handle(payload: bytes, call: Call) -> bytes:
        try:
            message = request.FromString(payload)
        except DecodeError:
            what = f"the payload of {call.method} is not a {request.DESCRIPTOR.full_name}"
            raise StatusError(Code.INVALID_ARGUMENT, what) from None
        return function(message, call).SerializeToString()

    return handle


def _failure(code: int, message: str) -> Response:
    response = Response()
    # OK would make a success of it, and what is no int32 can't be sent.
    response.status.code = code if 0 < code < 2**31 else Code.UNKNOWN
    response.status.message = bounded(message, MAX_MESSAGE)  # a peer logs it, and may show it to whoever asked
    return response
