"""What a v2 plugin is: a class with a method for each event that it wants to see.

The names of the methods follow from the table of events (:mod:`nri.api.events`): ``RunPodSandbox`` is handled by
``run_pod_sandbox``. Each is called with the request of that event and the call that it came with, also where an
older runtime sent a ``StateChange``, and returns the event's response, or None for an empty one:

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

A handler that raises refuses: the runtime is told the exception's message, and what it was about to do fails. It has
as long as ``call.remaining()`` says; a runtime that gets no answer in time drops the plugin, and goes on without it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nri.api import events
from nri.api.runtimes import nri_version
from nri.errors import NRIError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from google.protobuf.message import Message

    from nri.api import Container, ContainerUpdate, PodSandbox
    from nri.ttrpc import Call

    Handler = Callable[[Any, Call], Message | None]

HANDLERS: dict[int, str] = {
    int(call.event): re.sub(r"(?<=[a-z])(?=[A-Z])", "_", call.rpc).lower() for call in events.CALLS
}
"""Each event's handler."""


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """What a runtime says about itself when it configures a plugin."""

    name: str
    """``containerd``, ``cri-o``, …"""
    version: str
    nri_version: str = ""
    """Of the NRI that it was built with, in its own words; "" where it says nothing, as up to NRI 0.11."""
    registration_timeout: float | None = None
    """Seconds; None where it does not say, as up to NRI 0.6."""
    request_timeout: float | None = None
    """Seconds that a plugin has for a request; likewise."""

    @property
    def knows(self) -> int:
        """The mask of the events that it can deliver; one that it does not know would end the plugin."""
        return events.valid(nri_version(self.name, self.version, self.nri_version))


class Plugin:
    """The base of a v2 plugin. A subclass defines handlers, see the table above, and may override what is below."""

    def configure(self, config: str, runtime: Runtime) -> None:
        """Take the configuration: the text of a file, or "" where there is none. An exception refuses to serve."""

    def synchronize(
        self, pods: Sequence[PodSandbox], containers: Sequence[Container]
    ) -> Sequence[ContainerUpdate] | None:
        """Take note of everything that exists when the plugin has connected; may return updates of containers."""

    def shutdown(self) -> None:
        """The runtime is about to close the connection."""


def handlers(plugin: Plugin) -> dict[int, Handler]:
    """The handlers that ``plugin`` defines, by event.

    :raises NRIError: when there are none: such a plugin would be subscribed to everything.
    """
    found: dict[int, Handler] = {
        event: getattr(plugin, name) for event, name in HANDLERS.items() if hasattr(plugin, name)
    }
    if not found:
        expected = ", ".join(HANDLERS.values())
        raise NRIError(f"{type(plugin).__name__} handles no event; expected at least one method of {expected}")
    return found
