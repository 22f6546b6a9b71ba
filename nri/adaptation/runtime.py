"""A container runtime as its plugins see it: it starts them, and sends them events, one at a time.

The contract:

- One lock for everything: while a plugin works on an event, all other events wait, and so do plugins that connect or
  update containers. A handler that asks for an update of containers and waits for it runs into its deadline.
  Callbacks are called with the lock held, from any thread.
- Plugins are asked in the order of their indices, and in the order of connection for the same index.
- An error that a plugin answers with ends the event: later plugins are not asked. RunPodSandbox, CreateContainer,
  StartContainer, UpdateContainer and UpdatePodSandbox fail then; for other events the error is logged and is part of
  the outcome.
- A plugin that misses its deadline, or whose connection ends, is dropped. The event goes on without it. But a
  creation fails if one that validates gives no answer, also one that was dropped while the others were asked. All
  that validate are asked side by side.

Source: pkg/adaptation/adaptation.go of containerd/nri, and containerd's use of it.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from google.protobuf.message import Message

from nri.adaptation.errors import AdaptationError, EventError
from nri.adaptation.fields import of_resources
from nri.adaptation.launched import LaunchedPlugin, NotLaunched, configuration, discover
from nri.adaptation.merging import Merger, apply
from nri.adaptation.store import MAX_PART, Store, parts
from nri.errors import NRIError, escape
from nri.v2 import api
from nri.v2.api import events, names
from nri.v2.api.events import PLUGIN, RUNTIME
from nri.v2.api.runtimes import MAX_REQUEST, SPLITS_SYNCHRONIZE
from nri.v2.frames import MAX_PAYLOAD, OLD_MAX_PAYLOAD, PLUGIN_SERVICE, RUNTIME_SERVICE
from nri.v2.mux import Mux
from nri.v2.ttrpc import MAX_DATA, Call, Code, DeadlineError, RPCClient, RPCServer, StatusError
from nri.v2.ttrpc.server import unary

FAILING = frozenset(
    ["RunPodSandbox", "CreateContainer", "StartContainer", "UpdateContainer", "UpdatePodSandbox"]
)
"""The events that fail when a plugin answers with an error."""

log = logging.getLogger("nri.adaptation")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of an event."""

    container: api.Container | None = None
    """The container with all changes of the plugins; None where the event has no container."""
    adjustment: api.ContainerAdjustment = field(default_factory=api.ContainerAdjustment)
    """The merged adjustment of CreateContainer."""
    updates: tuple[api.ContainerUpdate, ...] = ()
    """Updates of other containers; of UpdateContainer also of the container itself, if a plugin asked for one: it is
    the last one, and has all resources that the runtime's client asked for."""
    error: EventError | None = None
    """The error that was logged; an event that fails raises instead."""


def _ignore(*_: object) -> None:
    """Do nothing with what is reported."""


def _pod_event(rpc: str) -> Callable[[Runtime, api.PodSandbox], Outcome]:
    return lambda self, pod: self.send(rpc, pod)


def _container_event(rpc: str) -> Callable[[Runtime, api.PodSandbox, api.Container], Outcome]:
    return lambda self, pod, container: self.send(rpc, pod, container)


