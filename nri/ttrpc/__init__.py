"""ttRPC: gRPC's calls without HTTP/2, as containerd speaks it to its shims and to NRI plugins.

:mod:`nri.ttrpc.codec` is the wire format, without I/O. :class:`RPCServer` and :class:`RPCClient` are made with a
channel (:class:`nri.multiplex.Channel`): a channel of a mux, or a whole connection. Only unary calls are implemented,
which are all that NRI has; a streaming call is refused.
"""

from nri.ttrpc.client import RPCClient
from nri.ttrpc.codec import MAX_DATA
from nri.ttrpc.server import Call, RPCServer
from nri.ttrpc.status import Code, DeadlineError, StatusError

__all__ = ["MAX_DATA", "Call", "Code", "DeadlineError", "RPCClient", "RPCServer", "StatusError"]
