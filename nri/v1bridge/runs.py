"""A chain of the bridge: what it is to run, what has come of it, and its line in the log.

An event has one line with the part of each plugin. A plugin's stderr is logged when its run has ended.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from nri.client import Client, PluginError, Step
from nri.client.chain import NO_DEADLINE
from nri.config.entries import types_of
from nri.process.conversation import NEVER, Stop
from nri.types.gojson import shorten
from nri.types.v1 import RELEASE, Request, State
from nri.v1bridge.log import quoted
from nri.v2.ttrpc import Call

MARGIN = 0.1
"""Seconds between the chain's deadline and the request's: to kill a plugin, and to send the response."""

REFUSABLE = (State.SETUP, State.CREATE, State.RESIZE)
"""States whose events an error refuses: if the runtime abandons one, nothing comes of it, and its chain ends.

A container's ``update`` comes when its new limits are in force, and its ``delete`` gives back what ``create`` has
taken: both go on.
"""

MAX_TEXT = 4096
"""Maximum length of an event's errors, or a plugin's line, in characters. Syslog takes no datagram of a megabyte."""

MAX_METADATA = 32
MAX_VALUE = 256
"""Maximum number of keys of metadata in a line, and maximum length of each key and value in characters."""

LINES = 60
INTERVAL = 60.0
"""Lines of a plugin's stderr that are logged within so many seconds."""

log = logging.getLogger("nri.v1bridge")


class Run:
    """A chain, before and after it has run.

    :param client: runs its plugins.
    :param name: ``NAMESPACE/POD[/CONTAINER]``, for the log.
    :param call: the event that it answers; None for the worker, whose chains have the timeouts of the plugins alone.
    :ivar deadline: a time of ``time.monotonic``, or ``NO_DEADLINE``.
    :ivar stop: ends it when the runtime does not wait for it any more; None if it goes on then.
    :ivar steps: the plugins that have run.
    :ivar said: what the plugin that runs has written to stderr: its type and a line each.
    :ivar seconds: the time that all of its plugins took.
    :ivar error: its answer, if that is an error; else "". It is fit for the runtime.
    """

    def __init__(
        self, client: Client, request: Request, name: str, call: Call | None = None
    ) -> None:
        self.client = client
        self.request = request
        self.name = name
        self.steps: list[Step] = []
        self.said: list[tuple[str, str]] = []
        self.seconds = 0.0
        self.error = ""
        self.deadline = NO_DEADLINE
        self.stop = NEVER
        if call is None:
            return
        self.deadline = call.deadline - MARGIN
        if call.is_late:  # as much time as it would have had: other events wait
            self.deadline += time.monotonic() - call.received
        if request.state in REFUSABLE:
            self.stop = Stop()
            call.on_abandoned = self.stop.set
            if call.is_abandoned:
                self.stop.set()

    @property
    def errors(self) -> list[tuple[str, PluginError]]:
        """The failures and refusals, each with the plugin's type."""
        errors = []
        for step in self.steps:
            if step.error is not None:
                errors.append((step.plugin.type, step.error))
        return errors


