"""Reads the container's state, which the runtime writes to the hook's stdin."""

from __future__ import annotations

import errno
import os
import select

from nri.hook.deadline import LateError
from nri.types import gojson
from nri.types.errors import DecodeError
from nri.types.jsonobject import integer, mismatch, string, string_map

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

    from nri.hook.deadline import Deadline

MAX_STATE = 1024 * 1024
"""Bytes of a state that are accepted; a real one has some thousands."""

_PIECE = 65536
_EXPECTED = "expected what an OCI runtime writes"


class OCIState:
    """The container's state (OCI runtime specification, "State").

    :raises DecodeError: if the document is not a valid state.
    """

    def __init__(self, document: bytes) -> None:
        try:
            if len(document) > MAX_STATE:
                raise DecodeError(f"found more than {MAX_STATE} bytes")
            value = gojson.loads(document)
            if not isinstance(value, dict):
                raise mismatch(value, "the document", "an object")
            self.id = string(value.get("id"), "id")
            self.pid = integer(value.get("pid"), "pid")
            self.bundle = string(value.get("bundle"), "bundle")
            self.annotations = string_map(value.get("annotations"), "annotations")
            for key in ("id", "bundle"):
                if not value.get(key):
                    raise DecodeError(f"{key}: found nothing, expected the container's")
            if not self.bundle.startswith("/"):
                raise DecodeError(f"bundle: found {self.bundle!r}, expected an absolute path")
        except DecodeError as error:
            raise DecodeError(f"the container's state on stdin: {error}; {_EXPECTED}") from None


def read_state(stdin: BinaryIO, deadline: Deadline) -> bytes:
    """Return the bytes on ``stdin``, at most a little more than a state may have.

    :raises LateError: if stdin is still open at the deadline.
    :raises DecodeError: if it cannot be read.
    """
    try:
        fd = stdin.fileno()
    except (OSError, ValueError):  # no descriptor
        fd = -1
    try:
        document = _read_file(stdin) if fd < 0 else _read_descriptor(fd, deadline)
    except OSError as error:
        reason = f"the container's state on stdin: cannot be read: {error.strerror}"
        raise DecodeError(f"{reason}; {_EXPECTED}") from None
    return document


def _read_file(stdin: BinaryIO) -> bytes:
    document = stdin.read(MAX_STATE + 1)
    if document is None:  # non-blocking, and empty
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return document


def _read_descriptor(fd: int, deadline: Deadline) -> bytes:
    # O_NONBLOCK would affect every process that shares the descriptor, so poll instead.
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    document = b""
    while len(document) <= MAX_STATE:
        left = deadline.left()
        if left == 0 or not poll.poll(left * 1000 + 1):
            what = f"the container's state on stdin is incomplete after {len(document)} bytes"
            raise LateError(deadline.passed(f"{what}; {_EXPECTED}"))
        try:
            piece = os.read(fd, _PIECE)
        except BlockingIOError:
            continue  # another process has read it
        if not piece:
            break
        document += piece
    return document
