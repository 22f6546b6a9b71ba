"""The plugins of a runtime: launched, connected from outside, or attached; and the admission of each.

A plugin is admitted when it has registered, is configured and is synchronized. It gets events from then on, until its
connection is closed.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from nri import api
from nri.adaptation.discover import configuration, discover
from nri.adaptation.errors import AdaptationError
from nri.adaptation.launched import LaunchedPlugin
from nri.adaptation.listener import Listener
from nri.adaptation.plugin_connection import PluginConnection
from nri.adaptation.runtime_options import Exchange

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from nri.adaptation.runtime_options import RuntimeOptions
    from nri.adaptation.store import Store

log = logging.getLogger("nri.adaptation")


class PluginSet:
    """Launches, admits and closes plugins.

    :param store: the pods and containers with which a plugin is synchronized.
    :param on_update: called when a plugin asks for updates, with its name; returns the updates that failed.
    :ivar lock: is held while a plugin is admitted or asks for updates. The runtime holds it while it sends an event.
    :ivar admitted: the plugins that get events, in the order of their indices. Change or iterate it with ``lock``
        held.
    """

    def __init__(
        self,
        options: RuntimeOptions,
        store: Store,
        on_update: Callable[[str, api.UpdateContainersRequest], list[api.ContainerUpdate]],
    ) -> None:
        self.lock = threading.Condition()  # reentrant
        self.admitted: list[PluginConnection] = []
        self._options, self._store, self._on_update = options, store, on_update
        self._all: list[PluginConnection] = []  # also those that are closed, or not yet admitted
        self._listener: Listener | None = None
        self._closed = False

    @property
    def names(self) -> list[str]:
        """The names of the connected plugins, in the order of their indices."""
        return [plugin.name for plugin in self.admitted if not plugin.closed]

    def start(self) -> None:
        """See :meth:`nri.adaptation.Runtime.start`."""
        try:
            executables = [*discover(self._options.plugin_dir), *self._options.plugins]
            configs = [configuration(self._options.config_dir, index, name) for index, name, _ in executables]
            for (index, name, path), config in zip(executables, configs, strict=True):
                self._launch(index, name, path, config)
            if self._options.socket_path is not None:
                self._listener = Listener(self._options.socket_path, self._accept)
        except BaseException:
            self.close()
            raise

    def attach(self, sock: socket.socket) -> str:
        """See :meth:`nri.adaptation.Runtime.attach`."""
        plugin = PluginConnection(sock, self._options, on_update=self._update)
        self._admit(plugin)
        return plugin.name

    def wait_for(self, count: int, timeout: float, *, outside: bool = False) -> bool:
        """See :meth:`nri.adaptation.Runtime.wait_for`."""

        def are_connected() -> bool:
            found = [each for each in self.admitted if not each.closed and not (outside and each.process)]
            return len(found) >= count

        with self.lock:
            return self.lock.wait_for(are_connected, timeout)

    def close(self) -> None:
        """See :meth:`nri.adaptation.Runtime.close`."""
        self._closed = True
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        while plugins := list(self._all):  # more may come meanwhile
            for plugin in plugins:
                plugin.close("the runtime is going down")
            for plugin in plugins:
                plugin.join()
                self._forget(plugin)
        self.admitted = []

    def drop_closed(self) -> None:
        """Drop the plugins whose connections are closed. Their processes end by themselves."""
        self.admitted = [plugin for plugin in self.admitted if not plugin.closed]

    def _launch(self, index: str, name: str, path: str, config: str) -> None:
        full_name, options = f"{index}-{name}", self._options
        output = options.on_output
        on_line = None if output is None else lambda line: output(full_name, line)
        started = time.monotonic()
        try:
            process = LaunchedPlugin(path, index=index, name=name, on_line=on_line)
            plugin = PluginConnection(
                process.sock, options, index=index, name=name, config=config, process=process, on_update=self._update
            )
            self._admit(plugin)
        except AdaptationError as error:
            self._report_failed_start(full_name, error, started)

    def _accept(self, sock: socket.socket) -> None:
        started = time.monotonic()
        plugin = PluginConnection(sock, self._options, on_update=self._update)
        try:
            self._admit(plugin)
        except AdaptationError as error:
            self._report_failed_start(plugin.name, error, started)

    def _admit(self, plugin: PluginConnection) -> None:
        self._all.append(plugin)
        try:
            plugin.start()
            with self.lock:
                if self._closed:
                    raise AdaptationError(f"plugin {plugin.name} connected while the runtime was closing")
                updates = plugin.synchronize(self._store.pods.values(), self._store.containers.values())
                self._store.update(updates)
                self.admitted = sorted([*self.admitted, plugin], key=lambda each: each.index)
                self.lock.notify_all()
        except AdaptationError as error:
            plugin.close(str(error))
            plugin.join()
            self._forget(plugin)
            raise

    def _report_failed_start(self, plugin: str, error: AdaptationError, started: float) -> None:
        log.error("%s", error)
        event, request, seconds = "RegisterPlugin", api.RegisterPluginRequest(), time.monotonic() - started
        self._options.on_exchange(
            Exchange(event=event, plugin=plugin, request=request, error=error, cut_off=True, seconds=seconds)
        )

    def _forget(self, plugin: PluginConnection) -> None:
        try:
            self._all.remove(plugin)
        except ValueError:
            pass  # another thread was faster

    def _update(self, plugin: PluginConnection, request: api.UpdateContainersRequest) -> list[api.ContainerUpdate]:
        with self.lock:
            return self._on_update(plugin.name, request)
