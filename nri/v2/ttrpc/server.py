"""The server's end of a ttRPC channel.

Calls are handled in order, one after the other, in the event thread of the connection. Each is answered once. A call
that is not finished at its deadline is answered ``DEADLINE_EXCEEDED``, and its result is discarded; one that has not
begun by then never begins. A peer that breaks the rules is answered so:

| input | answer |
| --- | --- |
| a request of an unknown service or method | ``UNIMPLEMENTED`` |
| a request that can't be decoded | ``INVALID_ARGUMENT`` |
| a request that is longer than allowed | ``RESOURCE_EXHAUSTED``; the connection stays open |
| a request on an even stream, or on one that was used before | ``INVALID_ARGUMENT`` |
| a streaming call | ``UNIMPLEMENTED`` |
| a handler that raises | the status of a StatusError; otherwise ``UNKNOWN`` with its message (as Go does) |
| an answer that is too long | ``RESOURCE_EXHAUSTED`` |
| a response, or data of a stream that is not open | none; it is dropped |
"""

from __future__ import annotations

import functools
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from nri.errors import NRIError, bounded, escape
from nri.v2.mux import Channel, Job, Receiver
from nri.v2.ttrpc import codec
from nri.v2.ttrpc.status import Code, StatusError
from nri.v2.ttrpc.ttrpc_pb2 import Request, Response

MethodHandler = Callable[[bytes, "Call"], bytes]

In = TypeVar("In", bound="Message")
REFUSALS = 10
WITHIN = 60.0
"""Refused requests that are logged within so many seconds; more are of a peer that does nothing else."""

MAX_MESSAGE = 65536
"""Bytes of the longest error message that is sent."""

log = logging.getLogger("nri.v2.ttrpc")


def _ignore(*_: object) -> None:
    """Do nothing."""


class Call:
    """One call that a handler serves."""

    def __init__(self, stream: int, request: Request, early: float = 0.0) -> None:
        self.stream = stream
        self.service = request.service
        self.method = request.method
        seconds = request.timeout_nano / 1e9
        self.received = time.monotonic()
        """When the call was read; all times are of ``time.monotonic``."""
        self.begun = self.answered = self.received
        """When the handler began, and when its answer was sent. The latter counts in ``RPCServer.answered``."""
        self.has_failed = False
        """True if the answer is an error."""
        self.is_late = False
        """True if the server has answered for the handler, at ``answer_by``."""
        self.event = request.method
        """The name of the event, which ``nri.v2.stub`` sets; the method's, if no handler has had it in time."""
        self.deadline = math.inf
        """That of the client, if it has set a timeout."""
        self.answer_by = math.inf
        """Time at which the server answers for a handler that has not finished."""
        if seconds > 0:
            self.deadline = self.received + seconds
            self.answer_by = self.deadline - min(early, seconds / 2)
        self.is_abandoned = False
        """True when the client has made another call before this one was answered: see ``RPCServer``."""
        self.on_abandoned: Callable[[], object] = _ignore
        """Called when ``is_abandoned`` becomes true, in another thread than the handler's."""

    def abandon(self) -> None:
        """Set ``is_abandoned``. Only the server calls this."""
        self.is_abandoned = True
        self.on_abandoned()

    def remaining(self) -> float | None:
        """Return the seconds until the deadline; None without one."""
        if self.deadline == math.inf:
            return None
        return self.deadline - time.monotonic()


