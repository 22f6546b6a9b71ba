"""ttRPC: gRPC's calls without HTTP/2, as containerd speaks it to its shims and to NRI plugins.

:mod:`nri.ttrpc.codec` is the wire, without any I/O. :class:`Server` and :class:`Client` are receivers of a byte
stream: they are given bytes and a function that sends some, so they work on a trunk's connection as on a link
of their own (both of :mod:`nri.multiplex`). Unary calls only, which is all that NRI has; a streaming call is refused.
"""

from nri.ttrpc.client import Client
from nri.ttrpc.codec import MAX_DATA, Message, MessageDecoder, Oversized
from nri.ttrpc.server import Call, Server
from nri.ttrpc.status import Code, DeadlineError, StatusError

__all__ = [
    "MAX_DATA",
    "Call",
    "Client",
    "Code",
    "DeadlineError",
    "Message",
    "MessageDecoder",
    "Oversized",
    "Server",
    "StatusError",
]
