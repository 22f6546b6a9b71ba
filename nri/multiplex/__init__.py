"""Several connections over one socket: the trunk between an NRI v2 runtime and a plugin.

:mod:`nri.multiplex.codec` is the wire, without any I/O; a :class:`Trunk` is a socket that speaks it, a :class:`Link`
one that carries a single connection. What is said on a connection, this package does not know: it hands bytes to a
:class:`Receiver` as they come.
"""

from nri.multiplex.codec import (
    MAX_PAYLOAD,
    OLD_MAX_PAYLOAD,
    PLUGIN_SERVICE,
    RUNTIME_SERVICE,
    FrameDecoder,
    FrameError,
    encode,
)
from nri.multiplex.errors import ClosedError, ProtocolError
from nri.multiplex.link import Link, Receiver, inherited
from nri.multiplex.readers import Task
from nri.multiplex.trunk import Trunk

__all__ = [
    "MAX_PAYLOAD",
    "OLD_MAX_PAYLOAD",
    "PLUGIN_SERVICE",
    "RUNTIME_SERVICE",
    "ClosedError",
    "FrameDecoder",
    "FrameError",
    "Link",
    "ProtocolError",
    "Receiver",
    "Task",
    "Trunk",
    "encode",
    "inherited",
]
