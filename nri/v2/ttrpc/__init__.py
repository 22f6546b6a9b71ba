"""ttRPC: gRPC's calls without HTTP/2, as containerd speaks it to its shims and to NRI plugins.

``nri.v2.ttrpc.codec`` is the wire format, without I/O. ``RPCServer`` and ``RPCClient`` are made with a
channel (``nri.v2.mux.Channel``). Only unary calls are implemented, which are all that NRI has; a streaming call
is refused.
"""

from nri.v2.ttrpc.client import RPCClient
from nri.v2.ttrpc.codec import MAX_DATA
from nri.v2.ttrpc.server import Call, RPCServer
from nri.v2.ttrpc.status import Code, DeadlineError, StatusError

__all__ = ["MAX_DATA", "Call", "Code", "DeadlineError", "RPCClient", "RPCServer", "StatusError"]
