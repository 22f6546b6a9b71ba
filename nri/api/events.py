"""The events of a pod's and a container's life: how each reaches a plugin, and the mask that subscribes to them.

:data:`CALLS` is the one table; what else there is in here, and what a stub dispatches by, follows from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nri.api import runtime_pb2 as pb

if TYPE_CHECKING:
    from google.protobuf.message import Message

PLUGIN: str = pb.DESCRIPTOR.services_by_name["Plugin"].full_name
RUNTIME: str = pb.DESCRIPTOR.services_by_name["Runtime"].full_name
"""The services, as a call names them: the one of a plugin, and that of a runtime."""

Version = tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """How one event reaches a plugin.

    ``rpc`` is the method of the service ``Plugin``; from NRI 0.12 on it is called for every event. ``state_change``
    says that a runtime up to NRI 0.11 sends a ``StateChange`` instead. ``since`` is the first NRI that has the event.
    """

    event: pb.Event
    rpc: str
    request: type[Message]
    response: type[Message]
    state_change: bool = False
    since: Version = (0, 2)


def _call(rpc: str, event: pb.Event, *, state_change: bool = False, since: Version = (0, 2)) -> Call:
    request, response = getattr(pb, rpc + "Request"), getattr(pb, rpc + "Response")
    return Call(event=event, rpc=rpc, request=request, response=response, state_change=state_change, since=since)


CALLS: tuple[Call, ...] = (
    _call("RunPodSandbox", pb.RUN_POD_SANDBOX, state_change=True),
    _call("StopPodSandbox", pb.STOP_POD_SANDBOX, state_change=True),
    _call("RemovePodSandbox", pb.REMOVE_POD_SANDBOX, state_change=True),
    _call("CreateContainer", pb.CREATE_CONTAINER),
    _call("PostCreateContainer", pb.POST_CREATE_CONTAINER, state_change=True),
    _call("StartContainer", pb.START_CONTAINER, state_change=True),
    _call("PostStartContainer", pb.POST_START_CONTAINER, state_change=True),
    _call("UpdateContainer", pb.UPDATE_CONTAINER),
    _call("PostUpdateContainer", pb.POST_UPDATE_CONTAINER, state_change=True),
    _call("StopContainer", pb.STOP_CONTAINER),
    _call("RemoveContainer", pb.REMOVE_CONTAINER, state_change=True),
    _call("UpdatePodSandbox", pb.UPDATE_POD_SANDBOX, since=(0, 10)),
    _call("PostUpdatePodSandbox", pb.POST_UPDATE_POD_SANDBOX, state_change=True, since=(0, 10)),
    _call("ValidateContainerAdjustment", pb.VALIDATE_CONTAINER_ADJUSTMENT, since=(0, 10)),
)
"""Every event that this package knows, by number."""

BY_EVENT: dict[int, Call] = {call.event: call for call in CALLS}
BY_RPC: dict[str, Call] = {call.rpc: call for call in CALLS}


def mask(events: Iterable[int]) -> int:
    """The mask for ``ConfigureResponse.events``: bit N-1 for event number N.

    No events give 0, which a runtime reads as *all that I know*. Raises ValueError for a number that is no event.
    """
    bits = 0
    for event in events:
        if event not in BY_EVENT:
            raise ValueError(f"{event} is not the number of an event; those are 1 to {len(CALLS)}")
        bits |= 1 << (event - 1)
    return bits


def events(mask: int) -> tuple[pb.Event, ...]:
    """The events that ``mask`` has a bit for, by number; none for 0, whatever the receiver makes of that.

    Raises ValueError for a bit that stands for no event, as a runtime does that gets one.
    """
    if unknown := mask & ~VALID:
        raise ValueError(f"the event mask {mask:#x} has bits that stand for no event: {unknown & 0xFFFFFFFF:#x}")
    return tuple(call.event for call in CALLS if mask & 1 << (call.event - 1))


def valid(version: Version) -> int:
    """The mask of all events that a runtime with NRI ``version``, such as ``(0, 8)``, knows."""
    return mask(call.event for call in CALLS if call.since <= version)


VALID: int = mask(BY_EVENT)
"""The mask of all events, as of NRI 0.12. A runtime older than 0.10 refuses it: see :func:`valid`."""
