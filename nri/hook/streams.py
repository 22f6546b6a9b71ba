"""The container's state on the hook's stdin, which is polled: it cannot block the hook beyond its deadline."""

from __future__ import annotations

import errno
import os
import select

from nri.client.oci_state import EXPECTED, MAX_STATE
from nri.errors import NRIError
from nri.process.reporter import descriptor
from nri.types import DecodeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

    from nri.process.deadline import Deadline


def read_state(stdin: BinaryIO, deadline: Deadline) -> bytes:
    """Return the bytes on ``stdin``, at most a little more than a state may have.

    :raises NRIError: if it cannot be read, or is still open at the deadline.
    """
    fd = descriptor(stdin)
    try:
        document = stdin.read(MAX_STATE + 1) if fd < 0 else _read(fd, deadline)
        if document is None:  # non-blocking, and empty
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    except OSError as error:
        reason = f"the container's state on stdin: cannot be read: {error.strerror}"
        raise DecodeError(f"{reason}; {EXPECTED}") from None
    return document


def _read(fd: int, deadline: Deadline) -> bytes:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    document = b""
    while len(document) <= MAX_STATE:
        left = deadline.left()
        if left == 0 or not poll.poll(left * 1000 + 1):
            fault = f"the container's state on stdin is incomplete after {len(document)} bytes"
            raise NRIError(deadline.passed(f"{fault}; {EXPECTED}"))
        try:
            piece = os.read(fd, 65536)
        except BlockingIOError:
            continue  # another process has read it
        if not piece:
            break
        document += piece
    return document