class Runtime:
    """An embedded runtime. As a context manager, it starts and closes itself.

    :param name: the name that the runtime sends to plugins; likewise ``version``.
    :param nri_version: the NRI release to imitate, with or without its patch level.
    :param plugin_dir: a directory whose executables ``NN-name`` are launched.
    :param plugins: more executables to launch, as index, name and path.
    :param config_dir: a directory with plugins' configuration: ``NN-name.conf``, else ``name.conf``.
    :param request_timeout: seconds that a plugin has to answer.
    :param registration_timeout: seconds that a plugin has to register.
    :param on_exchange: called after every call of a plugin, and for a plugin that could not be started.
    :param on_output: called with the name of a launched plugin and each line that it prints; None sends its output to
        /dev/null, as a real runtime does.
    :ivar store: the pods and containers that exist.
    """

    def __init__(  # noqa: PLR0913 - optional, by name
        self,
        name: str = "nri-simulator",
        version: str = "v0.1.0",
        *,
        nri_version: events.Version = (0, 12),
        plugin_dir: str | None = None,
        plugins: Iterable[tuple[str, str, str]] = (),
        config_dir: str | None = None,
        request_timeout: float = 2.0,
        registration_timeout: float = 5.0,
        on_exchange: Callable[[Exchange], None] = _ignore,
        on_output: Callable[[str, str], None] | None = None,
    ) -> None:
        self.name = name
        self.version = version
        self.nri_version = nri_version
        self.request_timeout = request_timeout
        self.registration_timeout = registration_timeout
        self.on_exchange = on_exchange
        self.on_output = on_output
        self._plugin_dir = plugin_dir
        self._executables = tuple(plugins)
        self._config_dir = config_dir
        self.store = Store()
        self._lock = threading.RLock()  # held during an admission, an update and an event
        self.reporting = threading.Lock()  # held during a callback: validators answer side by side
        # In the order of their indices; change it with the lock held.
        self._admitted: list[PluginConnection] = []
        self._all: list[PluginConnection] = []  # also those that are closed, or not yet admitted
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
            for index, name, path in [*discover(self._plugin_dir), *self._executables]:
                self._launch(index, name, path, configuration(self._config_dir, index, name))
        except BaseException:
            self.close()
            raise

    def attach(self, sock: socket.socket) -> str:
        """Connect a plugin over ``sock``, which the runtime takes over; returns its name once it is synchronized.

        :raises AdaptationError: when it can't be registered, configured or synchronized.
        """
        plugin = PluginConnection(sock, self)
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
        full_name = f"{index}-{name}"
        output = self.on_output
        started = time.monotonic()
        try:
            on_line = None if output is None else lambda line: output(full_name, line)
            process = LaunchedPlugin(path, index=index, name=name, on_line=on_line)
            self._admit(PluginConnection(process.sock, self, config, process))
        except AdaptationError as error:
            log.error("%s", error)
            request = api.RegisterPluginRequest()
            seconds = time.monotonic() - started
            self.on_exchange(
                Exchange(
                    event="RegisterPlugin",
                    plugin=full_name,
                    request=request,
                    error=error,
                    seconds=seconds,
                )
            )

    def _admit(self, plugin: PluginConnection) -> None:
        self._all.append(plugin)
        try:
            plugin.start()
            with self._lock:
                if self._closed:
                    raise AdaptationError(
                        f"plugin {plugin.name} connected while the runtime was closing"
                    )
                self.store.update(
                    plugin.synchronize(self.store.pods.values(), self.store.containers.values())
                )
                self._admitted = sorted([*self._admitted, plugin], key=lambda member: member.index)
        except AdaptationError as error:
            plugin.close(str(error))
            self._wait_for_end(plugin)
            raise

    def _wait_for_end(self, plugin: PluginConnection) -> None:
        plugin.join()
        with contextlib.suppress(ValueError):  # another thread was faster
            self._all.remove(plugin)

    def update(self, updates: Iterable[api.ContainerUpdate]) -> list[api.ContainerUpdate]:
        """Change containers' resources, as a plugin asks; returns the updates of containers that don't exist."""
        with self._lock:
            return self.store.update(updates)

    run_pod_sandbox = _pod_event("RunPodSandbox")
    stop_pod_sandbox = _pod_event("StopPodSandbox")
    remove_pod_sandbox = _pod_event("RemovePodSandbox")
    post_update_pod_sandbox = _pod_event("PostUpdatePodSandbox")
    create_container = _container_event("CreateContainer")
    post_create_container = _container_event("PostCreateContainer")
    start_container = _container_event("StartContainer")
    post_start_container = _container_event("PostStartContainer")
    post_update_container = _container_event("PostUpdateContainer")
    stop_container = _container_event("StopContainer")
    remove_container = _container_event("RemoveContainer")

    def update_container(
        self, pod: api.PodSandbox, container: api.Container, resources: api.LinuxResources
    ) -> Outcome:
        """Call ``send``."""
        return self.send("UpdateContainer", pod, container, resources=resources)

    def send(
        self,
        event: int | str,
        pod: api.PodSandbox,
        container: api.Container | None = None,
        *,
        resources: api.LinuxResources | None = None,
    ) -> Outcome:
        """Send an event, given by number or name, to all plugins that are subscribed to it.

        :param resources: the requested resources of UpdateContainer and UpdatePodSandbox.
        :raises EventError: when a plugin makes the event fail.
        """
        method = events.find(event)
        values = [pod, container, resources]
        keys = ["pod", "container", "linux_resources"]
        fields = method.request.DESCRIPTOR.fields_by_name
        # None leaves a field unset.
        given = {name: value for name, value in zip(keys, values, strict=True) if name in fields}
        merger = Merger(method.rpc, container, resources)
        error: EventError | None = None
        updates: tuple[api.ContainerUpdate, ...] = ()
        with self._lock:
            try:
                self._ask(method, given, merger)
                if method.event == api.Event.CREATE_CONTAINER:
                    self._validate(given, merger)
                updates = tuple(merger.updates)
            except EventError as failure:
                if method.rpc in FAILING:
                    raise
                log.error("%s", failure.text_with_event())
                error = failure
            finally:  # the processes of closed connections end by themselves
                self._admitted = [plugin for plugin in self._admitted if not plugin.closed]
            result = deepcopy(container)
            _change(method.event, result, merger)
            self.store.note(method.event, pod, result)
            self.store.update(updates)
        return Outcome(
            container=result,
            adjustment=merger.adjustment,
            updates=updates,
            error=error,
        )

    def _ask(self, method: events.EventMethod, given: dict[str, Any], merger: Merger) -> None:
        for plugin in self._admitted:
            if not plugin.wants(method.event):
                continue
            request: Any = method.request(**given)
            if method.event == api.Event.CREATE_CONTAINER:
                request.container.CopyFrom(merger.container)
            elif method.event == api.Event.UPDATE_CONTAINER:
                request.linux_resources.CopyFrom(merger.resources)
            merger.add(plugin.send(method, request), plugin.name)

    def _validate(self, given: dict[str, Any], merger: Merger) -> None:
        method = events.BY_EVENT[api.Event.VALIDATE_CONTAINER_ADJUSTMENT]
        request = api.ValidateContainerAdjustmentRequest(
            **given,
            adjust=merger.adjustment,
            update=merger.updates,
            owners=merger.owners,
            plugins=[
                api.PluginInstance(name=plugin.base, index=plugin.index)
                for plugin in self._admitted
            ],
        )

        def ask(plugin: PluginConnection) -> EventError | None:
            try:
                response: Any = plugin.send(method, request)
            except EventError as error:
                return error
            if response is None:  # for all other events, no answer is consent
                return EventError(method.rpc, plugin.name, "gave no answer")
            reason = escape(response.reason) or "rejected the adjustment"
            if response.reject:
                return EventError(method.rpc, plugin.name, reason)
            return None

        validators = [plugin for plugin in self._admitted if plugin.wants(method.event)]
        if validators:
            with ThreadPoolExecutor(len(validators)) as pool:
                error = next(filter(None, pool.map(ask, validators)), None)
            if error is not None:
                raise error


