"""The events of a pod's and a container's life: the method that carries each, and the mask that subscribes to them.

``METHODS`` is the one table; the rest of this module, and the dispatching of a stub, follow from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from google.protobuf.message import Message

from nri.v2.api import runtime_pb2 as pb

PLUGIN: str = pb.DESCRIPTOR.services_by_name["Plugin"].full_name
RUNTIME: str = pb.DESCRIPTOR.services_by_name["Runtime"].full_name
"""Full names of the services of a plugin and of a runtime."""

Version = tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class EventMethod:
    """The method of the service ``Plugin`` that carries one event."""

    event: pb.Event
    rpc: str
    """Name of the method. From NRI 0.12 on, a runtime calls it for every event."""
    request: type[Message]
    response: type[Message]
    state_change: bool = False
    """True where a runtime up to NRI 0.11 sends a ``StateChange`` instead."""
    since: Version = (0, 2)
    """The first NRI that has the event."""


def _method(
    rpc: str, event: pb.Event, *, state_change: bool = False, since: Version = (0, 2)
) -> EventMethod:
    request = getattr(pb, rpc + "Request")
    response = getattr(pb, rpc + "Response")
    return EventMethod(
        event=event,
        rpc=rpc,
        request=request,
        response=response,
        state_change=state_change,
        since=since,
    )


METHODS: tuple[EventMethod, ...] = (
    _method("RunPodSandbox", pb.RUN_POD_SANDBOX, state_change=True),
    _method("StopPodSandbox", pb.STOP_POD_SANDBOX, state_change=True),
    _method("RemovePodSandbox", pb.REMOVE_POD_SANDBOX, state_change=True),
    _method("CreateContainer", pb.CREATE_CONTAINER),
    _method("PostCreateContainer", pb.POST_CREATE_CONTAINER, state_change=True),
    _method("StartContainer", pb.START_CONTAINER, state_change=True),
    _method("PostStartContainer", pb.POST_START_CONTAINER, state_change=True),
    _method("UpdateContainer", pb.UPDATE_CONTAINER),
    _method("PostUpdateContainer", pb.POST_UPDATE_CONTAINER, state_change=True),
    _method("StopContainer", pb.STOP_CONTAINER),
    _method("RemoveContainer", pb.REMOVE_CONTAINER, state_change=True),
    _method("UpdatePodSandbox", pb.UPDATE_POD_SANDBOX, since=(0, 10)),
    _method("PostUpdatePodSandbox", pb.POST_UPDATE_POD_SANDBOX, state_change=True, since=(0, 10)),
    _method("ValidateContainerAdjustment", pb.VALIDATE_CONTAINER_ADJUSTMENT, since=(0, 10)),
)
"""All events, in the order of their numbers."""

BY_EVENT: dict[int, EventMethod] = {method.event: method for method in METHODS}
BY_RPC: dict[str, EventMethod] = {method.rpc: method for method in METHODS}
_BY_LOWER = {method.rpc.lower(): method for method in METHODS}


def find(event: object) -> EventMethod:
    """Return the method of an event by its number, or by its name in any case: ``"CreateContainer"``.

    :raises ValueError: for anything else; the message lists the names.
    """
    method = None
    if isinstance(event, str):
        method = _BY_LOWER.get(event.strip().lower())
    elif isinstance(event, int) and not isinstance(event, bool):
        method = BY_EVENT.get(event)
    if method is None:
        raise ValueError(f"found {event!r:.80}, expected one of {', '.join(BY_RPC)}")
    return method


def mask(events: Iterable[int]) -> int:
    """Return the mask for ``ConfigureResponse.events``: bit N-1 for event number N.

    No events give 0, which a runtime reads as all events that it knows.
    """
    return sum(1 << (event - 1) for event in {*events})


def names(mask: int) -> list[str]:
    """Return the names of the events that ``mask`` has a bit for, in the order of their numbers; none for 0."""
    return [method.rpc for method in METHODS if mask & 1 << (method.event - 1)]


def valid(version: Version) -> int:
    """Return the mask of all events that a runtime with NRI ``version``, such as ``(0, 8)``, knows."""
    return mask(method.event for method in METHODS if method.since <= version)
