"""A container runtime as its plugins see it: it starts them, and sends them events, one at a time.

The contract of what is hard about it:

- One lock for everything: while a plugin works on an event, any other event waits, and so does a plugin that wants to
  connect or to update containers. A handler that asks for an update of containers and waits for it meets its
  deadline. Callbacks are called with the lock held, by whatever thread there is.
- Plugins are asked in the order of their indices; of two with the same index the one that came first is first.
- An error that a plugin answers with ends the event: later plugins are not asked. RunPodSandbox, CreateContainer,
  StartContainer, UpdateContainer and UpdatePodSandbox fail then; of any other event it is logged and kept in the
  outcome.
- A plugin that misses its deadline, or whose connection ends, is out. The event goes on without it.

Source: pkg/adaptation/adaptation.go of containerd/nri, and what containerd makes of it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

from nri import api
from nri.adaptation.discover import configuration, discover
from nri.adaptation.errors import AdaptationError, EventError
from nri.adaptation.launched import LaunchedPlugin
from nri.adaptation.listen import Listener
from nri.adaptation.merge import Merger
from nri.adaptation.plugin_connection import Exchange, PluginConnection, RuntimeOptions
from nri.adaptation.store import Store
from nri.api import events
from nri.errors import escape

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable

Style = Literal["rpc", "state-change"]
STYLES: dict[Style, events.Version] = {"rpc": (0, 12), "state-change": (0, 11)}
"""How most events are sent, and the newest NRI that does so."""

FAILING = frozenset(["RunPodSandbox", "CreateContainer", "StartContainer", "UpdateContainer", "UpdatePodSandbox"])
"""The events that fail when a plugin says so."""

log = logging.getLogger("nri.adaptation")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of an event."""

    container: api.Container | None = None
    """With everything that the plugins have changed, where the event was about one."""
    adjustment: api.ContainerAdjustment = field(default_factory=api.ContainerAdjustment)
    """Of CreateContainer: what all plugins together ask for."""
    updates: tuple[api.ContainerUpdate, ...] = ()
    """Of other containers; of UpdateContainer also of the container itself, if a plugin had a wish."""
    evictions: tuple[api.ContainerEviction, ...] = ()
    error: EventError | None = None
    """What was logged; an event that fails raises instead."""


def _pod_event(rpc: str) -> Callable[[Runtime, api.PodSandbox], Outcome]:
    return lambda self, pod: self.send(rpc, pod)


def _container_event(rpc: str) -> Callable[[Runtime, api.PodSandbox, api.Container], Outcome]:
    return lambda self, pod, container: self.send(rpc, pod, container)


