"""The lines of an event: one with the part of each of its plugins, and what the plugins wrote to stderr.

A plugin's stderr is logged when the run has ended: at most :data:`LINES` lines of a plugin a minute. The
others are counted.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from nri.types.gojson import shorten

if TYPE_CHECKING:
    from nri.client import Client, Step
    from nri.types.v1 import Request

MAX_TEXT = 4096
"""Maximum length of an event's errors, or a plugin's line, in characters. Syslog takes no datagram of a megabyte."""

MAX_METADATA, MAX_VALUE = 32, 256
"""Maximum number of keys of metadata in a line, and maximum length of each key and value in characters."""

LINES, INTERVAL = 60, 60.0
"""Lines of a plugin's stderr that are logged within so many seconds."""

log = logging.getLogger("nri.v1bridge")


class EventLog:
    """The log of the events of a bridge. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, tuple[float, int]] = {}  # by plugin: when its minute began, and lines of stderr in it

    def begin(self, request: Request, name: str, client: Client, seconds: float | None) -> EventLines:
        """Return the log of one event.

        :param name: ``NAMESPACE/POD[/CONTAINER]``.
        :param client: runs its plugins.
        :param seconds: the time that they have; None if only their timeouts apply.
        """
        if log.isEnabledFor(logging.DEBUG):
            left: dict[str, Any] = {} if seconds is None else {"ms_left": round(seconds * 1000)}
            names = ",".join([plugin.type for plugin in client.chain(request.state, request)]) or "none"
            skipped = {f"skipped_{plugin}": why for plugin, why in client.skipped(request.state, request).items()}
            log.debug("event", extra=_about(name, request, chain=names, **left, **skipped))
        return EventLines(self, request, name)

    def said(self, request: Request, name: str, plugin: str, lines: list[str]) -> None:
        """Log what a run of a plugin wrote to stderr, within the limit."""
        self.report()
        with self._lock:
            begun, count = self._counts.get(plugin, (time.monotonic(), 0))
            self._counts[plugin] = begun, count + len(lines)
        for line in lines[: max(0, LINES - count)]:
            # Not as the message, which could imitate one of the event's lines.
            log.warning("says", extra=_about(name, request, plugin=plugin, line=shorten(line, MAX_TEXT)))

    def report(self, *, is_last: bool = False) -> None:
        """Log how many lines were left out of each plugin whose minute is over.

        :param is_last: all are over.
        """
        if not self._counts:
            return
        until = time.monotonic() - INTERVAL
        with self._lock:
            over = [plugin for plugin, (begun, _) in self._counts.items() if is_last or begun <= until]
            left_out = {plugin: self._counts.pop(plugin)[1] - LINES for plugin in over}
        for plugin, lines in left_out.items():
            if lines > 0:
                log.warning("left out", extra={"fields": {"plugin": plugin, "lines": lines}})


class EventLines:
    """The log of one event, for the thread that runs its plugins."""

    __slots__ = ("_lines", "_log", "_noted", "_plugin", "name", "request", "steps")

    def __init__(self, event_log: EventLog, request: Request, name: str) -> None:
        self.steps: list[Step] = []
        """The plugins that have run."""
        self.request, self.name = request, name
        self._log = event_log
        self._noted = 0  # steps after which a line has come
        self._plugin, self._lines = "", list[str]()  # what the plugin that runs has written

    def says(self, plugin: str, line: str) -> None:
        """Take a line that a plugin wrote to stderr, or one about it."""
        if self._noted < len(self.steps):
            self._noted = len(self.steps)
            if self.steps[-1].is_ignored:
                return  # the chain's note that this failure is ignored: the event's line has it
        self._plugin = plugin
        self._lines.append(line)

    def step(self, step: Step) -> None:
        """Take a plugin that has run."""
        self._flush()
        self.steps.append(step)

    def _flush(self) -> None:
        if self._lines:
            lines, self._lines = self._lines, []
            self._log.said(self.request, self.name, self._plugin, lines)

    def end(self, seconds: float, error: str) -> None:
        """Log the event.

        :param seconds: the time that all of its plugins took.
        :param error: its answer, if that is an error; else "".
        """
        self._flush()
        steps = self.steps
        failed = sum([step.error is not None for step in steps])
        level = logging.ERROR if error or failed else logging.INFO if steps else logging.DEBUG
        if not log.isEnabledFor(level):
            return
        fields: dict[str, Any] = {"ms": round(seconds * 1000, 1)}
        if steps:
            fields["plugins"] = [self._part(step, MAX_METADATA // len(steps) or 1, failed) for step in steps]
        if error and not failed:
            fields["error"] = shorten(error, MAX_TEXT)
        message = "failed" if error else "ignored" if failed else "answered"
        log.log(level, message, extra=_about(self.name, self.request, **fields))

    def _part(self, step: Step, keys: int, failed: int) -> dict[str, Any]:
        """Return the part of a plugin: at most so many keys of its metadata, and its share of the errors' length."""
        part: dict[str, Any] = {
            "plugin": step.plugin.type,
            "outcome": step.outcome,
            "ms": round(step.seconds * 1000, 1),
        }
        if step.error is not None:
            part["error"] = shorten(step.error.reason, max(MAX_TEXT // failed, MAX_VALUE))
        elif step.result is not None and step.result.metadata:
            pairs = list(step.result.metadata.items())[:keys]
            part["metadata"] = {shorten(key, MAX_VALUE): shorten(value, MAX_VALUE) for key, value in pairs}
        return part


def late_line(name: str, request: Request, error: str, *, is_final: bool = True) -> None:
    """Log the begin of a late ``create``, or its failure.

    :param error: the error; "" for the begin.
    :param is_final: it is not tried again.
    """
    if error:
        what = f"late create failed: {'it runs without its plugins' if is_final else 'trying again'}"
        log.error(what, extra=_about(name, request, error=shorten(error, MAX_TEXT)))
    else:
        log.info("late: it has had no create", extra=_about(name, request))


def _about(name: str, request: Request, **fields: Any) -> dict[str, Any]:
    """Return the ``extra`` of a record about a pod or container."""
    what = "pod" if request.is_sandbox else "container"
    late = {"late": True} if request.late else {}
    return {"fields": {"state": str(request.state), what: name, "id": request.id[:12], **late, **fields}}
