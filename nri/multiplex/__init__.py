"""Several channels over one socket between an NRI v2 runtime and a plugin (Go calls it the trunk).

:mod:`nri.multiplex.codec` is the wire format, without I/O. A :class:`Mux` is one socket with the threads that
read it. A :class:`Channel` of it sends whole messages and hands the bytes that arrive to a :class:`Receiver`; this
package does not interpret them.
"""

from nri.multiplex.channel import Channel, ClosedError, Job, ProtocolError, Receiver
from nri.multiplex.codec import OLD_MAX_PAYLOAD, PLUGIN_SERVICE, RUNTIME_SERVICE
from nri.multiplex.mux import Mux, inherited_socket

__all__ = [
    "OLD_MAX_PAYLOAD",
    "PLUGIN_SERVICE",
    "RUNTIME_SERVICE",
    "Channel",
    "ClosedError",
    "Job",
    "Mux",
    "ProtocolError",
    "Receiver",
    "inherited_socket",
]
