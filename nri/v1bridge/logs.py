"""The bridge's log: one line for each event and plugin.

It goes to the file of ``logFile``; without one, to syslog or the journal at ``/dev/log`` if a runtime launched the
bridge and discards its stderr; else to stderr. A log that cannot be written never blocks a pod or fails it
(:mod:`nri.v1bridge.handlers`). When a file begins to lose lines, the bridge reports it in the log that it would use
without a file. Texts of plugins and pods are bounded, and stay within their line and field.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from typing import TYPE_CHECKING, Any

from nri.errors import escape
from nri.types.gojson import shorten
from nri.v1bridge.handlers import LogFile, StderrHandler, SyslogHandler, complaint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.client import Step
    from nri.config.entries import PluginEntry
    from nri.types.v1 import Request
    from nri.v1bridge.options import BridgeOptions

SYSLOG = "/dev/log"
"""The socket of syslog or the journal."""

MAX_TEXT = 4096
"""Maximum length of an error or a plugin's line, in characters. Syslog takes no datagram of a megabyte."""

MAX_METADATA, MAX_VALUE = 32, 256
"""Maximum number of keys of a result's metadata, and maximum length of each key and value in characters."""

_PLAIN = re.compile(r"[^\s\"=\\]+")

log = logging.getLogger("nri.v1bridge")


def set_up(options: BridgeOptions, *, launched: bool) -> None:
    """Send the records of all ``nri`` loggers to the destination that the options name.

    :param launched: a runtime launched the bridge; its stderr is discarded.
    """
    root = logging.getLogger("nri")
    root.setLevel(options.log_level.upper())
    root.propagate = False
    handler: logging.Handler | None = None
    fault = ""
    if options.log_file:
        try:
            handler = LogFile(options.log_file, lambda text: _report(text, launched=launched))
        except OSError as error:
            fault = f"the log file {options.log_file} cannot be written: {error.strerror}"
    handler = handler or without_file(launched=launched)
    stamped = not isinstance(handler, SyslogHandler)
    handler.setFormatter(_JSON() if options.log_format == "json" else _Text(stamped=stamped))
    for old in root.handlers[:]:
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    logging.raiseExceptions = False  # a full disk must not print tracebacks
    if fault:
        log.error("%s", fault)


def step_line(name: str, request: Request, step: Step) -> None:
    """Log the outcome of one plugin for one event.

    :param name: ``NAMESPACE/POD[/CONTAINER]``.
    """
    if step.error is None and not log.isEnabledFor(logging.INFO):
        return
    fields: dict[str, Any] = {"plugin": step.plugin.type, "ms": round(step.seconds * 1000, 1)}
    if step.error is not None:
        log.error("failed", extra=_about(name, request, **fields, error=shorten(step.error.reason, MAX_TEXT)))
        return
    if step.result is not None and step.result.metadata:
        # Under a separate key: a plugin's "error" or "level" must not replace the bridge's.
        pairs = list(step.result.metadata.items())[:MAX_METADATA]
        fields["metadata"] = {shorten(key, MAX_VALUE): shorten(value, MAX_VALUE) for key, value in pairs}
    log.info("ok", extra=_about(name, request, **fields))


def event_line(name: str, request: Request, plugins: Sequence[PluginEntry], seconds: float | None) -> None:
    """Log an event at level debug, with its plugins and the seconds that they have."""
    if log.isEnabledFor(logging.DEBUG):
        left = {} if seconds is None else {"ms_left": round(seconds * 1000)}
        names = ",".join([plugin.type for plugin in plugins]) or "none"
        log.debug("event", extra=_about(name, request, plugins=names, **left))


def answer_line(name: str, request: Request, seconds: float, error: str) -> None:
    """Log the answer to an event at level debug, with the seconds that all of its plugins took."""
    if log.isEnabledFor(logging.DEBUG):
        log.debug("refused" if error else "answered", extra=_about(name, request, ms=round(seconds * 1000, 1)))


def late_line(name: str, request: Request, error: str) -> None:
    """Log the begin of a late ``create``, or its failure.

    :param error: the error; "" for the begin.
    """
    if error:
        what = "late create failed: it runs without its plugins"
        log.error(what, extra=_about(name, request, error=shorten(error, MAX_TEXT)))
    else:
        log.info("late: it started while no bridge was connected", extra=_about(name, request))


def _about(name: str, request: Request, **fields: Any) -> dict[str, Any]:
    """Return the ``extra`` of a record about a pod or container."""
    what = "pod" if request.is_sandbox else "container"
    late = {"late": True} if request.late else {}
    return {"fields": {"state": str(request.state), what: name, "id": request.id[:12], **late, **fields}}


def plugin_line(name: str, request: Request, plugin: str, line: str) -> None:
    """Log a line of a plugin's stderr."""
    fields = {"state": str(request.state), "pod" if request.is_sandbox else "container": name, "plugin": plugin}
    # Not as the message, which could imitate one of the lines above.
    log.warning("says", extra={"fields": fields | {"line": shorten(line, MAX_TEXT)}})


class _Text(logging.Formatter):
    """``TIME LEVEL MESSAGE key=value …``; without the time for syslog, which adds one."""

    def __init__(self, *, stamped: bool) -> None:
        super().__init__()
        self._stamped = stamped

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if record.exc_info:
            text += " | " + self.formatException(record.exc_info).replace("\n", " | ")
        fields: dict[str, Any] = getattr(record, "fields", {})
        pairs = "".join([f" {key}={_quoted(_text(value))}" for key, value in _flat(fields)])
        line = escape(f"{record.levelname.lower()} {text}{pairs}")
        return f"{_stamp(record)} {line}" if self._stamped else line


class _JSON(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        value = {"time": _stamp(record), "level": record.levelname.lower(), "message": record.getMessage()}
        value |= getattr(record, "fields", {})
        if record.exc_info:
            value["traceback"] = self.formatException(record.exc_info)
        return json.dumps(value)


def without_file(*, launched: bool) -> logging.Handler:
    """Return a handler for the log of a bridge without ``logFile``."""
    if launched:
        try:
            return SyslogHandler(SYSLOG)
        except OSError:
            pass  # there is no syslog
    try:
        return StderrHandler(sys.stderr.fileno())
    except (OSError, AttributeError):  # it has no descriptor: a test, or an embedding program
        return logging.StreamHandler(sys.stderr)


def _report(text: str, *, launched: bool) -> None:
    handler = without_file(launched=launched)
    handler.setFormatter(_Text(stamped=not isinstance(handler, SyslogHandler)))
    handler.handle(complaint(text))
    handler.close()


def _stamp(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"


def _flat(fields: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the fields with nested ones as keys with a dot: ``metadata.quota``."""
    flat: list[tuple[str, Any]] = []
    for key, value in fields.items():
        below = isinstance(value, dict)
        flat += [(f"{key}.{_quoted(name)}", each) for name, each in value.items()] if below else [(key, value)]
    return flat


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else json.dumps(value)


def destination() -> tuple[str, int]:
    """Return where the log goes, and how many of its lines are lost."""
    return "stderr", 0
