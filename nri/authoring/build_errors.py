"""The error with which ``nri build`` refuses: nothing is built, or what was built is not kept."""

from __future__ import annotations

from nri.errors import NRIError, escape


class BuildError(NRIError):
    """A plugin can't be built, or would be dead or slow; the message is one line, and says what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(escape(message))
