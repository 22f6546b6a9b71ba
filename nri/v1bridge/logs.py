"""The bridge's log: where it goes. What its lines say is in :mod:`nri.v1bridge.event_log`.

It goes to the file of ``logFile``; without one, to syslog or the journal at ``/dev/log`` if a runtime launched the
bridge and discards its stderr; else to stderr. A log that cannot be written never blocks a pod or fails it
(:mod:`nri.v1bridge.handlers`). When a file begins to lose lines, the bridge reports it in the log that it would use
without a file. Texts of plugins and pods are bounded, and stay within their line and field.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from nri.v1bridge.formats import JSONFormatter, TextFormatter
from nri.v1bridge.handlers import LogFile, StderrHandler, SyslogHandler, complaint

if TYPE_CHECKING:
    from nri.v1bridge.options import BridgeOptions

SYSLOG = "/dev/log"
"""The socket of syslog or the journal."""

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
    handler.setFormatter(JSONFormatter() if options.log_format == "json" else TextFormatter(stamped=stamped))
    for old in root.handlers[:]:
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    logging.raiseExceptions = False  # a full disk must not print tracebacks
    if fault:
        log.error("%s", fault)


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
    handler.setFormatter(TextFormatter(stamped=not isinstance(handler, SyslogHandler)))
    handler.handle(complaint(text))
    handler.close()
