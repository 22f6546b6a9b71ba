"""What an NRI v2 plugin is made with: connect, register, be configured and synchronized, handle events.

    from nri import stub

    class Logger(stub.Plugin):
        def run_pod_sandbox(self, request, call):
            print(request.pod.namespace, request.pod.name)

    stub.run(Logger(), name="logger", index="10")

A plugin is subscribed to the events whose handlers it defines. :func:`run` serves the runtime that launched it, or
connects to one and does so again for as long as it lives; :class:`Session` is one connection, for those who need it.
"""

from nri.places import DEFAULT_SOCKET
from nri.stub.identity import Identity, IdentityError
from nri.stub.plugin import Plugin, Runtime
from nri.stub.runner import Runner, run
from nri.stub.session import Session

__all__ = ["DEFAULT_SOCKET", "Identity", "IdentityError", "Plugin", "Runner", "Runtime", "Session", "run"]