def _change(event: int, container: Any, merger: Merger) -> None:
    """Change the container as the runtime does after an event."""
    if event == api.Event.CREATE_CONTAINER:
        apply(container, merger.adjustment)
    elif event == api.Event.UPDATE_CONTAINER:
        own = merger.own_update
        wanted = merger.resources if own is None else own.linux.resources
        apply(container, of_resources(wanted))


# One connected plugin, as the runtime sees it: its identity, its subscriptions, and its calls. A call ends as with a
# real runtime:
#
# | the plugin | result of the call |
# | --- | --- |
# | answers | the answer |
# | answers with an error | ``EventError``; it stays connected |
# | does not answer in time | None, as if it had not been asked; the connection is closed |
# | is disconnected before or during the call | None |
# | from NRI 0.12: does not implement an event's method | it gets a ``StateChange``, where the event had that |
#
# Source: pkg/adaptation/plugin.go of containerd/nri.


RPCS = (0, 12)
"""The first NRI that has a method for each event; before, most come as StateChange."""

_NOT_LAUNCHED = NotLaunched()

Answer = TypeVar("Answer", bound="Message")


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One call of a plugin and its result: either ``response`` or ``error`` is None."""

    event: str
    """Name of the method, also where a ``StateChange`` carried the event."""
    plugin: str
    request: Message
    response: Message | None = None
    error: NRIError | None = None
    seconds: float

    @property
    def cut_off(self) -> bool:
        """True when the error made the runtime close the connection: it is not the plugin's answer."""
        answered = isinstance(self.error, StatusError) and not isinstance(self.error, DeadlineError)
        return self.error is not None and not answered


