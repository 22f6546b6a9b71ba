"""One call of a plugin, as observers see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from nri.errors import NRIError


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One call of a plugin and its result: either ``response`` or ``error`` is None."""

    event: str
    """Name of the method, also where a ``StateChange`` carried the event."""
    plugin: str
    request: Message
    response: Message | None = None
    error: NRIError | None = None
    cut_off: bool = False
    """True when the error made the runtime close the connection."""
    seconds: float
