"""The forms of a line of the bridge's log: text, and JSON. Each text stays within its field, each record in its line.

A record has its fields in ``fields``. One of them can be ``plugins``: a list of the plugins of an event, each an
object with ``plugin``, ``outcome``, ``ms``, and ``metadata`` or ``error``.
"""

from __future__ import annotations

import json
import logging
import re
import time
from typing import TYPE_CHECKING, Any

from nri.errors import escape

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLAIN = re.compile(r"[^\s\"=\\]+")


class TextFormatter(logging.Formatter):
    """``TIME LEVEL MESSAGE key=value …``; without the time for syslog and the journal, which add one."""

    def __init__(self, *, stamped: bool) -> None:
        super().__init__()
        self._stamped = stamped

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        text = record.getMessage()
        if record.exc_info:
            text += " | " + self.formatException(record.exc_info).replace("\n", " | ")
        pairs = "".join([f" {key}={_quoted(value)}" for key, value in _flat(getattr(record, "fields", {}))])
        line = escape(f"{record.levelname.lower()} {text}{pairs}")
        return f"{_stamp(record)} {line}" if self._stamped else line


class JSONFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        value = {"time": _stamp(record), "level": record.levelname.lower(), "message": record.getMessage()}
        value |= getattr(record, "fields", {})
        if record.exc_info:
            value["traceback"] = self.formatException(record.exc_info)
        return json.dumps(value)


def _stamp(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"


def _flat(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Give the fields with plain values; the metadata of plugins have keys with a dot: ``konfine.cpus``."""
    for key, value in fields.items():
        if key != "plugins":
            yield key, str(value).lower() if isinstance(value, bool) else str(value)
    plugins = fields.get("plugins", ())
    if not plugins:
        return
    yield "plugins", ", ".join([f"{each['plugin']} {each['outcome']} {each['ms']}ms" for each in plugins])
    for each in plugins:
        for key, value in each.get("metadata", {}).items():
            yield f"{_quoted(each['plugin'])}.{_quoted(key)}", value
    if errors := [f"{each['plugin']}: {each['error']}" for each in plugins if "error" in each]:
        yield "error", "; ".join(errors)


def _quoted(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else json.dumps(value)
