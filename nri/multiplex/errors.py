"""Reasons for which a connection ends."""

from nri.errors import NRIError


class ClosedError(NRIError):
    """The connection is closed; ``str()`` says why. Expected whenever a peer goes away."""


class ProtocolError(NRIError):
    """The peer broke the protocol, and nothing after that can be trusted. A receiver that raises it closes."""
