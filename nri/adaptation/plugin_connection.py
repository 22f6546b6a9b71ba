"""One connected plugin, as the runtime sees it: who it is, what it wants, and how it is called.

How a call ends, and what is done about it, is the real runtime's way:

| what happens | what is done |
| --- | --- |
| it answers | the answer is handed out |
| it answers with an error | :class:`EventError`; it stays connected |
| it does not answer in time | the connection is closed; None, as if it had not been asked |
| its connection is, or gets, closed | None |
| from NRI 0.12: it does not implement an event's call | it is sent a ``StateChange``, where the event had that |

Source: pkg/adaptation/plugin.go of containerd/nri.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from nri import api
from nri.adaptation.errors import AdaptationError, EventError
from nri.adaptation.sync import MAX_PART, parts
from nri.api import events
from nri.api.events import PLUGIN, RUNTIME
from nri.api.runtimes import CUTS_SYNCHRONIZE, MAX_REQUEST
from nri.errors import NRIError, escape
from nri.multiplex import OLD_MAX_PAYLOAD, PLUGIN_SERVICE, RUNTIME_SERVICE, Mux
from nri.ttrpc import Call, Client, Code, DeadlineError, Server, StatusError
from nri.ttrpc.server import unary

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable

    from google.protobuf.message import Message

    from nri.adaptation.launched import LaunchedPlugin


_NAME = re.compile(r"[A-Za-z0-9_.+-]+")
_INDEX = re.compile(r"[0-9]{2}")
Answer = TypeVar("Answer", bound="Message")
log = logging.getLogger("nri.adaptation")


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One call of a plugin, and how it ended.

    ``event`` is the name of the method, also where a ``StateChange`` carried it. Of ``response`` and ``error`` one is
    None. ``cut_off`` says that the error made the runtime close the connection.
    """

    event: str
    plugin: str
    request: Message
    response: Message | None = None
    error: NRIError | None = None
    cut_off: bool = False
    seconds: float


@dataclass(frozen=True, kw_only=True)
class RuntimeOptions:
    """What the runtime says of itself, and the times that it gives, in seconds."""

    name: str
    version: str
    nri_version: events.Version
    rpc: bool
    """Whether every event has a call of its own, or (up to NRI 0.11) most come as StateChange."""
    request_timeout: float
    registration_timeout: float
    on_exchange: Callable[[Exchange], None] = field(default=lambda exchange: None)

    def configure(self, config: str) -> api.ConfigureRequest:
        """The request that configures a plugin."""
        request = api.ConfigureRequest(config=config, runtime_name=self.name, runtime_version=self.version)
        if self.nri_version >= (0, 7):
            request.registration_timeout = int(self.registration_timeout * 1000)
            request.request_timeout = int(self.request_timeout * 1000)
        if self.nri_version >= (0, 12):
            request.NRI_version = "v{}.{}.0".format(*self.nri_version)
        return request


