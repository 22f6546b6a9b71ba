"""A v2 plugin: its identity, and its base, a class with a method for each event that it handles.

The names of the methods follow from the table of events (``nri.v2.api.events``): ``run_pod_sandbox`` handles
``RunPodSandbox``. A handler takes the event's request and the call that carried it, also where an older runtime sent
a ``StateChange``. It returns the event's response, or None for an empty one:

| handler | request has | response has |
| --- | --- | --- |
| ``run_pod_sandbox``, ``stop_pod_sandbox``, ``remove_pod_sandbox`` | pod | |
| ``update_pod_sandbox`` | pod, overhead_linux_resources, linux_resources | |
| ``post_update_pod_sandbox`` | pod | |
| ``create_container`` | pod, container | adjust, update, evict |
| ``post_create_container``, ``start_container``, ``post_start_container`` | pod, container | |
| ``update_container`` | pod, container, linux_resources | update, evict |
| ``post_update_container`` | pod, container | |
| ``stop_container`` | pod, container | update |
| ``remove_container`` | pod, container | |
| ``validate_container_adjustment`` | pod, container, adjust, update, owners, plugins | reject, … |

A handler that raises refuses: the runtime gets the exception's message, and its operation fails. A handler has
``call.remaining()`` seconds; shortly before their end the stub answers with an error in its place, so that the
operation fails and the plugin stays connected: a runtime that gets no answer drops a plugin, and goes on without it.
What the handler returns later has no effect (``call.is_abandoned``). Handlers are called one after the other, in the
thread that runs the session. A runtime sends an event before the last one is answered only if it has abandoned that
one.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from google.protobuf.message import Message

from nri.errors import NRIError
from nri.v2 import api
from nri.v2.api import Container, ContainerUpdate, PodSandbox, events, names
from nri.v2.api.names import INDEX_VARIABLE, NAME_VARIABLE
from nri.v2.api.runtimes import nri_version
from nri.v2.ttrpc import Call

EventHandler = Callable[[Any, Call], Message | None]

HANDLERS: dict[int, str] = {
    int(method.event): re.sub(r"(?<=[a-z])(?=[A-Z])", "_", method.rpc).lower()
    for method in events.METHODS
}
"""The name of each event's handler."""


class IdentityError(NRIError):
    """A plugin's name or index is missing, or a runtime does not accept it."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A plugin's name, and an index that is its place in the order of plugins."""

    name: str
    index: str

    def __post_init__(self) -> None:
        if fault := names.find_fault(self.name, self.index):
            raise IdentityError(fault)

    def __str__(self) -> str:
        return f"{self.index}-{self.name}"

    @classmethod
    def find(
        cls, environment: Mapping[str, str], executable: str, *, name: str = "", index: str = ""
    ) -> Identity:
        """Return the identity from the environment; else from the arguments; else from the executable's ``NN-name``.

        The environment goes first: a runtime knows the plugins that it launches by the names that it gave them.

        :raises IdentityError: when the name or index is then unknown, or a runtime does not accept it.
        """
        file_index, file_name = names.split_executable(os.path.basename(executable))
        name = environment.get(NAME_VARIABLE) or name or file_name
        index = environment.get(INDEX_VARIABLE) or index or file_index
        missing = " and ".join(
            [part for part, value in (("name", name), ("index", index)) if not value]
        )
        if missing:
            raise IdentityError(
                f"the plugin's {missing} is not known: neither given, nor in {NAME_VARIABLE} and {INDEX_VARIABLE}, "
                f"nor told by the executable {os.path.basename(executable)!r}; expected one like 10-name"
            )
        return cls(name=name, index=index)


@dataclass(frozen=True, kw_only=True)
class RuntimeInfo:
    """A runtime's description of itself, which it sends when it configures a plugin."""

    name: str
    """``containerd``, ``cri-o``, …"""
    version: str
    nri_version: str = ""
    """Version of the NRI that it was built with, as it sends it; "" up to NRI 0.11."""
    registration_timeout: float = 0.0
    """Seconds; 0 up to NRI 0.6, which does not send it."""
    request_timeout: float = 0.0
    """Seconds that a plugin has for a request; 0 up to NRI 0.6."""

    @property
    def knows(self) -> int:
        """The mask of the events that it can deliver. It disconnects a plugin that subscribes to any other event."""
        return events.valid(nri_version(self.name, self.version, self.nri_version))


