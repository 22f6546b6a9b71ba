"""Status codes and the error that carries them. The codes are gRPC's (google.golang.org/grpc/codes)."""

from __future__ import annotations

from enum import IntEnum

from nri.errors import NRIError


class Code(IntEnum):
    """A call's outcome."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


_NAMES = {int(code): code.name for code in Code}


class StatusError(NRIError):
    """A call ended with a status other than OK.

    A server's handler raises it to choose the status; a client's call raises it with the status that the server sent.
    ``code`` is a plain number where the peer sent one that has no name.
    """

    def __init__(self, code: int, message: str) -> None:
        name = _NAMES.get(code, f"code {code}")
        super().__init__(f"{name}: {message}")
        self.code = code
        self.message = message


class DeadlineError(StatusError):
    """A call's deadline has passed without an answer. The client raises it itself: the server has sent nothing."""

    def __init__(self, message: str) -> None:
        super().__init__(Code.DEADLINE_EXCEEDED, message)
