"""A v2 runtime that a test drives step by step: the other end of a plugin's connection."""

import socket
import threading
from collections.abc import Callable
from typing import Any

from nri.v2 import api
from nri.v2.api import events
from nri.v2.api.events import PLUGIN, RUNTIME
from nri.v2.frames import PLUGIN_SERVICE, RUNTIME_SERVICE
from nri.v2.mux import Mux
from nri.v2.ttrpc import RPCClient, RPCServer
from nri.v2.ttrpc.server import unary
from tests.support.waiting import SOON

NEW: dict[str, Any] = {
    "NRI_version": "v0.12.2",
    "registration_timeout": 5000,
    "request_timeout": 2500,
}
"""Fields that a runtime with NRI 0.12 adds to its ConfigureRequest."""


class Runtime:
    """One connection to a plugin."""

    def __init__(
        self, sock: socket.socket, *, refuse: Callable[[], Exception] | None = None
    ) -> None:
        self.registered = threading.Event()
        self.registration = api.RegisterPluginRequest()
        self.updates: list[api.ContainerUpdate] = []
        self._refuse = refuse
        self.sock = sock
        self.mux = Mux(sock)
        self.client = RPCClient(self.mux.open(PLUGIN_SERVICE))
        register = unary(api.RegisterPluginRequest, self._register)
        update = unary(api.UpdateContainersRequest, self._update)
        handlers = {(RUNTIME, "RegisterPlugin"): register, (RUNTIME, "UpdateContainers"): update}
        RPCServer(self.mux.open(RUNTIME_SERVICE), handlers)
        self._thread = threading.Thread(target=self.mux.run, name="runtime")
        self._thread.start()

    def configure(self, config: str = "", **rest: Any) -> int:
        """Wait until the plugin has registered, and configure it; returns the mask of its events."""
        assert self.registered.wait(SOON), "the plugin did not register"
        request = api.ConfigureRequest(
            config=config, runtime_name="fake", runtime_version="1.2", **rest
        )
        response: api.ConfigureResponse = self.call("Configure", request, api.ConfigureResponse)
        return response.events

    def synchronize(
        self, pods: Any = (), containers: Any = (), *, more: bool = False
    ) -> api.SynchronizeResponse:
        request = api.SynchronizeRequest(pods=pods, containers=containers, more=more)
        response: api.SynchronizeResponse = self.call(
            "Synchronize", request, api.SynchronizeResponse
        )
        return response

    def start(self, **rest: Any) -> int:
        """The whole handshake."""
        mask = self.configure(**rest)
        self.synchronize()
        return mask

    def event(self, event: int, request: Any = None, timeout: float = SOON) -> Any:
        """Send an event by its own call, as from NRI 0.12 on."""
        method = events.BY_EVENT[event]
        return self.call(method.rpc, request or method.request(), method.response, timeout=timeout)

    def state_change(self, event: Any, **parts: Any) -> api.Empty:
        """Send an event as up to NRI 0.11."""
        response: api.Empty = self.call(
            "StateChange", api.StateChangeEvent(event=event, **parts), api.Empty
        )
        return response

    def call(self, method: str, request: Any, response: Any, timeout: float = SOON) -> Any:
        return self.client.call(PLUGIN, method, request, response, timeout=timeout)

    def is_closed(self) -> bool:
        return self.mux.reason is not None

    def close(self) -> None:
        self.mux.close("the runtime ends")
        self._thread.join(SOON)
        assert not self._thread.is_alive()

    def _register(self, request: api.RegisterPluginRequest, call: Any) -> api.Empty:
        if self._refuse is not None:
            raise self._refuse()
        self.registration = request
        self.registered.set()
        return api.Empty()

    def _update(
        self, request: api.UpdateContainersRequest, call: Any
    ) -> api.UpdateContainersResponse:
        self.updates += request.update
        return api.UpdateContainersResponse(
            failed=[u for u in request.update if u.container_id == "gone"]
        )