if TYPE_CHECKING:

    class _Handlers:
        """The handlers, for editors and type checkers: at runtime, one that is not defined is no subscription."""

        def run_pod_sandbox(
            self, request: api.RunPodSandboxRequest, call: Call, /
        ) -> api.RunPodSandboxResponse | None: ...
        def stop_pod_sandbox(
            self, request: api.StopPodSandboxRequest, call: Call, /
        ) -> api.StopPodSandboxResponse | None: ...
        def remove_pod_sandbox(
            self, request: api.RemovePodSandboxRequest, call: Call, /
        ) -> api.RemovePodSandboxResponse | None: ...
        def create_container(
            self, request: api.CreateContainerRequest, call: Call, /
        ) -> api.CreateContainerResponse | None: ...
        def post_create_container(
            self, request: api.PostCreateContainerRequest, call: Call, /
        ) -> api.PostCreateContainerResponse | None: ...
        def start_container(
            self, request: api.StartContainerRequest, call: Call, /
        ) -> api.StartContainerResponse | None: ...
        def post_start_container(
            self, request: api.PostStartContainerRequest, call: Call, /
        ) -> api.PostStartContainerResponse | None: ...
        def update_container(
            self, request: api.UpdateContainerRequest, call: Call, /
        ) -> api.UpdateContainerResponse | None: ...
        def post_update_container(
            self, request: api.PostUpdateContainerRequest, call: Call, /
        ) -> api.PostUpdateContainerResponse | None: ...
        def stop_container(
            self, request: api.StopContainerRequest, call: Call, /
        ) -> api.StopContainerResponse | None: ...
        def remove_container(
            self, request: api.RemoveContainerRequest, call: Call, /
        ) -> api.RemoveContainerResponse | None: ...
        def update_pod_sandbox(
            self, request: api.UpdatePodSandboxRequest, call: Call, /
        ) -> api.UpdatePodSandboxResponse | None: ...
        def post_update_pod_sandbox(
            self, request: api.PostUpdatePodSandboxRequest, call: Call, /
        ) -> api.PostUpdatePodSandboxResponse | None: ...
        def validate_container_adjustment(
            self, request: api.ValidateContainerAdjustmentRequest, call: Call, /
        ) -> api.ValidateContainerAdjustmentResponse | None: ...

else:
    _Handlers = object


class V2Plugin(_Handlers):
    """The base of a v2 plugin. A subclass defines handlers (see the table above), and may override these methods."""

    optional_events: frozenset[int] = frozenset()
    """Events that the plugin handles and can do without: no warning if the runtime does not have them."""

    late_events = False
    """True if handlers are also called for events that an earlier one has held up until their deadline. The runtime
    has got an error by then: ``call.is_late`` is true, and the response is dropped."""

    def configure(self, config: str, runtime: RuntimeInfo) -> Iterable[int | str] | None:
        """Take the configuration: the text of a file, or "" without one. An exception refuses the configuration.

        :returns: the events to subscribe to, by name (``"CreateContainer"``) or number
            (``api.Event.CREATE_CONTAINER``), each with a handler. None or an empty collection: all that have one.
        """
        return None

    def synchronize(
        self, pods: Sequence[PodSandbox], containers: Sequence[Container]
    ) -> Sequence[ContainerUpdate] | None:
        """Take the pods and containers that exist when the plugin connects; may return updates of containers."""

    def idle(self) -> None:
        """Do what no answer waits for: called when calls have been answered and no other is waiting.

        The first call after ``synchronize`` is the time at which a plugin may ask the runtime for updates. The events
        that arrive meanwhile wait. It must not raise, and is never called after ``disconnected``.
        """

    def answered(self, call: Call) -> None:
        """Take note that an event has been answered: ``call.event`` is its name. It must not raise."""

    def shutdown(self) -> None:
        """Take note that the runtime is about to close the connection."""

    def disconnected(self) -> None:
        """Take note that the connection is closed, after the last handler has ended."""


_METHODS = tuple(
    name for name, value in vars(V2Plugin).items() if callable(value) and not name.startswith("_")
)


def handlers(plugin: V2Plugin) -> dict[int, EventHandler]:
    """Return the handlers that ``plugin`` defines, by event.

    :raises NRIError: when it defines no handler: such a plugin would be subscribed to all. Or when a method has
        nearly the name of a handler, and would never be called.
    """
    known = {name.replace("_", ""): name for name in (*HANDLERS.values(), *_METHODS)}
    for name in sorted({*dir(type(plugin))} - {*known.values()}):
        if name.startswith("_") or not callable(getattr(type(plugin), name)):
            continue
        if near := difflib.get_close_matches(
            name.replace("_", "").lower(), known, n=1, cutoff=0.85
        ):
            expected = f"expected {known[near[0]]}, or a name that is less like it"
            raise NRIError(
                f"{type(plugin).__name__}.{name}: found a method for no event, {expected}"
            )
    by_event: dict[int, EventHandler] = {
        event: getattr(plugin, name) for event, name in HANDLERS.items() if hasattr(plugin, name)
    }

    if not by_event:
        expected = ", ".join(HANDLERS.values())
        raise NRIError(
            f"{type(plugin).__name__} handles no event; expected at least one method of {expected}"
        )
    return by_event
