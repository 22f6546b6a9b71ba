"""One connection of a plugin to a runtime, from registration until either end closes it."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Collection, Iterable, Sequence

from google.protobuf.message import Message

from nri.errors import NRIError, escape
from nri.v2 import api
from nri.v2.api import events
from nri.v2.api.events import PLUGIN, RUNTIME
from nri.v2.api.runtimes import MAX_REQUEST
from nri.v2.frames import OLD_MAX_PAYLOAD, PLUGIN_SERVICE, RUNTIME_SERVICE
from nri.v2.mux import ClosedError, Mux
from nri.v2.stub.plugin import EventHandler, Identity, RuntimeInfo, V2Plugin, handlers
from nri.v2.ttrpc import Call, Code, RPCClient, RPCServer, StatusError
from nri.v2.ttrpc.server import MethodHandler, unary

NRI_VERSION = "v0.12.2"
"""The NRI release that ``nri.v2.api`` follows."""

REGISTRATION_TIMEOUT = 5.0
"""Seconds that a runtime has to register the plugin, and then to configure it, as in Go's stub."""

ANSWER_EARLY = 0.05
"""Seconds before a request's deadline at which it is answered for a handler that has not finished."""

_NO_EVENTS = frozenset({"Configure", "Synchronize", "Shutdown"})

log = logging.getLogger("nri.v2.stub")


class Session:
    """Serves one connected socket, which it owns.

    :ivar registration_timeout: seconds that the runtime has to register the plugin, and then to configure it.
    :ivar runtime: the runtime's description of itself; None until it has configured the plugin.
    :ivar synchronized: True when the plugin has received all existing pods and containers. containerd up to 1.7 does
        not synchronize a plugin that it launched.
    """

    def __init__(self, plugin: V2Plugin, identity: Identity, sock: socket.socket) -> None:
        self._plugin = plugin
        self._identity = identity
        self._handlers = handlers(plugin)
        self.registration_timeout = REGISTRATION_TIMEOUT
        self.mux = Mux(sock, max_payload=OLD_MAX_PAYLOAD, idle=plugin.idle)
        self._client = RPCClient(self.mux.open(RUNTIME_SERVICE))
        self._server = RPCServer(
            self.mux.open(PLUGIN_SERVICE),
            self._methods(),
            early=ANSWER_EARLY,
            max_request=MAX_REQUEST,
            has_late=plugin.late_events,
            answered=self._answered,
        )
        self._pods: list[api.PodSandbox] = []
        self._containers: list[api.Container] = []
        self._registration_over = threading.Event()  # also when it failed
        self.synchronized = False
        self.runtime: RuntimeInfo | None = None

    def run(self) -> ClosedError:
        """Register, and serve until the connection is closed; returns the reason."""
        registering = threading.Thread(
            target=self._register, name=f"register-{self._identity}", daemon=True
        )
        try:
            registering.start()
        except RuntimeError as error:  # the limit of threads is reached
            self.close(f"a thread cannot be started: {error}")
        try:
            return self.mux.run()
        finally:
            self._registration_over.set()
            if registering.ident is not None:
                registering.join()
            self._plugin.disconnected()

    def close(self, reason: str, *, grace: float = 0.0) -> None:
        """Close the connection, so that ``run`` returns when the handler that is at work has ended.

        :param grace: seconds to wait for its answer before that.
        """
        if grace > 0:
            self._server.wait_until_answered(grace)
        self.mux.close(reason)

    def update_containers(
        self, updates: Sequence[api.ContainerUpdate], *, timeout: float | None = None
    ) -> list[api.ContainerUpdate]:
        """Ask the runtime to update containers, at any time after synchronization; returns the updates that failed.

        :raises NRIError: when the runtime refuses, or the connection is closed.
        """
        request = api.UpdateContainersRequest(update=updates)
        response = api.UpdateContainersResponse
        return list(
            self._client.call(
                RUNTIME, "UpdateContainers", request, response, timeout=timeout
            ).failed
        )

    def _register(self) -> None:
        name = self._identity.name
        index = self._identity.index
        request = api.RegisterPluginRequest(
            plugin_name=name, plugin_idx=index, NRI_version=NRI_VERSION
        )
        try:
            self._client.call(
                RUNTIME, "RegisterPlugin", request, api.Empty, timeout=self.registration_timeout
            )
        except NRIError as error:
            self.close(f"the runtime did not register {self._identity}: {error}")
            return
        if not self._registration_over.wait(self.registration_timeout):
            self.close(f"the runtime registered {self._identity}, but did not configure it")

    def _methods(self) -> dict[tuple[str, str], MethodHandler]:
        by_name = {
            "Configure": unary(api.ConfigureRequest, self._configure),
            "Synchronize": unary(api.SynchronizeRequest, self._synchronize),
            "Shutdown": unary(api.Empty, self._shutdown),
            "StateChange": unary(api.StateChangeEvent, self._state_change),
        }
        for event, handler in self._handlers.items():
            method = events.BY_EVENT[event]
            by_name[method.rpc] = unary(method.request, _checked(method, handler))
        return {(PLUGIN, name): handle for name, handle in by_name.items()}

    def _configure(self, request: api.ConfigureRequest, call: Call) -> api.ConfigureResponse:
        try:
            return self._configured(request)
        except NRIError as error:
            # The runtime only closes the connection.
            log.error("the plugin can't be configured: %s", error)
            raise

    def _configured(self, request: api.ConfigureRequest) -> api.ConfigureResponse:
        runtime = RuntimeInfo(
            name=request.runtime_name,
            version=request.runtime_version,
            nri_version=request.NRI_version,
            registration_timeout=request.registration_timeout / 1000,
            request_timeout=request.request_timeout / 1000,
        )
        answer = self._plugin.configure(request.config, runtime)
        wanted = events.mask(_chosen_events(answer, self._handlers))
        mask = wanted & runtime.knows
        optional = events.mask(self._plugin.optional_events)
        missing = ", ".join(events.names(wanted & ~mask & ~optional))
        if missing:
            log.warning("%s %s can't deliver %s", runtime.name, runtime.version, missing)
        if mask == 0:  # this would mean all events
            fault = "the runtime knows none of the events that the plugin wants"
            raise StatusError(Code.FAILED_PRECONDITION, fault)
        self.runtime = runtime
        self._registration_over.set()  # containerd 1.7 does not synchronize a plugin that it launched
        return api.ConfigureResponse(events=mask)

    def _synchronize(self, request: api.SynchronizeRequest, call: Call) -> api.SynchronizeResponse:
        self._pods += request.pods
        self._containers += request.containers
        if request.more:
            return api.SynchronizeResponse(more=True)
        pods = self._pods
        containers = self._containers
        self._pods = []
        self._containers = []
        response = api.SynchronizeResponse(update=self._plugin.synchronize(pods, containers) or [])
        self.synchronized = True
        return response

    def _answered(self, call: Call) -> None:
        if call.event not in _NO_EVENTS:
            self._plugin.answered(call)

    def _shutdown(self, request: api.Empty, call: Call) -> api.Empty:
        self._plugin.shutdown()
        return api.Empty()

    def _state_change(self, change: api.StateChangeEvent, call: Call) -> api.Empty:
        handler = self._handlers.get(change.event)
        if handler is None or not events.BY_EVENT[change.event].state_change:
            log.info(
                "ignored a StateChange with event %d, which the plugin does not handle",
                change.event,
            )
            return api.Empty()
        method = events.BY_EVENT[change.event]
        request = method.request()
        for part, value in change.ListFields():
            if part.name in request.DESCRIPTOR.fields_by_name:
                getattr(request, part.name).CopyFrom(value)
        _checked(method, handler)(request, call)
        return api.Empty()


