"""Asks the bridge of this node, on its status socket. The protocol: docs/status.md.

It promises an answer that is complete and of this protocol, or an error. It does not trust the peer: the socket must
be root's or our own user's, in a place where no other user can put one, and so must be the process that listens; an
answer is bounded in bytes and in time. The bridge may be of another build than its reader: what lacks a documented
key, or has another kind of value there, raises one of ``UNUSABLE`` in the reader; ``Reading`` makes it an AskError.

A probe imports this module every few seconds: so ``_socket`` and ``gojson``, since ``socket`` would import ``enum``,
and ``json`` ``re``.
"""

from __future__ import annotations

import os
import struct
import time
from _socket import AF_UNIX, SO_SNDTIMEO, SOCK_STREAM, SOL_SOCKET, socket

from nri import trust
from nri.errors import NRIError, bounded, escape, reason_of
from nri.files import describe
from nri.places import DEFAULT_RECORD_DIR, beside
from nri.process import peer
from nri.types import DecodeError, gojson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROTOCOL = 1
"""The number of the protocol that is spoken here."""

DEFAULT_STATUS_SOCKET = beside(DEFAULT_RECORD_DIR, ".sock")
"""Where the bridge answers, unless its option ``recordDir`` names another place."""

TIMEOUT = 5.0
"""Seconds for connection, request and answer together; as many as the bridge gives a client."""

MAX_ANSWER = 32 * 1024 * 1024
"""Bytes of an answer."""

UNUSABLE = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, OSError)
"""The errors of a reader of a document that is not as documented."""

_CLOEXEC = 0o2000000  # SOCK_CLOEXEC
_PIECE = 256 * 1024


class AskError(NRIError):
    """The bridge could not be asked, or its answer cannot be used. The text begins with the socket's path."""


class NoBridgeError(AskError):
    """No bridge listens: the socket does not exist, or no process accepts connections there any more."""


def status(path: str = DEFAULT_STATUS_SOCKET, timeout: float = TIMEOUT) -> dict[str, Any]:
    """Return the status of the bridge.

    :raises AskError: see ``ask``.
    """
    return ask(path, "", timeout)


def of_pod(pod: str, path: str = DEFAULT_STATUS_SOCKET) -> dict[str, Any]:
    """Return what a pod, ``NAMESPACE/NAME``, and its containers have had, as ``status`` returns the status."""
    return ask(path, pod, TIMEOUT)


class Reading:
    """A context in which an answer of another form than documented raises an AskError.

    :param path: the socket whose answer is read.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, UNUSABLE):
            reason = escape(bounded(f"{type(error).__name__}: {error}", 200))
            raise AskError(
                f"{self._path}: the answer cannot be used ({reason}): use the nri of the bridge's "
                "version"
            ) from None


def ask(path: str, pod: str, timeout: float = TIMEOUT) -> dict[str, Any]:
    """Ask at the socket at ``path``; return the answer.

    :param timeout: seconds for all of it.
    :raises NoBridgeError: no process listens.
    :raises AskError: the socket or its owner is not to be trusted; no answer in time; an answer that is too long, not
        JSON, or of another protocol.
    """
    line = pod.encode("utf-8", "replace") + b"\n"
    until = time.monotonic() + timeout
    connection = _connect(path, timeout)
    try:
        answer = _converse(connection, line, until)
    except TimeoutError:
        raise AskError(f"{path}: the bridge has not answered within {timeout:g} s") from None
    except OSError as error:
        raise AskError(f"{path}: the bridge broke the connection off: {error.strerror}") from error
    finally:
        connection.close()
    if len(answer) > MAX_ANSWER:
        raise AskError(f"{path}: the answer has more than {MAX_ANSWER} bytes")
    return read(answer, path)


def _connect(path: str, timeout: float) -> socket:
    """Return a connection to a peer that may be trusted."""
    try:
        fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NoBridgeError(f"{path} does not exist") from None
    except (OSError, ValueError) as error:
        raise AskError(f"{path}: {_reason(error)}") from error
    try:
        at_path = os.fstat(fd)
        if at_path.st_mode & 0o170000 != 0o140000:
            raise AskError(
                f"{path}: it is {describe(at_path.st_mode)}, expected the bridge's socket"
            )
        if wrong := trust.judge_path(path, at_path):
            raise AskError(wrong)
        # Through the descriptor: what was judged is what is asked, and a path may be longer than a socket's address.
        connection = socket(AF_UNIX, SOCK_STREAM | _CLOEXEC)
        try:
            _reach(connection, f"/proc/self/fd/{fd}", timeout)
            _, user = peer.credentials(connection)
            if not peer.is_trusted(user):
                raise AskError(
                    f"{path}: user {user} answers there, expected root or user {os.geteuid()}"
                )
        except BaseException:
            connection.close()
            raise
    except ConnectionRefusedError:
        raise NoBridgeError(
            f"{path}: no process listens; the bridge that made it has ended"
        ) from None
    except BlockingIOError:
        raise AskError(
            f"{path}: the bridge has not taken the connection within {timeout:g} s"
        ) from None
    except OSError as error:
        raise AskError(f"{path}: {_reason(error)}") from error
    else:
        return connection
    finally:
        os.close(fd)


def _reach(connection: socket, path: str, timeout: float) -> None:
    # A connection that does not block is refused at once if the queue is full; one that blocks waits this long.
    microseconds = max(1, int(timeout * 1_000_000))
    connection.setsockopt(
        SOL_SOCKET, SO_SNDTIMEO, struct.pack("ll", *divmod(microseconds, 1_000_000))
    )
    connection.connect(path)


def _converse(connection: socket, line: bytes, until: float) -> bytes:
    """Send a line; return all that comes back, or its beginning if it is too long."""
    connection.settimeout(_left(until))
    connection.sendall(line)
    answer = bytearray()
    while len(answer) <= MAX_ANSWER:
        connection.settimeout(_left(until))
        piece = connection.recv(_PIECE)
        if not piece:
            break
        answer += piece
    return bytes(answer)


def _left(until: float) -> float:
    if (left := until - time.monotonic()) <= 0:
        raise TimeoutError
    return left


def read(answer: bytes, path: str) -> dict[str, Any]:
    """Return the document in an answer.

    :param path: of the socket, for messages.
    :raises AskError: see ``ask``.
    """
    if not answer:
        raise AskError(f"{path}: the connection was closed without an answer")
    try:
        value = gojson.loads(answer)
    except DecodeError:
        shown = escape(answer[:40].decode(errors="replace"))
        raise AskError(
            f"{path}: the answer is not JSON, or not whole: {len(answer)} bytes, {shown!r}…"
        ) from None
    if not isinstance(value, dict):
        raise AskError(f"{path}: the answer is not a JSON object")
    protocol = value.get("protocol")
    if type(protocol) is not int or protocol != PROTOCOL:  # True is no number here
        shown = bounded(escape(str(protocol)), 128)
        raise AskError(
            f"{path}: found protocol {shown}, expected {PROTOCOL}: use the nri of the bridge's "
            "version"
        )
    return value


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, PermissionError):
        return f"{error.strerror}: root alone may ask the bridge"
    return reason_of(error)