class EventLog:
    """The log of the events of a bridge. All methods may be called from any thread.

    At most ``LINES`` lines of a plugin's stderr are logged a minute; the others are counted.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By plugin: when its minute began, and lines of stderr in it.
        self._counts: dict[str, tuple[float, int]] = {}

    def begin(self, run: Run) -> None:
        """Log what is to run, for who looks closely."""
        if log.isEnabledFor(logging.DEBUG):
            client = run.client
            request = run.request
            names = ",".join(types_of(client.chain(request.state, request))) or "none"
            pairs: list[tuple[str, object]] = [("chain", names)]
            if run.deadline != NO_DEADLINE:
                pairs.append(("ms_left", round((run.deadline - time.monotonic()) * 1000)))
            for plugin, reason in client.skipped(request.state, request):
                pairs.append((f"skipped_{plugin.type}", reason))
            log.debug("event", extra=_about(run.name, request, *pairs))

    def step(self, run: Run, step: Step) -> None:
        """Take a plugin that has run."""
        self._say(run)
        run.steps.append(step)

    def end(self, run: Run) -> None:
        """Log the event."""
        self._say(run)
        level, message = _outcome(run)
        if not log.isEnabledFor(level):
            return
        pairs: list[tuple[str, object]] = [("ms", round(run.seconds * 1000, 1))]
        if run.steps:
            parts = []
            for step in run.steps:
                parts.append(f"{step.plugin.type} {step.outcome} {round(step.seconds * 1000, 1)}ms")

            pairs.append(("plugins", ", ".join(parts)))
        pairs += _metadata(run.steps)
        error = _shown(run.errors) or shorten(run.error, MAX_TEXT)
        if error:
            pairs.append(("error", error))
        log.log(level, message, extra=_about(run.name, run.request, *pairs))

    def _say(self, run: Run) -> None:
        """Log what a plugin has written to stderr, within the limit."""
        if not run.said:
            return
        self.report()
        plugin = run.said[0][0]
        lines = [line for _, line in run.said]
        run.said.clear()
        with self._lock:
            begun, count = self._counts.get(plugin, (time.monotonic(), 0))
            self._counts[plugin] = begun, count + len(lines)
        for line in lines[: max(0, LINES - count)]:
            # Not as the message, which could imitate one of the event's lines.
            text = shorten(line, MAX_TEXT)
            log.warning(
                "says", extra=_about(run.name, run.request, ("plugin", plugin), ("line", text))
            )

    def report(self, after: float = INTERVAL) -> None:
        """Log how many lines were left out of each plugin whose minute is over.

        :param after: seconds from its begin; 0 for all.
        """
        until = time.monotonic() - after
        with self._lock:
            for plugin, (begun, lines) in [*self._counts.items()]:
                if begun > until:
                    continue
                del self._counts[plugin]
                if lines > LINES:
                    fields = [("plugin", plugin), ("lines", lines - LINES)]
                    log.warning("left out", extra={"fields": fields})


def late_begins(name: str, request: Request, *, is_again: bool) -> None:
    """Log the begin of a late ``create``, or of a release (``delete``).

    :param is_again: its plugins have had a ``create``, with another configuration.
    """
    reason = "its configuration has changed" if is_again else "it has had no create"
    log.info("late: %s", reason, extra=_about(name, request))


def late_failed(name: str, request: Request, error: str, *, is_final: bool) -> None:
    """Log the failure of a late ``create``, or of a release (``delete``).

    :param is_final: it is not tried again.
    """
    subject = "late create"
    means = "it runs without its plugins"
    if request.state == State.DELETE:
        subject = "release"
        means = "it keeps what the plugin has done"
    if not is_final:
        means = "trying again"
    message = f"{subject} failed: {means}"
    log.error(message, extra=_about(name, request, ("error", shorten(error, MAX_TEXT))))


def _about(name: str, request: Request, *pairs: tuple[str, object]) -> dict[str, Any]:
    """Return the ``extra`` of a record about a pod or container."""
    kind = "pod" if request.is_sandbox else "container"
    late = [("late", "true")] if request.late else []
    state = RELEASE if request.release else request.state
    return {"fields": [("state", state), (kind, name), ("id", request.id[:12]), *late, *pairs]}


def _outcome(run: Run) -> tuple[int, str]:
    """Return the level of an event's line, and its message."""
    failures = {step.outcome for step in run.steps} - {"ok"}
    if failures == {"refused"}:
        return logging.WARNING, "refused"
    if run.error:
        return logging.ERROR, "failed"
    if failures:
        return logging.ERROR, "ignored"
    if run.steps:
        return logging.INFO, "answered"
    return logging.DEBUG, "answered"


def _metadata(steps: list[Step]) -> list[tuple[str, object]]:
    """Return the beginning of what the plugins say that they have done."""
    most = max(1, MAX_METADATA // max(1, len(steps)))
    pairs: list[tuple[str, object]] = []
    for step in steps:
        if step.result is not None:
            name = quoted(step.plugin.type)
            for key, value in [*step.result.metadata.items()][:most]:
                short = quoted(shorten(key, MAX_VALUE))
                pairs.append((f"{name}.{short}", shorten(value, MAX_VALUE)))
    return pairs


def _shown(errors: list[tuple[str, PluginError]]) -> str:
    """Return what has failed, each with its share of the line; "" if nothing has."""
    longest = max(MAX_TEXT // max(1, len(errors)), MAX_VALUE)
    return "; ".join([f"{name}: {shorten(error.reason, longest)}" for name, error in errors])
