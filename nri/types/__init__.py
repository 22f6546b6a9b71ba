"""The v0.1 wire: the JSON documents on a plugin's stdin and stdout.

Standard library only, and little of it: a plugin executable imports this package at every start. A test checks that
it does not import ``re``, ``typing``, ``dataclasses``, ``enum`` or ``json``.

``nri.types.v1`` has the types. ``X.from_json(bytes | str)`` reads one, ``x.to_json() -> bytes`` writes it; a
document of another form raises ``DecodeError``.
"""

# The errors are here, not in a module of their own: each module is time at every start of a plugin.
from nri.errors import NRIError

__all__ = ["DecodeError", "EncodeError"]


class DecodeError(NRIError, ValueError):
    """A document is not JSON, or its values are not what they should be.

    The message names the place in the document (line and column, or the path of the value), what was found there and
    what was expected. A caller that reads a document of another program must handle it.
    """

    def __init__(self, reason: str, *, line: int = 0, column: int = 0) -> None:
        message = f"line {line} column {column}: {reason}" if line else reason
        super().__init__(message)
        self.reason = reason  # the message without the position
        self.line = line  # from 1; 0 if the message names a path instead, or the place is unknown
        self.column = column  # in characters, from 1; 0 likewise


class EncodeError(NRIError, ValueError):
    """A value cannot be written: a wrong type, a NaN, a cycle. A fault of the program that made the value."""