class PluginConnection:
    """A plugin at the other end of a connected socket, which it owns.

    :param process: the plugin's, when the runtime has launched it; it is ended with the connection.
    :param on_update: called when the plugin wants containers updated; returns those updates that failed.
    """

    def __init__(
        self,
        sock: socket.socket,
        terms: RuntimeOptions,
        *,
        index: str = "",
        name: str = "",
        config: str = "",
        process: LaunchedPlugin | None = None,
        on_update: Callable[[PluginConnection, api.UpdateContainersRequest], list[api.ContainerUpdate]],
    ) -> None:
        self.index, self.base = index, name
        self.process = process
        self._terms = terms
        self._config = config
        self._launched = bool(name)
        self._on_update = on_update
        self._mask = 0
        self._registered = threading.Event()
        self._refusal = ""
        self._cuts = terms.nri_version >= CUTS_SYNCHRONIZE
        self._trunk = Mux(sock, max_payload=None if self._cuts else OLD_MAX_PAYLOAD)
        self._client = Client(wait=self._trunk.wait, max_request=None if self._cuts else MAX_REQUEST)
        self._client.send = self._trunk.open(PLUGIN_SERVICE, self._client)
        methods = {
            (RUNTIME, "RegisterPlugin"): unary(api.RegisterPluginRequest, self._register),
            (RUNTIME, "UpdateContainers"): unary(api.UpdateContainersRequest, self._update_containers),
        }
        self._server = Server(methods)
        self._server.send = self._trunk.open(RUNTIME_SERVICE, self._server)
        self._thread = threading.Thread(target=self._run, name=f"nri-peer-{self.name}", daemon=True)

    @property
    def name(self) -> str:
        """As in ``10-logger``."""
        return f"{self.index or '??'}-{self.base or 'plugin'}"

    @property
    def closed(self) -> bool:
        """Whether the connection is."""
        return self._trunk.reason is not None

    def wants(self, event: int) -> bool:
        """Whether the plugin is subscribed to this event."""
        return bool(self._mask & 1 << (event - 1))

    def start(self) -> None:
        """Wait until it has registered, and configure it.

        :raises AdaptationError: when it does not register in time, refuses its configuration or wants the impossible.
        """
        self._thread.start()
        if not self._registered.wait(self._terms.registration_timeout):
            raise self._lost(f"did not register within {self._terms.registration_timeout:g} s")
        if self._refusal:
            self._thread.join(0.1)  # it shall read the answer
            raise self._lost(f"did not register: {self._refusal}")
        if self._trunk.reason is not None:
            raise self._lost(f"did not register: {self._trunk.reason}")
        try:
            response = self._call("Configure", self._terms.configure(self._config), api.ConfigureResponse)
        except NRIError as error:
            raise self._lost(f"could not be configured: {error}") from error
        valid = events.valid(self._terms.nri_version)
        if extra := response.events & ~valid:
            version = "{}.{}".format(*self._terms.nri_version)
            raise self._lost(f"wants events that NRI {version} does not have: {extra & 0xFFFFFFFF:#x}")
        self._mask = response.events or valid

    def synchronize(
        self, pods: Iterable[api.PodSandbox], containers: Iterable[api.Container]
    ) -> list[api.ContainerUpdate]:
        """Tell it what there is; returns the updates that it asks for.

        :raises AdaptationError: when that fails; the connection is closed then.
        """
        deadline = time.monotonic() + self._terms.request_timeout  # for all parts together
        for part in parts(pods, containers, MAX_PART if self._cuts else MAX_REQUEST):
            try:
                left = max(0.001, deadline - time.monotonic())
                response = self._call("Synchronize", part, api.SynchronizeResponse, timeout=left)
            except NRIError as error:
                raise self._lost(f"could not be synchronized: {error}") from error
            if part.more and (response.update or not response.more):
                raise self._lost("does not handle a Synchronize in several parts")
        return list(response.update)

    def send(self, how: events.Call, request: Message) -> Message | None:
        """Tell it of an event; None when it is, or has now been, disconnected.

        :raises EventError: when it answers with an error.
        """
        if self.closed:
            return None
        try:
            if not how.state_change:
                return self._call(how.rpc, request, how.response)
            if self._terms.rpc:
                try:
                    return self._call(how.rpc, request, how.response, quiet=Code.UNIMPLEMENTED)
                except StatusError as error:
                    if error.code != Code.UNIMPLEMENTED:
                        raise
            change = api.StateChangeEvent(event=how.event)
            for part, value in request.ListFields():
                getattr(change, part.name).CopyFrom(value)
            self._call("StateChange", change, api.Empty, event=how.rpc)
            return how.response()
        except _LostError:
            return None
        except StatusError as error:
            raise EventError(how.rpc, self.name, escape(error.message)) from error

    def close(self, reason: str) -> None:
        """Close the connection; a process that we launched is ended in the background: see :meth:`join`."""
        self._trunk.close(reason)

    def join(self) -> None:
        """Wait until the connection is closed and everything that belonged to it is gone."""
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            reason = self._trunk.run()
            log.info("connection to plugin %s closed: %s", self.name, reason)
            self._registered.set()
        finally:
            if self.process is not None:
                self.process.end()

    def _register(self, request: api.RegisterPluginRequest, call: Call) -> api.Empty:
        if self._registered.is_set():
            raise StatusError(Code.FAILED_PRECONDITION, f"{self.name} is registered")
        if not self._launched:  # one that we launched is called what we called it
            if not _NAME.fullmatch(request.plugin_name):
                self._refusal = f"found the name {request.plugin_name!r}, expected letters, digits and _ . + -"
            elif not _INDEX.fullmatch(request.plugin_idx):
                self._refusal = f"found the index {request.plugin_idx!r}, expected two digits, as in 10"
            else:
                self.base, self.index = request.plugin_name, request.plugin_idx
        self._registered.set()
        if self._refusal:
            raise StatusError(Code.INVALID_ARGUMENT, self._refusal)
        return api.Empty()

    def _update_containers(self, request: api.UpdateContainersRequest, call: Call) -> api.UpdateContainersResponse:
        return api.UpdateContainersResponse(failed=self._on_update(self, request))

    def _call(
        self,
        method: str,
        request: Message,
        response: type[Answer],
        *,
        event: str = "",
        timeout: float | None = None,
        quiet: int | None = None,
    ) -> Answer:
        """Make a call, and tell of it, unless it ends with the status ``quiet``.

        :raises StatusError: when the plugin answers with an error.
        :raises _LostError: when the plugin does not answer in time, or is gone.
        """
        started = time.monotonic()
        timeout = timeout or self._terms.request_timeout
        answer: Answer | None = None
        failure: NRIError | None = None
        try:
            answer = self._client.call(PLUGIN, method, request, response, timeout=timeout)
        except StatusError as error:
            failure = error
            if error.code == quiet:
                raise
        except NRIError as error:
            failure = error
        seconds = time.monotonic() - started
        answered = failure is None or (isinstance(failure, StatusError) and not isinstance(failure, DeadlineError))
        if self.process is not None:
            self.process.drain()  # what it printed comes before its answer
        self._terms.on_exchange(
            Exchange(
                event=event or method,
                plugin=self.name,
                request=request,
                response=answer,
                error=failure,
                cut_off=not answered,
                seconds=seconds,
            )
        )
        if not answered:
            log.error("closing plugin %s: %s", self.name, failure)
            self.close(str(failure))
            raise _LostError(str(failure)) from failure
        if failure is not None:
            raise failure
        assert answer is not None  # noqa: S101 - there is one or the other
        return answer

    def _lost(self, why: str) -> AdaptationError:
        self.close(why)
        return AdaptationError(f"plugin {self.name} {why}")


class _LostError(NRIError):
    """The connection is closed, by either end."""
