"""Build an NRI v2 plugin: connect, register, be configured and synchronized, handle events.

    from nri.v2 import stub

    class Logger(stub.V2Plugin):
        def run_pod_sandbox(self, request, call):
            print(request.pod.namespace, request.pod.name)

    stub.run(Logger(), name="logger", index="10")

A plugin is subscribed to the events for which it defines handlers, or to those that its ``configure`` returns.
``run`` serves the runtime that launched the plugin, or a connection that it is given; otherwise it connects to a
runtime, and connects again whenever the connection ends. ``Session`` is one connection. The stub logs to the
logger ``nri.v2.stub``.
"""

from nri.places import DEFAULT_SOCKET
from nri.v2.stub.plugin import Identity, IdentityError, RuntimeInfo, V2Plugin
from nri.v2.stub.runner import Runner, run
from nri.v2.stub.session import NRI_VERSION, Session
from nri.v2.ttrpc import Call

__all__ = [
    "DEFAULT_SOCKET",
    "NRI_VERSION",
    "Call",
    "Identity",
    "IdentityError",
    "Runner",
    "RuntimeInfo",
    "Session",
    "V2Plugin",
    "run",
]
