"""The bridge's log: one line for each event and plugin.

Where it goes: to the file of ``logFile``; else, when a runtime launched the bridge and threw its stderr away, to the
journal or syslog at ``/dev/log``; else to stderr. A log that can't be written never keeps a pod from starting, nor
waiting: what file, syslog or stderr don't take at once is lost. A file (:mod:`nri.v1bridge.logfile`) and stderr
(:mod:`nri.v1bridge.stderr`) say how many lines that were; of a file it is said at once where a log without a file
would go. What plugins and pods say is bounded, and stays within its line and its field.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import stat
import time
from typing import TYPE_CHECKING, Any

from nri.errors import escape
from nri.types.gojson import shorten
from nri.v1bridge import stderr
from nri.v1bridge.logfile import LogFile
from nri.v1bridge.lossy import complaint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.client import Step
    from nri.config.entries import PluginEntry
    from nri.types.v1 import Request
    from nri.v1bridge.options import BridgeOptions

SYSLOG = "/dev/log"

TIMEOUT = 0.01
"""Seconds that syslog gets to take a line. When it takes none, it gets none for a while: :data:`BACKOFF`."""

BACKOFF = 1.0
"""Seconds."""

MAX_TEXT = 4096
"""Characters of an error or of a line in the log; a plugin may write a megabyte, and syslog then takes nothing."""

MAX_METADATA, MAX_VALUE = 32, 256
"""Keys of a result's metadata that are logged, and characters of each key and value."""

_DAEMON = 3 << 3  # syslog's facility
_SEVERITY = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3}
_PLAIN = re.compile(r"[^\s\"=\\]+")

log = logging.getLogger("nri.v1bridge")


def set_up(settings: BridgeOptions, *, launched: bool) -> None:
    """Send everything that ``nri`` logs where the settings say."""
    root = logging.getLogger("nri")
    root.setLevel(settings.log_level.upper())
    root.propagate = False
    handler, wrong = _handler(settings, launched=launched)
    stamped = not isinstance(handler, _Syslog)
    handler.setFormatter(_JSON() if settings.log_format == "json" else _Text(stamped=stamped))
    for old in root.handlers[:]:
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    logging.raiseExceptions = False  # a full disk is no reason for a traceback, nor for anything else
    if wrong:
        log.error("%s", wrong)


def step_line(name: str, request: Request, step: Step) -> None:
    """Log what became of one plugin for one event. ``name`` is ``NAMESPACE/POD[/CONTAINER]``."""
    if step.error is None and not log.isEnabledFor(logging.INFO):
        return
    fields = _subject(name, request) | {"plugin": step.plugin.type, "ms": round(step.seconds * 1000, 1)}
    if step.error is not None:
        log.error("failed", extra={"fields": fields | {"error": shorten(step.error.reason, MAX_TEXT)}})
        return
    if step.result is not None and step.result.metadata:
        # Below a key of its own: a plugin's "error" or "level" is not the bridge's.
        pairs = list(step.result.metadata.items())[:MAX_METADATA]
        fields["metadata"] = {shorten(key, MAX_VALUE): shorten(value, MAX_VALUE) for key, value in pairs}
    log.info("ok", extra={"fields": fields})


def event_line(name: str, request: Request, plugins: Sequence[PluginEntry], seconds: float | None) -> None:
    """Log an event at level debug: the plugins that it is for, and the time that they have."""
    if log.isEnabledFor(logging.DEBUG):
        fields = _subject(name, request) | {"plugins": ",".join([plugin.type for plugin in plugins]) or "none"}
        if seconds is not None:
            fields["ms_left"] = round(seconds * 1000)
        log.debug("event", extra={"fields": fields})


def answer_line(name: str, request: Request, seconds: float, error: str) -> None:
    """Log the answer to an event at level debug, with the time that all of its plugins took."""
    if log.isEnabledFor(logging.DEBUG):
        fields = _subject(name, request) | {"ms": round(seconds * 1000, 1)}
        log.debug("refused" if error else "answered", extra={"fields": fields})


