"""The merging of the embedded runtime alone, for answers that a test makes up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from google.protobuf import json_format
from google.protobuf.message import Message

from nri.adaptation.merging import Merger
from nri.v2 import api

RESPONSES: dict[str, Any] = {
    "CreateContainer": api.CreateContainerResponse,
    "UpdateContainer": api.UpdateContainerResponse,
    "StopContainer": api.StopContainerResponse,
}
M = TypeVar("M", bound=Message)


def merge(
    event: str,
    container: api.Container | Mapping[str, Any],
    responses: Iterable[tuple[str, Message | Mapping[str, Any] | None]],
    resources: Mapping[str, Any] | None = None,
) -> Any:
    """Return the merged answer of plugins, None for one without; a dictionary is protobuf's JSON of a message."""
    wanted = None if resources is None else message(api.LinuxResources, resources)
    merger = Merger(event, message(api.Container, container), wanted)
    for plugin, response in responses:
        if response is not None:
            merger.add(message(RESPONSES[event], response), plugin)
    if event == "CreateContainer":
        return api.CreateContainerResponse(adjust=merger.adjustment, update=merger.updates)
    return RESPONSES[event](update=merger.updates)


def message(kind: type[M], value: Message | Mapping[str, Any]) -> M:
    """Return a message of this kind."""
    if isinstance(value, kind):
        return value
    assert isinstance(value, Mapping)
    return json_format.ParseDict(dict(value), kind())
