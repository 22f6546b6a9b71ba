"""A container runtime as its plugins see it: it starts them, and sends them events, one at a time.

The contract:

- One lock for everything: while a plugin works on an event, all other events wait, and so do plugins that connect or
  update containers. A handler that asks for an update of containers and waits for it runs into its deadline.
  Callbacks are called with the lock held, from any thread.
- Plugins are asked in the order of their indices, and in the order of connection for the same index.
- An error that a plugin answers with ends the event: later plugins are not asked. RunPodSandbox, CreateContainer,
  StartContainer, UpdateContainer and UpdatePodSandbox fail then; for other events the error is logged and is part of
  the outcome.
- A plugin that misses its deadline, or whose connection ends, is dropped. The event goes on without it.

Source: pkg/adaptation/adaptation.go of containerd/nri, and containerd's use of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from nri.adaptation.errors import EventError
from nri.adaptation.merging import Merger, apply
from nri.adaptation.plugin_set import PluginSet
from nri.adaptation.runtime_options import Exchange, RuntimeOptions
from nri.errors import escape
from nri.v2 import api
from nri.v2.api import events

FAILING = frozenset(["RunPodSandbox", "CreateContainer", "StartContainer", "UpdateContainer", "UpdatePodSandbox"])
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


def _pod_event(rpc: str) -> Callable[[Runtime, api.PodSandbox], Outcome]:
    return lambda self, pod: self.send(rpc, pod)


def _container_event(rpc: str) -> Callable[[Runtime, api.PodSandbox, api.Container], Outcome]:
    return lambda self, pod, container: self.send(rpc, pod, container)


class Runtime(PluginSet):
    """An embedded runtime. As a context manager, it starts and closes itself.

    :param name: the name that the runtime sends to plugins; likewise ``version``.
    :param nri_version: the NRI release to imitate.
    :param plugin_dir: a directory whose executables ``NN-name`` are launched.
    :param plugins: more executables to launch, as index, name and path.
    :param config_dir: a directory with plugins' configuration: ``NN-name.conf``, else ``name.conf``.
    :param request_timeout: seconds that a plugin has to answer.
    :param registration_timeout: seconds that a plugin has to register.
    :param on_exchange: called after every call of a plugin, and for a plugin that could not be started.
    :param on_output: called with the name of a launched plugin and each line that it prints; None sends its output to
        /dev/null, as a real runtime does.
    """

    def __init__(
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
        on_exchange: Callable[[Exchange], None] | None = None,
        on_output: Callable[[str, str], None] | None = None,
    ) -> None:
        options = RuntimeOptions(
            name=name,
            version=version,
            nri_version=nri_version,
            request_timeout=request_timeout,
            registration_timeout=registration_timeout,
            on_exchange=on_exchange or (lambda exchange: None),
            plugin_dir=plugin_dir,
            plugins=tuple(plugins),
            config_dir=config_dir,
            on_output=on_output,
        )
        super().__init__(options)

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
        """Call :meth:`send`."""
        return self.send("UpdateContainer", pod, container, resources=resources)

    def update_pod_sandbox(
        self, pod: api.PodSandbox, resources: api.LinuxResources, overhead: api.LinuxResources | None = None
    ) -> Outcome:
        """Call :meth:`send`."""
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
        """Send an event, given by number or name, to all plugins that are subscribed to it.

        :param resources: the requested resources of UpdateContainer and UpdatePodSandbox.
        :param overhead: the requested overhead of UpdatePodSandbox.
        :raises EventError: when a plugin makes the event fail.
        """
        method = events.BY_RPC[event] if isinstance(event, str) else events.BY_EVENT[event]
        values = [pod, container, resources, overhead]
        names = ["pod", "container", "linux_resources", "overhead_linux_resources"]
        fields = method.request.DESCRIPTOR.fields_by_name
        given: dict[str, Any] = {
            name: value for name, value in zip(names, values, strict=True) if value is not None and name in fields
        }
        merger = Merger(method.rpc, container, resources)
        error: EventError | None = None
        with self._lock:
            try:
                self._ask(method, given, merger)
                if method.event == api.Event.CREATE_CONTAINER:
                    self._validate(given, merger)
            except EventError as failure:
                if method.rpc in FAILING:
                    raise
                log.error("%s", failure.text_with_event())
                error = failure
            finally:  # the processes of closed connections end by themselves
                self._admitted = [plugin for plugin in self._admitted if not plugin.closed]
            result = None if container is None else _changed(method.event, container, resources, merger)
            self.store.note(method.event, pod, result)
            updates = () if error is not None else tuple(merger.updates)
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
            plugins=[api.PluginInstance(name=plugin.base, index=plugin.index) for plugin in self._admitted],
        )
        for plugin in [plugin for plugin in self._admitted if plugin.wants(method.event) and not plugin.closed]:
            response: Any = plugin.send(method, request)
            if response is None:  # for all other events, no answer is consent
                raise EventError(method.rpc, plugin.name, "gave no answer")
            if response.reject:
                raise EventError(method.rpc, plugin.name, escape(response.reason) or "rejected the adjustment")


def _changed(
    event: int, container: api.Container, resources: api.LinuxResources | None, merger: Merger
) -> api.Container:
    """Return the container as the runtime leaves it after an event."""
    changed = deepcopy(container)
    if event == api.Event.CREATE_CONTAINER:
        apply(changed, merger.adjustment)
    elif event == api.Event.UPDATE_CONTAINER:
        wanted = resources if merger.own_update is None else merger.own_update.linux.resources
        apply(changed, wanted or api.LinuxResources())
    return changed
