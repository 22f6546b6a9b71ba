"""Why a link ends."""

from nri.errors import NRIError


class ClosedError(NRIError):
    """The link is closed; ``str()`` says why. Expected whenever a peer goes away."""


class ProtocolError(NRIError):
    """The peer sent what makes no sense, and nothing after it can be trusted. Raised by a receiver, it closes."""
