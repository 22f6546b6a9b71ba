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
from collections.abc import Callable
from typing import Self

from nri.adaptation.errors import AdaptationError
from nri.adaptation.launched import LaunchedPlugin, configuration, discover
from nri.adaptation.plugin_connection import PluginConnection
from nri.adaptation.runtime_options import Exchange, RuntimeOptions
from nri.adaptation.store import Store
from nri.v2 import api

UpdateHandler = Callable[[str, api.UpdateContainersRequest], list[api.ContainerUpdate]]

log = logging.getLogger("nri.adaptation")


class PluginSet:
    """Launches, admits and closes plugins: what a :class:`nri.adaptation.Runtime` does apart from events.

    :ivar store: the pods and containers that exist.
    """

    def __init__(self, options: RuntimeOptions, on_update: UpdateHandler | None) -> None:
        self.store = Store()
        self._lock = threading.RLock()  # held during an admission, an update and an event
        self._admitted: list[PluginConnection] = []  # in the order of their indices; change it with the lock held
        self._all: list[PluginConnection] = []  # also those that are closed, or not yet admitted
        self._options = options
        self._on_update = on_update or (lambda plugin, request: self.store.update(request.update))
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

    def _update(self, plugin: PluginConnection, request: api.UpdateContainersRequest) -> list[api.ContainerUpdate]:
        with self._lock:
            return self._on_update(plugin.name, request)