class RPCServer(Receiver):
    """Answers the calls that arrive on ``channel``.

    :param handlers: by service and method; each takes the request's payload and returns the response's payload.
    :param early: seconds before a call's deadline at which the server answers for its handler, so that the answer
        arrives in time; at most half of the call's timeout.
    :param max_request: bytes of the longest request that is accepted; by default ``nri.v2.ttrpc.MAX_DATA``.
    :param has_late: handlers also get calls that were answered for them while they waited: ``is_late`` is true then.
    :param answered: called with each call after its answer, in the thread of its handler. It must not raise.
    """

    def __init__(
        self,
        channel: Channel,
        handlers: Mapping[tuple[str, str], MethodHandler],
        *,
        early: float = 0.0,
        max_request: int = codec.MAX_DATA,
        has_late: bool = False,
        answered: Callable[[Call], object] = _ignore,
    ) -> None:
        self._channel = channel
        self._answered = answered
        self._handlers = handlers
        self._early = early
        self._has_late = has_late
        self._max_request = max_request
        self._decoder = codec.MessageDecoder(self._max_request)
        self._last_stream = -1
        self._calls: dict[int, Call] = {}
        self._changed = threading.Condition(threading.Lock())
        self._begun = 0
        self._closed = False
        self._refused = deque([-WITHIN] * REFUSALS, maxlen=REFUSALS)  # when the last ones were
        channel.attach(self)

    def receive(self, data: bytes) -> list[Job]:
        """Take a piece of the channel's bytes; returns a job for each call, and for each refusal."""
        jobs: list[Job] = []
        for message in self._decoder.feed(data):
            if message.type != codec.REQUEST:
                log.debug("dropped a message of type %d on stream %d", message.type, message.stream)
                continue
            try:
                jobs.append(self._job_of(message))
            except StatusError as error:
                now = time.monotonic()
                oldest = self._refused[0]
                self._refused.append(now)
                if now - oldest > WITHIN:
                    level = logging.WARNING
                else:
                    level = logging.DEBUG
                log.log(level, "refused: %s", escape(error.message[:500]))
                refusal = _failure(error.code, error.message)
                jobs.append(functools.partial(self._respond, message.stream, refusal))
        return jobs

    def closed(self, reason: NRIError) -> None:
        """Answer no call any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._calls = {}

    def wait_until_answered(self, timeout: float) -> bool:
        """Wait until no handler is at work and every answer is sent, or the connection is closed.

        A handler must not call this. Returns False when ``timeout`` seconds pass before that.
        """
        with self._changed:
            return self._changed.wait_for(lambda: self._begun == 0 or self._closed, timeout)

    def due(self) -> float:
        """Return the time at which the server must answer for the next handler."""
        with self._changed:
            return min([call.answer_by for call in self._calls.values()], default=math.inf)

    def expire(self) -> None:
        """Answer for the handlers whose time is over."""
        now = time.monotonic()
        with self._changed:
            late = [call for call in self._calls.values() if call.answer_by <= now]
        for call in late:
            if self._take(call):
                call.is_late = call.has_failed = True
                fault = f"{call.method} was not done within its deadline"
                self._respond(call.stream, _failure(Code.DEADLINE_EXCEEDED, fault))

    def _job_of(self, message: codec.MessageFrame | codec.Oversized) -> Job:
        """Return the job that serves a request; it does nothing when the connection is closed.

        :raises StatusError: when the request is refused.
        """
        stream = message.stream
        if isinstance(message, codec.Oversized):
            self._last_stream = max(self._last_stream, stream)
            fault = f"a request of {message.length} bytes, at most {self._max_request} are taken"
            raise StatusError(Code.RESOURCE_EXHAUSTED, fault)
        if stream % 2 == 0 or stream <= self._last_stream:
            fault = (
                f"a request on stream {stream}, expected an odd number above {self._last_stream}"
            )
            raise StatusError(Code.INVALID_ARGUMENT, fault)
        self._last_stream = stream
        try:
            request = Request.FromString(message.data)
        except DecodeError:
            raise StatusError(Code.INVALID_ARGUMENT, "the request is not a ttrpc.Request") from None
        handler = self._handlers.get((request.service, request.method))
        if handler is None:
            raise StatusError(
                Code.UNIMPLEMENTED, f"/{request.service}/{request.method} is not implemented"
            )
        if message.flags & codec.FLAG_REMOTE_OPEN:
            raise StatusError(
                Code.UNIMPLEMENTED, f"/{request.service}/{request.method} is no streaming call"
            )
        call = Call(stream, request, self._early)
        with self._changed:
            if self._closed:  # by another thread meanwhile
                return _ignore
            # A client makes a call when the one before has returned, or when it has abandoned that.
            abandoned = list(self._calls.values())
            self._calls[stream] = call
            self._begun += 1
        for earlier_call in abandoned:
            earlier_call.abandon()
        return functools.partial(self._serve, handler, request.payload, call)

    def _serve(self, handler: MethodHandler, payload: bytes, call: Call) -> None:
        try:
            call.begun = time.monotonic()
            runs_late = self._has_late and not self._closed
            if call.stream in self._calls or runs_late:
                response = self._handle(handler, payload, call)
                if self._take(call):
                    self._respond(call.stream, response)
                    call.has_failed = response.status.code != 0
            call.answered = time.monotonic()
            self._answered(call)
        finally:
            with self._changed:
                self._begun -= 1
                self._changed.notify_all()

    def _handle(self, handler: MethodHandler, payload: bytes, call: Call) -> Response:
        try:
            return Response(payload=handler(payload, call))
        except StatusError as error:
            return _failure(error.code, error.message)
        except NRIError as error:
            return _failure(Code.UNKNOWN, escape(str(error)))
        # Also sys.exit(), which would end the thread without an answer.
        except (Exception, SystemExit) as error:
            log.exception("%s failed", call.method)
            return _failure(Code.UNKNOWN, escape(str(error)) or type(error).__name__)

    def _take(self, call: Call) -> bool:
        """Return whether the caller must answer: no other thread has, and the connection is open."""
        with self._changed:
            return self._calls.pop(call.stream, None) is not None

    def _respond(self, stream: int, response: Response) -> None:
        data = response.SerializeToString()
        if len(data) > codec.MAX_DATA:
            fault = f"an answer of {len(data)} bytes, at most {codec.MAX_DATA} can be sent"
            data = _failure(Code.RESOURCE_EXHAUSTED, fault).SerializeToString()
        try:
            self._channel.send(codec.encode(stream, codec.RESPONSE, data))
        except NRIError as error:
            log.info("can't send an answer: %s", error)


def unary(request: type[In], function: Callable[[In, Call], Message]) -> MethodHandler:
    """Return a handler of payloads that calls a function of messages."""

    def handle(payload: bytes, call: Call) -> bytes:
        try:
            message = request.FromString(payload)
        except DecodeError:
            fault = f"the payload of {call.method} is not a {request.DESCRIPTOR.full_name}"
            raise StatusError(Code.INVALID_ARGUMENT, fault) from None
        return function(message, call).SerializeToString()

    return handle


def _failure(code: int, message: str) -> Response:
    response = Response()
    # OK would make it a success, and a code beyond int32 can't be sent.
    response.status.code = code if 0 < code < 2**31 else Code.UNKNOWN
    # A peer logs it, and may show it to its user.
    response.status.message = bounded(message, MAX_MESSAGE)
    return response
