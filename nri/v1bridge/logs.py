"""The bridge's log: one line for each event and plugin.

Where it goes: to the file of ``logFile``; else, when a runtime launched the bridge and threw its stderr away, to the
journal or syslog at ``/dev/log``; else to stderr. A log that can't be written never keeps a pod from starting.
"""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
import stat
import sys
import time
from typing import TYPE_CHECKING, Any

from nri.errors import printable

if TYPE_CHECKING:
    from nri.client import Exchange
    from nri.types.v1 import Request
    from nri.v1bridge.settings import Settings

SYSLOG = "/dev/log"

log = logging.getLogger("nri.v1bridge")


def set_up(settings: Settings, *, launched: bool) -> None:
    """Send everything that ``nri`` logs where the settings say."""
    root = logging.getLogger("nri")
    root.setLevel(settings.log_level.upper())
    root.propagate = False
    handler, complaint = _handler(settings, launched=launched)
    stamped = not isinstance(handler, logging.handlers.SysLogHandler)
    handler.setFormatter(_JSON() if settings.log_format == "json" else _Text(stamped=stamped))
    for old in root.handlers[:]:
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    logging.raiseExceptions = False  # a full disk is no reason for a traceback, nor for anything else
    if complaint:
        log.error("%s", complaint)


def exchange_line(name: str, request: Request, exchange: Exchange) -> None:
    """Log what became of one plugin for one event. ``name`` is ``NAMESPACE/POD[/CONTAINER]``."""
    fields: dict[str, Any] = {
        "state": str(request.state),
        "pod" if request.is_sandbox else "container": name,
        "id": request.id[:12],
        "plugin": exchange.plugin.type,
        "ms": round(exchange.seconds * 1000, 1),
    }
    if exchange.error is not None:
        log.error("failed", extra={"fields": fields | {"error": exchange.error.reason}})
        return
    metadata = exchange.result.metadata if exchange.result is not None else {}
    log.info("ok", extra={"fields": fields | metadata})


def plugin_line(name: str, request: Request, plugin: str, line: str) -> None:
    """Log a line of a plugin's stderr."""
    fields = {"state": str(request.state), "pod" if request.is_sandbox else "container": name, "plugin": plugin}
    log.warning("%s", line, extra={"fields": fields})


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
        pairs = "".join([f" {key}={_quoted(str(value))}" for key, value in fields.items()])
        line = printable(f"{record.levelname.lower()} {text}{pairs}")
        return f"{_stamp(record)} {line}" if self._stamped else line


class _JSON(logging.Formatter):
    """One object a line."""

    def format(self, record: logging.LogRecord) -> str:
        value = {"time": _stamp(record), "level": record.levelname.lower(), "message": record.getMessage()}
        value |= getattr(record, "fields", {})
        if record.exc_info:
            value["traceback"] = self.formatException(record.exc_info)
        return json.dumps(value)


def _handler(settings: Settings, *, launched: bool) -> tuple[logging.Handler, str]:
    if settings.log_file:
        try:
            os.close(os.open(settings.log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600))
            return logging.handlers.WatchedFileHandler(settings.log_file, encoding="utf-8"), ""
        except OSError as error:
            complaint = f"the log file {settings.log_file} cannot be written: {error.strerror}"
    else:
        complaint = ""
    if launched and _is_socket(SYSLOG):
        try:
            syslog = logging.handlers.SysLogHandler(SYSLOG, logging.handlers.SysLogHandler.LOG_DAEMON)
        except OSError:
            return logging.StreamHandler(sys.stderr), complaint
        syslog.ident = f"nri-v1bridge[{os.getpid()}]: "
        return syslog, complaint
    return logging.StreamHandler(sys.stderr), complaint


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False


def _stamp(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"


def _quoted(value: str) -> str:
    return json.dumps(value) if not value or " " in value or '"' in value or "=" in value else value