def _subject(name: str, request: Request) -> dict[str, Any]:
    what = "pod" if request.is_sandbox else "container"
    return {"state": str(request.state), what: name, "id": request.id[:12]}


def plugin_line(name: str, request: Request, plugin: str, line: str) -> None:
    """Log a line of a plugin's stderr."""
    fields = {"state": str(request.state), "pod" if request.is_sandbox else "container": name, "plugin": plugin}
    # Not as the message: it could then look like one of the lines above.
    log.warning("says", extra={"fields": fields | {"line": shorten(line, MAX_TEXT)}})


class _Text(logging.Formatter):
    """``TIME LEVEL MESSAGE key=value …``; syslog has a time of its own."""

    def __init__(self, *, stamped: bool) -> None:
        super().__init__()
        self._stamped = stamped

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if record.exc_info:
            text += " | " + self.formatException(record.exc_info).replace("\n", " | ")
        fields: dict[str, Any] = getattr(record, "fields", {})
        pairs = "".join([f" {key}={_quoted(str(value))}" for key, value in _flat(fields)])
        line = escape(f"{record.levelname.lower()} {text}{pairs}")
        return f"{_stamp(record)} {line}" if self._stamped else line


class _JSON(logging.Formatter):
    """One object a line."""

    def format(self, record: logging.LogRecord) -> str:
        value = {"time": _stamp(record), "level": record.levelname.lower(), "message": record.getMessage()}
        value |= getattr(record, "fields", {})
        if record.exc_info:
            value["traceback"] = self.formatException(record.exc_info)
        return json.dumps(value)


class _Syslog(logging.Handler):
    """Sends to syslog, or the journal, each line as a datagram."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._sulking = 0.0
        self._socket: socket.socket | None = self._connect()

    def emit(self, record: logging.LogRecord) -> None:
        """Send it, or lose it."""
        if time.monotonic() < self._sulking:
            return
        try:
            priority = _DAEMON | _SEVERITY.get(record.levelno, 2)
            data = f"<{priority}>nri-v1bridge[{os.getpid()}]: {self.format(record)}".encode()
        except Exception:
            self.handleError(record)  # silent, see set_up
            return
        for _ in range(2):
            try:
                self._socket = self._socket or self._connect()
                self._socket.send(data)
            except TimeoutError:
                break
            except OSError:  # it was restarted, perhaps
                self._disconnect()
            else:
                return
        self._sulking = time.monotonic() + BACKOFF

    def close(self) -> None:
        """Close the socket."""
        self._disconnect()
        super().close()

    def _connect(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sock.settimeout(TIMEOUT)
        try:
            sock.connect(self._path)
        except BaseException:
            sock.close()
            raise
        return sock

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _handler(settings: BridgeOptions, *, launched: bool) -> tuple[logging.Handler, str]:
    wrong = ""
    if settings.log_file:
        try:
            return LogFile(settings.log_file, lambda text: _say_elsewhere(text, launched=launched)), ""
        except OSError as error:
            wrong = f"the log file {settings.log_file} cannot be written: {error.strerror}"
    return _without_file(launched=launched), wrong


def _without_file(*, launched: bool) -> logging.Handler:
    if launched and _is_socket(SYSLOG):
        try:
            return _Syslog(SYSLOG)
        except OSError:
            pass
    return stderr.handler()


def _say_elsewhere(text: str, *, launched: bool) -> None:
    handler = _without_file(launched=launched)
    handler.setFormatter(_Text(stamped=not isinstance(handler, _Syslog)))
    handler.handle(complaint(text))
    handler.close()


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False


def _stamp(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"


def _flat(fields: dict[str, Any]) -> list[tuple[str, Any]]:
    """Fields below a field as fields with a dot: ``metadata.quota``."""
    flat: list[tuple[str, Any]] = []
    for key, value in fields.items():
        below = isinstance(value, dict)
        flat += [(f"{key}.{_quoted(name)}", each) for name, each in value.items()] if below else [(key, value)]
    return flat


def _quoted(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else json.dumps(value)
