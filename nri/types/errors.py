"""What can be wrong with a document of the v0.1 wire."""

from nri.errors import NRIError


class DecodeError(NRIError, ValueError):
    """A document is not JSON, or not of the shape it should have.

    The message says where in the document (line and column, or the path of the value), what was found there and
    what was expected. Expected whenever the document comes from somebody else.
    """


class EncodeError(NRIError, ValueError):
    """A value that the program made cannot be written: a wrong type, a NaN, a circle. A fault of the program."""
