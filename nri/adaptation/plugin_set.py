"""The plugins of a runtime, launched or attached, and the admission of each.

A plugin is admitted when it has registered, is configured and is synchronized. It gets events from then on, until its
connection is closed.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Self, TypeVar

from google.protobuf.message import Message

from nri.adaptation.errors import AdaptationError, EventError
from nri.adaptation.launched import LaunchedPlugin, configuration, discover
from nri.adaptation.runtime_options import Exchange, RuntimeOptions
from nri.adaptation.store import MAX_PART, Store, parts
from nri.errors import NRIError, escape
from nri.v2 import api
from nri.v2.api import events, names
from nri.v2.api.events import PLUGIN, RUNTIME
from nri.v2.api.runtimes import MAX_REQUEST, SPLITS_SYNCHRONIZE
from nri.v2.frames import OLD_MAX_PAYLOAD, PLUGIN_SERVICE, RUNTIME_SERVICE
from nri.v2.mux import Mux
from nri.v2.ttrpc import Call, Code, RPCClient, RPCServer, StatusError
from nri.v2.ttrpc.server import unary

log = logging.getLogger("nri.adaptation")


class PluginSet:
    """Launches, admits and closes plugins: what a :class:`nri.adaptation.Runtime` does apart from events.

    :ivar store: the pods and containers that exist.
    """

    def __init__(self, options: RuntimeOptions) -> None:
        self.store = Store()
        self._lock = threading.RLock()  # held during an admission, an update and an event
        self._admitted: list[PluginConnection] = []  # in the order of their indices; change it with the lock held
        self._all: list[PluginConnection] = []  # also those that are closed, or not yet admitted
        self._options = options
        self._closed = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def plugins(self) -> list[str]:
        """The names of the connected plugins, in the order in which they are asked."""
        return [plugin.name for plugin in self._admitted if not plugin.closed]

    def start(self) -> None:
        """Launch the plugins. One that does not start is left out: see ``on_exchange``.

        :raises AdaptationError: when a directory can't be read, or a plugin's name is wrong.
        """
        try:
            executables = [*discover(self._options.plugin_dir), *self._options.plugins]
            configs = [configuration(self._options.config_dir, index, name) for index, name, _ in executables]
            for (index, name, path), config in zip(executables, configs, strict=True):
                self._launch(index, name, path, config)
        except BaseException:
            self.close()
            raise

    def attach(self, sock: socket.socket) -> str:
        """Connect a plugin over ``sock``, which the runtime takes over; returns its name once it is synchronized.

        :raises AdaptationError: when it can't be registered, configured or synchronized.
        """
        plugin = PluginConnection(sock, self._options, on_update=self._update)
        self._admit(plugin)
        return plugin.name

    def close(self) -> None:
        """Close all connections, end the launched processes, and wait until all are gone."""
        self._closed = True
        while plugins := list(self._all):  # more may come meanwhile
            for plugin in plugins:
                plugin.close("the runtime is going down")
            for plugin in plugins:
                self._wait_for_end(plugin)
        self._admitted = []

    def _launch(self, index: str, name: str, path: str, config: str) -> None:
        full_name, output = f"{index}-{name}", self._options.on_output
        started = time.monotonic()
        try:
            on_line = None if output is None else lambda line: output(full_name, line)
            process = LaunchedPlugin(path, index=index, name=name, on_line=on_line)
            self._admit(PluginConnection(process.sock, self._options, config, process, on_update=self._update))
        except AdaptationError as error:
            log.error("%s", error)
            request, seconds = api.RegisterPluginRequest(), time.monotonic() - started
            self._options.on_exchange(
                Exchange(event="RegisterPlugin", plugin=full_name, request=request, error=error, seconds=seconds)
            )

    def _admit(self, plugin: PluginConnection) -> None:
        self._all.append(plugin)
        try:
            plugin.start()
            with self._lock:
                if self._closed:
                    raise AdaptationError(f"plugin {plugin.name} connected while the runtime was closing")
                self.store.update(plugin.synchronize(self.store.pods.values(), self.store.containers.values()))
                self._admitted = sorted([*self._admitted, plugin], key=lambda member: member.index)
        except AdaptationError as error:
            plugin.close(str(error))
            self._wait_for_end(plugin)
            raise

    def _wait_for_end(self, plugin: PluginConnection) -> None:
        plugin.join()
        with contextlib.suppress(ValueError):  # another thread was faster
            self._all.remove(plugin)

    def _update(self, request: api.UpdateContainersRequest) -> list[api.ContainerUpdate]:
        with self._lock:
            return self.store.update(request.update)


# One connected plugin, as the runtime sees it: its identity, its subscriptions, and its calls.
#
# A call of a plugin ends as with a real runtime:
#
# | the plugin | result of the call |
# | --- | --- |
# | answers | the answer |
# | answers with an error | :class:`EventError`; it stays connected |
# | does not answer in time | None, as if it had not been asked; the connection is closed |
# | is disconnected before or during the call | None |
# | from NRI 0.12: does not implement an event's method | it gets a ``StateChange``, where the event had that |
#
# Source: pkg/adaptation/plugin.go of containerd/nri.

Answer = TypeVar("Answer", bound="Message")
log = logging.getLogger("nri.adaptation")


class PluginConnection:
    """A plugin at the other end of a connected socket, which it owns.

    :param process: the plugin's process when the runtime has launched it; it is ended with the connection.
    :param on_update: called when the plugin asks for updates of containers; returns the updates that failed.
    """

    def __init__(
        self,
        sock: socket.socket,
        options: RuntimeOptions,
        config: str = "",
        process: LaunchedPlugin | None = None,
        *,
        on_update: Callable[[api.UpdateContainersRequest], list[api.ContainerUpdate]],
    ) -> None:
        self.index, self.base = (process.index, process.name) if process is not None else ("", "")
        self.process = process
        self._options, self._config, self._on_update = options, config, on_update
        self._mask, self._refusal = 0, ""
        self._registered = threading.Event()
        self._splits = options.nri_version >= SPLITS_SYNCHRONIZE
        self._mux = Mux(sock, max_payload=None if self._splits else OLD_MAX_PAYLOAD)
        self._client = RPCClient(self._mux.open(PLUGIN_SERVICE), max_request=None if self._splits else MAX_REQUEST)
        methods = {
            (RUNTIME, "RegisterPlugin"): unary(api.RegisterPluginRequest, self._register),
            (RUNTIME, "UpdateContainers"): unary(api.UpdateContainersRequest, self._update_containers),
        }
        RPCServer(self._mux.open(RUNTIME_SERVICE), methods)
        self._thread = threading.Thread(target=self._run, name=f"nri-plugin-{self.name}", daemon=True)
        self._thread.start()

    @property
    def name(self) -> str:
        """The plugin's index and name, as in ``10-logger``."""
        return f"{self.index or '??'}-{self.base or 'plugin'}"

    @property
    def closed(self) -> bool:
        """True when the connection is closed."""
        return self._mux.reason is not None

    def wants(self, event: int) -> bool:
        """Return whether the plugin is subscribed to ``event``."""
        return bool(self._mask & 1 << (event - 1))

    def start(self) -> None:
        """Wait until the plugin has registered, and configure it.

        :raises AdaptationError: when it does not register in time, refuses its configuration, or subscribes to an
            event that the runtime does not have.
        """
        if not self._registered.wait(self._options.registration_timeout):
            raise self._lost(f"did not register within {self._options.registration_timeout:g} s")
        if self._refusal:
            self._thread.join(0.1)  # time for the plugin to read the answer
            raise self._lost(f"did not register: {self._refusal}")
        if self._mux.reason is not None:
            raise self._lost(f"did not register: {self._mux.reason}")
        try:
            response = self._call("Configure", self._options.configure(self._config), api.ConfigureResponse)
        except NRIError as error:
            raise self._lost(f"could not be configured: {error}") from error
        valid = events.valid(self._options.nri_version)
        if extra := response.events & ~valid:
            version = "{}.{}".format(*self._options.nri_version)
            raise self._lost(f"wants events that NRI {version} does not have: {extra & 0xFFFFFFFF:#x}")
        self._mask = response.events or valid

    def synchronize(
        self, pods: Iterable[api.PodSandbox], containers: Iterable[api.Container]
    ) -> list[api.ContainerUpdate]:
        """Send the plugin all pods and containers; returns the updates that it asks for.

        :raises AdaptationError: when that fails; the connection is closed then.
        """
        deadline = time.monotonic() + self._options.request_timeout  # for all parts together
        for part in parts(pods, containers, MAX_PART if self._splits else MAX_REQUEST):
            try:
                left = max(0.001, deadline - time.monotonic())
                response = self._call("Synchronize", part, api.SynchronizeResponse, timeout=left)
            except NRIError as error:
                raise self._lost(f"could not be synchronized: {error}") from error
            if part.more and (response.update or not response.more):
                raise self._lost("does not handle a Synchronize in several parts")
        return list(response.update)

    def send(self, method: events.EventMethod, request: Message) -> Message | None:
        """Send the plugin an event; returns None when the connection is closed, or closes.

        :raises EventError: when the plugin answers with an error.
        """
        if self.closed:
            return None
        try:
            if not method.state_change:
                return self._call(method.rpc, request, method.response)
            if self._options.rpc:
                try:
                    return self._call(method.rpc, request, method.response, quiet=Code.UNIMPLEMENTED)
                except StatusError as error:
                    if error.code != Code.UNIMPLEMENTED:
                        raise
            change = api.StateChangeEvent(event=method.event)
            for part, value in request.ListFields():
                getattr(change, part.name).CopyFrom(value)
            self._call("StateChange", change, api.Empty, event=method.rpc)
            return method.response()
        except _LostError:
            return None
        except StatusError as error:
            raise EventError(method.rpc, self.name, escape(error.message)) from error

    def close(self, reason: str) -> None:
        """Close the connection. A launched process is ended in the background: see :meth:`join`."""
        self._mux.close(reason)

    def join(self) -> None:
        """Wait until the connection is closed, and its thread and process are gone."""
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            reason = self._mux.run()
            log.info("connection to plugin %s closed: %s", self.name, reason)
            self._registered.set()
        finally:
            if self.process is not None:
                self.process.end()

    def _register(self, request: api.RegisterPluginRequest, call: Call) -> api.Empty:
        if self._registered.is_set():
            raise StatusError(Code.FAILED_PRECONDITION, f"{self.name} is registered")
        if self.process is None:  # a launched plugin keeps the name of its file
            self._refusal = names.find_fault(request.plugin_name, request.plugin_idx)
            if not self._refusal:
                self.base, self.index = request.plugin_name, request.plugin_idx
        self._registered.set()
        if self._refusal:
            raise StatusError(Code.INVALID_ARGUMENT, self._refusal)
        return api.Empty()

    def _update_containers(self, request: api.UpdateContainersRequest, call: Call) -> api.UpdateContainersResponse:
        return api.UpdateContainersResponse(failed=self._on_update(request))

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
        """Make a call, and report the exchange unless the call ends with the status ``quiet``.

        :raises StatusError: when the plugin answers with an error.
        :raises _LostError: when the plugin does not answer in time, or its connection is closed.
        """
        started = time.monotonic()
        timeout = timeout or self._options.request_timeout
        try:
            answer = self._client.call(PLUGIN, method, request, response, timeout=timeout)
        except NRIError as error:
            if isinstance(error, StatusError) and error.code == quiet:
                raise
            if not self._report(event or method, request, started, None, error).cut_off:
                raise
            log.error("closing plugin %s: %s", self.name, error)
            self.close(str(error))
            raise _LostError(str(error)) from error
        self._report(event or method, request, started, answer, None)
        return answer

    def _report(
        self, event: str, request: Message, started: float, answer: Message | None, error: NRIError | None
    ) -> Exchange:
        seconds = time.monotonic() - started
        if self.process is not None:
            self.process.drain()  # report the lines that it printed before its answer
        exchange = Exchange(
            event=event, plugin=self.name, request=request, response=answer, error=error, seconds=seconds
        )
        self._options.on_exchange(exchange)
        return exchange

    def _lost(self, reason: str) -> AdaptationError:
        self.close(reason)
        return AdaptationError(f"plugin {self.name} {reason}")


class _LostError(NRIError):
    """The connection is closed, by either end."""
