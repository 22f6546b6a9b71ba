"""Several connections over one socket: the trunk between an NRI v2 runtime and a plugin.

:mod:`nri.multiplex.codec` is the wire, without any I/O; a :class:`Mux` is a socket that speaks it, a
:class:`Connection` one that carries a single connection. What is said on a connection, this package does not know: it
hands bytes to a :class:`Receiver` as they come.
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
from nri.multiplex.connection import Connection, Receiver, inherited
from nri.multiplex.errors import ClosedError, ProtocolError
from nri.multiplex.leader_followers import Task
from nri.multiplex.mux import Mux

__all__ = [
    "MAX_PAYLOAD",
    "OLD_MAX_PAYLOAD",
    "PLUGIN_SERVICE",
    "RUNTIME_SERVICE",
    "ClosedError",
    "Connection",
    "FrameDecoder",
    "FrameError",
    "Mux",
    "ProtocolError",
    "Receiver",
    "Task",
    "encode",
    "inherited",
]
