"""Recordings of lifecycle events, which are files with a line of JSON for each event; and the replay of events.

A line is an object with ``event``, the name of the event's method; ``pod``; and, where the event has them,
``container``, ``resources`` (the requested ones) and ``overhead``. The last four are protobuf's JSON, with the
fields' names of the ``.proto`` files. Empty lines are ignored; an error names the place of anything else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any, TextIO

from google.protobuf import json_format
from google.protobuf.message import Message

from nri.adaptation import applying
from nri.adaptation.errors import AdaptationError, EventError
from nri.adaptation.lifecycle import LifecycleEvent
from nri.adaptation.runtime import Outcome, Runtime
from nri.errors import escape
from nri.v2 import api
from nri.v2.api import Event, events

MAX_LINE = 4 * 1024 * 1024
"""Characters of the longest line; an event has to fit into a message of 4 MiB anyway."""

_NEVER = frozenset(Event.values())
SKIPPED: dict[int, frozenset[int]] = {
    Event.RUN_POD_SANDBOX: _NEVER,
    Event.CREATE_CONTAINER: _NEVER,
    Event.START_CONTAINER: _NEVER - {Event.REMOVE_CONTAINER},
    Event.UPDATE_CONTAINER: frozenset([Event.POST_UPDATE_CONTAINER]),
    Event.UPDATE_POD_SANDBOX: frozenset([Event.POST_UPDATE_POD_SANDBOX]),
}
"""The events of a pod or container that are skipped after one of its events has failed."""

UNDOING: dict[int, tuple[int, ...]] = {
    Event.RUN_POD_SANDBOX: (Event.STOP_POD_SANDBOX, Event.REMOVE_POD_SANDBOX),
    Event.CREATE_CONTAINER: (Event.STOP_CONTAINER, Event.REMOVE_CONTAINER),
}
"""The events that a runtime sends right after one that has failed, so that plugins forget the pod or container.

Also plugins that were not asked any more, and the one that refused, get them.
"""

_PARTS: dict[str, type[Message]] = {
    "pod": api.PodSandbox,
    "container": api.Container,
    "resources": api.LinuxResources,
    "overhead": api.LinuxResources,
}
_FIELDS = {"resources": "linux_resources", "overhead": "overhead_linux_resources"}  # of requests, if named otherwise


def write(lifecycle: Iterable[LifecycleEvent], file: TextIO) -> None:
    """Write the events, a line for each."""
    for item in lifecycle:
        line: dict[str, Any] = {"event": events.BY_EVENT[item.event].rpc}
        for name in _PARTS:
            if (message := getattr(item, name)) is not None:
                line[name] = json_format.MessageToDict(message, preserving_proto_field_name=True)
        file.write(json.dumps(line, ensure_ascii=False, sort_keys=True) + "\n")


def read(path: str) -> list[LifecycleEvent]:
    """Return the events of a file.

    :raises AdaptationError: when it can't be read, or a line is invalid; the message has the number of the line.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return [_event(line, f"{escape(path)}:{number}") for number, line in _lines(file, path)]
    except OSError as error:
        raise AdaptationError(f"{escape(path)}: can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise AdaptationError(f"{escape(path)}: is not UTF-8 at byte {error.start}") from error


def _lines(file: TextIO, path: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(iter(lambda: file.readline(MAX_LINE + 1), ""), 1):
        if len(line) > MAX_LINE:
            raise AdaptationError(f"{escape(path)}:{number}: is longer than {MAX_LINE} characters")
        if line.strip():
            yield number, line


def _event(line: str, where: str) -> LifecycleEvent:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        what = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise AdaptationError(f"{where}: is not JSON: {what}") from error
    if not isinstance(value, dict):
        raise AdaptationError(f"{where}: found a {type(value).__name__}, expected an object with event and pod")
    event = value.get("event")
    method = events.BY_RPC.get(event) if isinstance(event, str) else None
    if method is None or method.event == Event.VALIDATE_CONTAINER_ADJUSTMENT:
        raise AdaptationError(f"{where}: found the event {event!r}, expected one such as RunPodSandbox")
    if unknown := value.keys() - _PARTS.keys() - {"event"}:
        raise AdaptationError(f"{where}: found the key {min(unknown)!r}, expected {', '.join(['event', *_PARTS])}")
    parts = {name: _part(value[name], name, where) for name in _PARTS if name in value}
    fields = method.request.DESCRIPTOR.fields_by_name
    wanted = [name for name in _PARTS if _FIELDS.get(name, name) in fields]
    for name in ("pod", "container"):
        if name in wanted and (name not in parts or not parts[name].id):
            raise AdaptationError(f"{where}: {method.rpc} has no {name} with an id")
    for name in parts:
        if name not in wanted:
            raise AdaptationError(f"{where}: found {name!r}, which {method.rpc} does not have")
    return LifecycleEvent(event=method.event, **parts)


def _part(value: Any, name: str, where: str) -> Any:
    message = _PARTS[name]()
    try:
        json_format.ParseDict(value, message)
    except (json_format.ParseError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise AdaptationError(f"{where}: {name}: {escape(str(error))}") from error
    return message


class Replayer:
    """Replays events on a runtime. The plugins' adjustments of a container are shown in its later events.

    A pod or container that a plugin refuses is stopped and removed at once, as containerd does; its other events are
    skipped.

    :param on_event: called after each event, with its outcome or the error that made it fail.
    :ivar failed: the number of events that failed, or had an error that was logged.
    """

    def __init__(
        self,
        runtime: Runtime,
        on_event: Callable[[LifecycleEvent, Outcome | None, EventError | None], None] | None = None,
    ) -> None:
        self.failed, self._runtime = 0, runtime
        self._on_event = on_event or (lambda item, outcome, error: None)
        self._skipped: dict[str, frozenset[int]] = {}
        self._changes: dict[str, list[api.ContainerAdjustment | api.LinuxResources]] = {}

    def replay(self, lifecycle: Iterable[LifecycleEvent]) -> None:
        """Send the events, without those that an earlier failure has made impossible."""
        for item in lifecycle:
            subjects = [item.pod.id] + ([item.container.id] if item.container is not None else [])
            if not any(item.event in self._skipped.get(id_, ()) for id_ in subjects):
                self._send(item)

    def _send(self, item: LifecycleEvent) -> None:
        container = deepcopy(item.container)
        if container is not None:
            for change in self._changes.get(container.id, ()):
                applying.apply(container, change)
        try:
            outcome = self._runtime.send(
                item.event, item.pod, container, resources=item.resources, overhead=item.overhead
            )
        except EventError as error:
            self._skipped[(container or item.pod).id] = SKIPPED.get(item.event, frozenset())
            self.failed += 1
            self._on_event(item, None, error)
            for event in UNDOING.get(item.event, ()):
                self._send(replace(item, event=event))
            return
        self.failed += outcome.error is not None
        self._note(item, outcome)
        self._on_event(item, outcome, None)

    def _note(self, item: LifecycleEvent, outcome: Outcome) -> None:
        """Keep what the event has changed, for the later events of the containers."""
        if item.container is not None and item.event == Event.CREATE_CONTAINER:
            self._changes[item.container.id] = [outcome.adjustment]
        if item.container is not None and item.event == Event.UPDATE_CONTAINER and item.resources is not None:
            self._changes.setdefault(item.container.id, []).append(item.resources)
        for update in outcome.updates:
            self._changes.setdefault(update.container_id, []).append(update.linux.resources)