class PluginConnection:
    """A plugin at the other end of a connected socket, which it owns.

    :param runtime: whose options count, and which takes the updates that the plugin asks for.
    :param process: the plugin's process when the runtime has launched it; it is ended with the connection.
    """

    def __init__(
        self,
        sock: socket.socket,
        runtime: Runtime,
        config: str = "",
        process: LaunchedPlugin | NotLaunched = _NOT_LAUNCHED,
    ) -> None:
        self.index = process.index
        self.base = process.name
        self.process = process
        self._runtime = runtime
        self._config = config
        self._mask = 0
        self._refusal = ""
        self._registered = threading.Event()
        max_payload = MAX_PAYLOAD
        max_request = MAX_DATA
        self._max_part = MAX_PART
        if runtime.nri_version < SPLITS_SYNCHRONIZE:
            max_payload = OLD_MAX_PAYLOAD
            max_request = MAX_REQUEST
            self._max_part = MAX_REQUEST
        self._mux = Mux(sock, max_payload=max_payload)
        self._client = RPCClient(self._mux.open(PLUGIN_SERVICE), max_request=max_request)
        methods = {
            (RUNTIME, "RegisterPlugin"): unary(api.RegisterPluginRequest, self._register),
            (RUNTIME, "UpdateContainers"): unary(
                api.UpdateContainersRequest, self._update_containers
            ),
        }
        RPCServer(self._mux.open(RUNTIME_SERVICE), methods)
        self._thread = threading.Thread(
            target=self._run, name=f"nri-plugin-{self.name}", daemon=True
        )
        self._thread.start()

    @property
    def name(self) -> str:
        """The plugin's index and name, as in ``10-logger``."""
        return f"{self.index}-{self.base}"

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
        if not self._registered.wait(self._runtime.registration_timeout):
            raise self._lost(f"did not register within {self._runtime.registration_timeout:g} s")
        if self._refusal:
            self._thread.join(0.1)  # time for the plugin to read the answer
            raise self._lost(f"did not register: {self._refusal}")
        if self._mux.reason is not None:
            raise self._lost(f"did not register: {self._mux.reason}")
        try:
            response = self._call("Configure", self._configuration(), api.ConfigureResponse)
        except NRIError as error:
            raise self._lost(f"could not be configured: {error}") from error
        valid = events.valid(self._runtime.nri_version)
        if extra := response.events & ~valid:
            version = ".".join(map(str, self._runtime.nri_version))
            raise self._lost(
                f"wants events that NRI {version} does not have: {extra & 0xFFFFFFFF:#x}"
            )
        self._mask = response.events or valid

    def synchronize(
        self, pods: Iterable[api.PodSandbox], containers: Iterable[api.Container]
    ) -> list[api.ContainerUpdate]:
        """Send the plugin all pods and containers; returns the updates that it asks for.

        :raises AdaptationError: when that fails; the connection is closed then.
        """
        deadline = time.monotonic() + self._runtime.request_timeout  # for all parts together
        try:
            for part in parts(pods, containers, self._max_part):
                left = max(0.001, deadline - time.monotonic())
                response = self._call("Synchronize", part, api.SynchronizeResponse, timeout=left)
                is_collecting = response.more and not response.update
                if part.more and not is_collecting:
                    raise self._lost("does not handle a Synchronize in several parts")
        except AdaptationError:
            raise
        except NRIError as error:
            raise self._lost(f"could not be synchronized: {error}") from error
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
            if self._runtime.nri_version >= RPCS:
                try:
                    return self._call(
                        method.rpc, request, method.response, quiet=Code.UNIMPLEMENTED
                    )
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
        """Close the connection. A launched process is ended in the background: see ``join``."""
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
            self.process.end()

    def _register(self, request: api.RegisterPluginRequest, call: Call) -> api.Empty:
        if self._registered.is_set():
            raise StatusError(Code.FAILED_PRECONDITION, f"{self.name} is registered")
        if self.process is _NOT_LAUNCHED:  # a launched plugin keeps the name of its file
            self._refusal = names.find_fault(request.plugin_name, request.plugin_idx)
            if self._refusal:
                self._registered.set()
                raise StatusError(Code.INVALID_ARGUMENT, self._refusal)
            self.base = request.plugin_name
            self.index = request.plugin_idx
        self._registered.set()
        return api.Empty()

    def _update_containers(
        self, request: api.UpdateContainersRequest, call: Call
    ) -> api.UpdateContainersResponse:
        return api.UpdateContainersResponse(failed=self._runtime.update(request.update))

    def _configuration(self) -> api.ConfigureRequest:
        runtime = self._runtime
        request = api.ConfigureRequest(
            config=self._config, runtime_name=runtime.name, runtime_version=runtime.version
        )
        if runtime.nri_version >= (0, 7):
            request.registration_timeout = int(runtime.registration_timeout * 1000)
            request.request_timeout = int(runtime.request_timeout * 1000)
        if runtime.nri_version >= (0, 12):
            request.NRI_version = "v{}.{}.{}".format(*(*runtime.nri_version, 0)[:3])
        return request

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
        event = event or method
        timeout = timeout or self._runtime.request_timeout
        try:
            answer = self._client.call(PLUGIN, method, request, response, timeout=timeout)
        except NRIError as error:
            if isinstance(error, StatusError) and error.code == quiet:
                raise
            if not self._report(event, request, started, None, error).cut_off:
                raise
            log.error("closing plugin %s: %s", self.name, error)
            self.close(str(error))
            raise _LostError(str(error)) from error
        self._report(event, request, started, answer, None)
        return answer

    def _report(
        self,
        event: str,
        request: Message,
        started: float,
        answer: Message | None,
        error: NRIError | None,
    ) -> Exchange:
        seconds = time.monotonic() - started
        self.process.drain()  # report the lines that it printed before its answer
        exchange = Exchange(
            event=event,
            plugin=self.name,
            request=request,
            response=answer,
            error=error,
            seconds=seconds,
        )
        with self._runtime.reporting:
            self._runtime.on_exchange(exchange)
        return exchange

    def _lost(self, reason: str) -> AdaptationError:
        self.close(reason)
        return AdaptationError(f"plugin {self.name} {reason}")


class _LostError(NRIError):
    """The connection is closed, by either end."""
