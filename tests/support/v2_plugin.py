"""A v2 plugin made by hand: a test gives its answers, and it uses nothing of nri.v2.stub."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any, Self

from nri.adaptation import Runtime
from nri.v2 import api
from nri.v2.api import events
from nri.v2.api.events import PLUGIN, RUNTIME
from nri.v2.frames import PLUGIN_SERVICE, RUNTIME_SERVICE
from nri.v2.mux import Mux
from nri.v2.ttrpc import Call, RPCClient, RPCServer
from nri.v2.ttrpc.server import unary
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.message import Message

ALL = tuple(
    int(method.event) for method in events.METHODS if method.rpc != "ValidateContainerAdjustment"
)


class Deadlineless(RPCServer):
    """A server that leaves deadlines to its client."""

    def due(self) -> float:
        return float("inf")


class Plugin:
    """A plugin at the other end of ``sock``.

    :param answers: the answer by method: a message, or a function of the request. Other methods than these and the
        handshake's are not implemented.
    :ivar asked: the methods and requests that came, in order.
    """

    def __init__(
        self,
        index: str = "10",
        name: str = "test",
        *,
        wants: tuple[int, ...] = ALL,
        sock: socket.socket | None = None,
        **answers: Message | Callable[[Any], Message],
    ) -> None:
        self.index, self.name = index, name
        self.asked: list[tuple[str, Any]] = []
        self.ours: socket.socket | None = None
        if sock is None:
            self.ours, sock = socket.socketpair()
        self._mux = Mux(sock)
        self.runtime = RPCClient(self._mux.open(RUNTIME_SERVICE))
        self._configured = api.ConfigureResponse(events=events.mask(wants))
        handshake = {
            "Configure": self._configured,
            "Synchronize": lambda part: api.SynchronizeResponse(more=part.more),
        }
        methods = {**handshake, **answers}
        handlers = {
            (PLUGIN, method): self._answering(method, methods[method]) for method in methods
        }
        Deadlineless(self._mux.open(PLUGIN_SERVICE), handlers)
        self._thread = threading.Thread(
            target=self._mux.run, name=f"plugin-{index}-{name}", daemon=True
        )

    @property
    def events(self) -> list[str]:
        """The methods that came after the handshake."""
        return [method for method, _ in self.asked if method not in ("Configure", "Synchronize")]

    def requests(self, method: str) -> list[Any]:
        return [request for asked, request in self.asked if asked == method]

    def start(self) -> Self:
        self._thread.start()
        return self

    def register(self, timeout: float = 5) -> None:
        request = api.RegisterPluginRequest(plugin_name=self.name, plugin_idx=self.index)
        self.runtime.call(RUNTIME, "RegisterPlugin", request, api.Empty, timeout=timeout)

    def connect(self, runtime: Runtime) -> Self:
        """Register at an embedded runtime; returns when it is synchronized."""
        self.start()
        assert self.ours is not None
        registering = threading.Thread(target=self.register)
        registering.start()
        try:
            runtime.attach(self.ours)
        finally:
            registering.join()
        return self

    def update(
        self, *updates: api.ContainerUpdate, timeout: float = 5
    ) -> list[api.ContainerUpdate]:
        request = api.UpdateContainersRequest(update=updates)
        answer = self.runtime.call(
            RUNTIME, "UpdateContainers", request, api.UpdateContainersResponse, timeout=timeout
        )
        return list(answer.failed)

    def hang_up(self) -> None:
        self._mux.close("the plugin hangs up")

    def gone(self, timeout: float = 5) -> bool:
        """Wait until the connection is closed."""
        return wait_until(lambda: self._mux.reason is not None, timeout)

    def _answering(self, method: str, answer: Any) -> Callable[[bytes, Call], bytes]:
        requests: dict[str, type[Message]] = {
            "Configure": api.ConfigureRequest,
            "Synchronize": api.SynchronizeRequest,
            "StateChange": api.StateChangeEvent,
            **{method.rpc: method.request for method in events.METHODS},
        }

        def handle(request: Message, call: Call) -> Message:
            self.asked.append((method, request))
            result: Message = answer(request) if callable(answer) else answer
            return result

        return unary(requests[method], handle)


def pod(id_: str = "pod", **fields: Any) -> api.PodSandbox:
    return api.PodSandbox(id=id_, name=fields.pop("name", id_), **fields)


def container(id_: str = "app", **fields: Any) -> api.Container:
    return api.Container(id=id_, name=fields.pop("name", id_), pod_sandbox_id="pod", **fields)


def quota(value: int) -> dict[str, Any]:
    """An adjustment that sets the CPU quota."""
    return {"linux": {"resources": {"cpu": {"quota": {"value": value}}}}}


def adjusts(**adjustment: Any) -> api.CreateContainerResponse:
    return api.CreateContainerResponse(adjust=adjustment)


def updates(**by_id: int) -> list[api.ContainerUpdate]:
    return [api.ContainerUpdate(container_id=id_, **quota(value)) for id_, value in by_id.items()]