def _checked(
    method: events.EventMethod, handler: EventHandler
) -> Callable[[Message, Call], Message]:
    """Return ``handler`` with its result checked, and None replaced by an empty response."""

    def answer(request: Message, call: Call) -> Message:
        call.event = method.rpc
        response = handler(request, call)
        if response is None:
            return method.response()
        if isinstance(response, method.response):
            return response
        fault = (
            f"{method.rpc} returned a {type(response).__name__}, expected "
            f"{method.response.__name__} or None"
        )
        raise StatusError(Code.INTERNAL, fault)

    return answer


def _chosen_events(answer: object, handled: Collection[int]) -> frozenset[int]:
    """Return the events that ``configure`` has answered with; all of ``handled`` for None and for an empty answer.

    :param answer: names such as ``"CreateContainer"`` and numbers such as ``api.Event.CREATE_CONTAINER``.
    :raises NRIError: for something else, a name or number that is no event's, or an event that has no handler.
    """
    if answer is None:
        return frozenset(handled)
    if isinstance(answer, str | bytes) or not isinstance(answer, Iterable):
        shown = escape(f"{answer!r:.80}")
        raise NRIError(
            f"configure returned {shown}, expected a collection of events such as "
            "['CreateContainer']"
        )
    try:
        chosen = frozenset([int(events.find(event).event) for event in answer])
    except ValueError as error:
        raise NRIError(f"configure chose an event: {escape(str(error))}") from error
    unhandled = events.names(events.mask(chosen.difference(handled)))
    if unhandled:
        names = ", ".join(events.names(events.mask(handled)))
        raise NRIError(
            f"configure chose {', '.join(unhandled)}, but the plugin handles only {names}"
        )
    return chosen or frozenset(handled)
