"""Merges the answers of several plugins to one event, as NRI does; two requests for the same field are a conflict.

:mod:`.adjusting` merges adjustments, :mod:`.updating` merges updates, and :mod:`.owners` records which plugin owns
what. Hooks and device rules of all plugins are appended.

Source: pkg/adaptation/result.go of containerd/nri. NRI does not pass on evictions that are part of an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, TypeVar

from google.protobuf import json_format
from google.protobuf.message import Message

from nri.adaptation.adjusting import AdjustmentMerger
from nri.adaptation.errors import AdaptationError
from nri.adaptation.owners import Owners
from nri.adaptation.updating import UpdateMerger
from nri.errors import escape
from nri.v2 import api

Response = api.CreateContainerResponse | api.UpdateContainerResponse | api.StopContainerResponse

RESPONSES: dict[str, type[Response]] = {
    "CreateContainer": api.CreateContainerResponse,
    "UpdateContainer": api.UpdateContainerResponse,
    "StopContainer": api.StopContainerResponse,
}
"""The events whose answers are merged, and their answers."""

_M = TypeVar("_M", bound=Message)


class Merger:
    """Merges the plugins' answers to the event of this name.

    :param container: the container of the event, if it has one; not changed.
    :param resources: what the runtime's client asks for in UpdateContainer; not changed.
    :ivar container: the container that the next plugin is shown.
    :ivar resources: the requested resources that the next plugin is shown.
    :ivar evictions: the evictions that plugins asked for, which NRI ignores.
    """

    def __init__(
        self, event: str, container: api.Container | None = None, resources: api.LinuxResources | None = None
    ) -> None:
        self.container, self.resources = deepcopy(container or api.Container()), api.LinuxResources()
        if resources is not None:
            self.resources.CopyFrom(resources)
        self.owners = Owners(event)
        self.evictions: list[api.ContainerEviction] = []
        self._event = event
        self._adjustments = AdjustmentMerger(self.container, self.owners) if event == "CreateContainer" else None
        self._updates = UpdateMerger(
            event,
            self.owners,
            self.resources,
            created=self.container.id if event == "CreateContainer" else None,
            updated=self.container.id if event == "UpdateContainer" else None,
        )

    @property
    def adjustment(self) -> api.ContainerAdjustment:
        """The merged adjustment of the container that is being created; empty for other events."""
        return api.ContainerAdjustment() if self._adjustments is None else self._adjustments.adjustment

    @property
    def updates(self) -> list[api.ContainerUpdate]:
        """The merged updates; that of the container of UpdateContainer is the last one."""
        return self._updates.updates

    @property
    def own_update(self) -> api.ContainerUpdate | None:
        """The merged update of the container of UpdateContainer, if a plugin asked for one."""
        return self._updates.own

    def add(self, response: Message | None, plugin: str) -> None:
        """Add a plugin's answer; None, and the answer to an event that changes nothing, has no effect.

        :raises ConflictError: when another plugin, or this one before, owns a part of it.
        :raises EventError: for an update of the container that is being created.
        """
        adjust = getattr(response, "adjust", None)
        if self._adjustments is not None and adjust is not None:  # one that is not set changes nothing either
            self._adjustments.add(adjust, plugin)
        self._updates.add(getattr(response, "update", ()), plugin)
        self.evictions += getattr(response, "evict", ())

    def response(self) -> Response:
        """Return the merged answer.

        :raises AdaptationError: for an event whose answers are not merged.
        """
        if (kind := RESPONSES.get(self._event)) is None:
            raise AdaptationError(f"found the event {self._event!r}, expected {', '.join(RESPONSES)}")
        if kind is api.CreateContainerResponse:
            return api.CreateContainerResponse(adjust=self.adjustment, update=self.updates)
        return kind(update=self.updates)


def merge(
    event: str,
    container: api.Container | Mapping[str, Any],
    responses: Iterable[tuple[str, Message | Mapping[str, Any] | None]],
    resources: api.LinuxResources | Mapping[str, Any] | None = None,
) -> Response:
    """Return what NRI makes of the plugins' answers to one event. No argument is changed.

    A dictionary in place of a message is protobuf's JSON, with the names of the ``.proto`` files or in camelCase.

    :param event: ``CreateContainer``, ``UpdateContainer`` or ``StopContainer``.
    :param container: the container of the event.
    :param responses: the name of each plugin, as in ``10-logger``, with its answer, in the order in which they are
        asked. None: it had no answer.
    :param resources: what the runtime's client asks for in UpdateContainer.
    :raises ConflictError: when two plugins, or one plugin twice, set the same thing.
    :raises EventError: when a plugin updates the container that is being created.
    :raises AdaptationError: for another event, or an argument that is no message or dictionary of the expected type.
    """
    if event not in RESPONSES:
        raise AdaptationError(f"found the event {event!r}, expected {', '.join(RESPONSES)}")
    merger = Merger(
        event,
        _message(api.Container, container, "container"),
        None if resources is None else _message(api.LinuxResources, resources, "resources"),
    )
    for plugin, response in responses:
        if response is not None:
            merger.add(_message(RESPONSES[event], response, f"the response of {plugin}"), plugin)
    return merger.response()


def _message(kind: type[_M], value: Message | Mapping[str, Any], where: str) -> _M:
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise AdaptationError(f"{where}: found {type(value).__name__}, expected {kind.__name__} or a dictionary")
    message = kind()
    try:
        json_format.ParseDict(dict(value), message)
    except (json_format.ParseError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise AdaptationError(f"{where}: {escape(str(error))}") from error
    return message
