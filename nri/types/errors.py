"""What can be wrong with a document of the v0.1 wire."""

from nri.errors import NRIError


class DecodeError(NRIError, ValueError):
    """A document is not JSON, or not of the shape it should have.

    The message says where in the document (line and column, or the path of the value), what was found there and
    what was expected. Expected whenever the document comes from somebody else.

    :ivar reason: the message without the position.
    :ivar line: of the text, from 1; 0 where the place is named by a path, or not known.
    :ivar column: in characters, from 1; 0 likewise.
    """

    def __init__(self, reason: str, *, line: int = 0, column: int = 0) -> None:
        super().__init__(f"line {line} column {column}: {reason}" if line else reason)
        self.reason = reason
        self.line = line
        self.column = column


class EncodeError(NRIError, ValueError):
    """A value that the program made cannot be written: a wrong type, a NaN, a circle. A fault of the program."""