class Runtime:
    """An embedded runtime. As a context manager it is started, and closed.

    :param name: what plugins are told that the runtime is called; likewise ``version``.
    :param nri_version: of the NRI that it shall behave as; by default that of ``style``.
    :param style: ``rpc`` is NRI 0.12, ``state-change`` what was before; by default that of ``nri_version``.
    :param plugin_dir: every executable ``NN-name`` in it is launched.
    :param plugins: more executables to launch, as index, name and path.
    :param config_dir: where their configuration is: ``NN-name.conf``, else ``name.conf``.
    :param socket_path: where plugins from outside connect; None: nowhere.
    :param request_timeout: seconds that a plugin has for an answer.
    :param registration_timeout: seconds that it has to register.
    :param on_exchange: told of every call of a plugin, after it, and of a plugin that could not be started.
    :param on_output: told of each line that a launched plugin prints, with the plugin's name; None: it prints to
        /dev/null, as under a real runtime.
    :param on_update: called when a plugin wants containers updated or evicted, with its name; returns the updates
        that failed. By default the known containers are changed, and nothing is evicted.
    """

    def __init__(
        self,
        name: str = "nri-simulator",
        version: str = "v0.1.0",
        *,
        nri_version: events.Version | None = None,
        style: Style | None = None,
        plugin_dir: str | None = None,
        plugins: Iterable[tuple[str, str, str]] = (),
        config_dir: str | None = None,
        socket_path: str | None = None,
        request_timeout: float = 2.0,
        registration_timeout: float = 5.0,
        on_exchange: Callable[[Exchange], None] | None = None,
        on_output: Callable[[str, str], None] | None = None,
        on_update: Callable[[str, api.UpdateContainersRequest], list[api.ContainerUpdate]] | None = None,
    ) -> None:
        nri_version = nri_version or STYLES[style or "rpc"]
        self._terms = RuntimeOptions(
            name=name,
            version=version,
            nri_version=nri_version,
            rpc=nri_version >= (0, 12) if style is None else style == "rpc",
            request_timeout=request_timeout,
            registration_timeout=registration_timeout,
            on_exchange=self._tell,
        )
        self._plugin_dir, self._config_dir = plugin_dir, config_dir
        self._executables = list(plugins)
        self._socket_path = socket_path
        self._on_exchange, self._on_output, self._on_update = on_exchange, on_output, on_update
        self._lock = threading.Condition()  # of a lock that its holder may take again
        self._peers: list[PluginConnection] = []
        self._all: list[PluginConnection] = []  # also those that are out, or not yet in
        self._listener: Listener | None = None
        self._closed = False
        self.store = Store()
        """The pods and containers that there are."""

    # Plugins

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def plugins(self) -> list[str]:
        """The names of the connected plugins, in the order in which they are asked."""
        return [peer.name for peer in self._peers if not peer.closed]

    def start(self) -> None:
        """Launch the plugins, and listen. A plugin that does not start is passed over: see ``on_exchange``.

        :raises AdaptationError: when a directory can't be read, a plugin's name is wrong, or nobody can listen.
        """
        try:
            executables = [*discover(self._plugin_dir), *self._executables]
            configs = [configuration(self._config_dir, index, name) for index, name, _ in executables]
            for (index, name, path), config in zip(executables, configs, strict=True):
                self._launch(index, name, path, config)
            if self._socket_path is not None:
                self._listener = Listener(self._socket_path, self._accept)
        except BaseException:
            self.close()
            raise

    def attach(self, sock: socket.socket) -> str:
        """Connect a plugin over a socket, which is ours from now on; returns its name once it is synchronized.

        :raises AdaptationError: when it can't be registered, configured or synchronized.
        """
        peer = PluginConnection(sock, self._terms, on_update=self._update)
        self._admit(peer)
        return peer.name

    def wait_for(self, count: int, timeout: float, *, outside: bool = False) -> bool:
        """Wait until so many plugins are connected; False when the time, in seconds, is over before.

        :param outside: count only those that were not launched.
        """

        def connected() -> bool:
            peers = [peer for peer in self._peers if not peer.closed and not (outside and peer.process)]
            return len(peers) >= count

        with self._lock:
            return self._lock.wait_for(connected, timeout)

    def close(self) -> None:
        """Close all connections, end what was launched, wait until it is gone."""
        self._closed = True
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        while peers := list(self._all):  # those that come meanwhile are the next turn's
            for peer in peers:
                peer.close("the runtime is going down")
            for peer in peers:
                peer.join()
                self._forget(peer)
        self._peers = []

    # Events

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
        """As :meth:`send`."""
        return self.send("UpdateContainer", pod, container, resources=resources)

    def update_pod_sandbox(
        self, pod: api.PodSandbox, resources: api.LinuxResources, overhead: api.LinuxResources | None = None
    ) -> Outcome:
        """As :meth:`send`."""
        return self.send("UpdatePodSandbox", pod, resources=resources, overhead=overhead)

    def send(
        self,
        event: int | str,
        pod: api.PodSandbox,
        container: api.Container | None = None,
        *,
        resources: api.LinuxResources | None = None,
        overhead: api.LinuxResources | None = None,
    ) -> Outcome:
        """Tell all plugins that want to know of an event, given by number or name.

        :param resources: those that are asked for, of UpdateContainer and UpdatePodSandbox.
        :param overhead: likewise, of UpdatePodSandbox.
        :raises EventError: when a plugin makes it fail.
        """
        how = events.BY_RPC[event] if isinstance(event, str) else events.BY_EVENT[event]
        values = {
            "pod": pod,
            "container": container,
            "linux_resources": resources,
            "overhead_linux_resources": overhead,
        }
        known = how.request.DESCRIPTOR.fields_by_name
        given: dict[str, Any] = {name: value for name, value in values.items() if value is not None and name in known}
        merger = Merger(how.rpc, container)
        error: EventError | None = None
        with self._lock:
            try:
                self._ask(how, given, merger)
                if how.event == api.Event.CREATE_CONTAINER:
                    self._validate(given, merger)
            except EventError as failure:
                if how.rpc in FAILING:
                    raise
                log.error("%s", failure)
                error = failure
            finally:
                self._sweep()
            result = merger.container if container is not None else None
            if result is not None and how.event == api.Event.UPDATE_CONTAINER:
                merger.resize(resources)
            self.store.note(how.event, pod, result)
            updates = tuple(merger.updates.values())
            self.store.update(updates)
        return Outcome(
            container=result,
            adjustment=merger.adjustment,
            updates=updates,
            evictions=tuple(merger.evictions),
            error=error,
        )

    def _ask(self, how: events.Call, given: dict[str, Any], merger: Merger) -> None:
        for peer in self._peers:
            if not peer.wants(how.event):
                continue
            request = how.request(**given)
            if how.event == api.Event.CREATE_CONTAINER:
                request.container.CopyFrom(merger.container)  # type: ignore[attr-defined]
            elif how.event == api.Event.UPDATE_CONTAINER:
                request.linux_resources.CopyFrom(merger.wanted(request.linux_resources))  # type: ignore[attr-defined]
            response = peer.send(how, request)
            if isinstance(response, api.CreateContainerResponse):
                merger.adjust(response.adjust, peer.name)
            if isinstance(
                response, api.CreateContainerResponse | api.UpdateContainerResponse | api.StopContainerResponse
            ):
                merger.update(response.update, peer.name)
            if isinstance(response, api.CreateContainerResponse | api.UpdateContainerResponse):
                merger.evict(response.evict)

    def _validate(self, given: dict[str, Any], merger: Merger) -> None:
        how = events.BY_EVENT[api.Event.VALIDATE_CONTAINER_ADJUSTMENT]
        validators = [peer for peer in self._peers if peer.wants(how.event) and not peer.closed]
        request = api.ValidateContainerAdjustmentRequest(
            **given,
            adjust=merger.adjustment,
            update=merger.updates.values(),
            owners=merger.owners,
            plugins=[api.PluginInstance(name=peer.base, index=peer.index) for peer in self._peers],
        )
        for peer in validators:
            response = peer.send(how, request)
            if response is None:  # unlike with any other event, silence is no consent
                raise EventError(how.rpc, peer.name, "gave no answer")
            assert isinstance(response, api.ValidateContainerAdjustmentResponse)  # noqa: S101 - of this call
            if response.reject:
                raise EventError(how.rpc, peer.name, escape(response.reason) or "rejected the adjustment")

    # Starting plugins

    def _launch(self, index: str, name: str, path: str, config: str) -> None:
        plugin = f"{index}-{name}"
        output = self._on_output
        on_line = None if output is None else lambda line: output(plugin, line)
        started = time.monotonic()
        try:
            process = LaunchedPlugin(path, index=index, name=name, on_line=on_line)
        except AdaptationError as error:
            self._not_started(plugin, error, started)
            return
        peer = PluginConnection(
            process.sock, self._terms, index=index, name=name, config=config, process=process, on_update=self._update
        )
        try:
            self._admit(peer)
        except AdaptationError as error:
            self._not_started(plugin, error, started)

    def _accept(self, sock: socket.socket) -> None:
        started = time.monotonic()
        peer = PluginConnection(sock, self._terms, on_update=self._update)
        try:
            self._admit(peer)
        except AdaptationError as error:
            self._not_started(peer.name, error, started)

    def _admit(self, peer: PluginConnection) -> None:
        """Register, configure and synchronize a plugin; after that it gets events."""
        self._all.append(peer)
        try:
            peer.start()
            with self._lock:
                if self._closed:
                    raise AdaptationError(f"plugin {peer.name} came when the runtime was going down")
                updates = peer.synchronize(self.store.pods.values(), self.store.containers.values())
                self.store.update(updates)
                self._peers = sorted([*self._peers, peer], key=lambda peer: peer.index)
                self._lock.notify_all()
        except AdaptationError as error:
            peer.close(str(error))
            peer.join()
            self._forget(peer)
            raise

    def _not_started(self, plugin: str, error: AdaptationError, started: float) -> None:
        log.error("%s", error)
        seconds = time.monotonic() - started
        request = api.RegisterPluginRequest()
        self._tell(
            Exchange(
                event="RegisterPlugin", plugin=plugin, request=request, error=error, cut_off=True, seconds=seconds
            )
        )

    def _sweep(self) -> None:
        """Forget those that are out. Their processes are on their way."""
        self._peers = [peer for peer in self._peers if not peer.closed]

    def _forget(self, peer: PluginConnection) -> None:
        try:
            self._all.remove(peer)
        except ValueError:
            pass  # another thread was faster

    def _update(self, peer: PluginConnection, request: api.UpdateContainersRequest) -> list[api.ContainerUpdate]:
        with self._lock:
            if self._on_update is not None:
                return self._on_update(peer.name, request)
            return self.store.update(request.update)

    def _tell(self, exchange: Exchange) -> None:
        if self._on_exchange is not None:
            self._on_exchange(exchange)
