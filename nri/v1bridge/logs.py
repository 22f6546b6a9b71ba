"""The bridge's log: where it goes. What its lines say is in :mod:`nri.v1bridge.event_log`.

It goes to the file of ``logFile``. Without one, the log of a bridge that a runtime launched, whose stderr is
discarded, goes to the first of these that there is: syslog at ``/dev/log``, where journald listens as well; a file
that keeps its own size (:mod:`nri.v1bridge.rotating`); stderr. Any other bridge logs to stderr, or to syslog if its
stderr is the journal: there each line has its priority.

A log that cannot be written never blocks a pod or fails it (:mod:`nri.v1bridge.handlers`). When a file begins to lose
lines, the bridge reports it in the log that it would use without a file.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

from nri.v1bridge import rotating
from nri.v1bridge.formats import JSONFormatter, TextFormatter
from nri.v1bridge.handlers import LogFile, LossyHandler, StderrHandler, complaint
from nri.v1bridge.rotating import HeldLines, RotatingFile
from nri.v1bridge.syslog import SyslogHandler

if TYPE_CHECKING:
    from nri.v1bridge.options import BridgeOptions

SYSLOG = "/dev/log"
"""The socket of syslog."""

STREAM = "JOURNAL_STREAM"
"""The variable that systemd sets for a service whose stderr is the journal: device and inode, systemd.exec(5)."""

log = logging.getLogger("nri.v1bridge")
_lost_before = [0]  # lines that replaced handlers have lost


def set_up(options: BridgeOptions, *, launched: bool, is_final: bool = True) -> None:
    """Send the records of all ``nri`` loggers to the destination that the options name.

    :param launched: a runtime launched the bridge; its stderr is discarded.
    :param is_final: False if the runtime has yet to pass the options: no file is made that they may not want.
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
    handler = handler or without_file(launched=launched) or (_own_file if is_final else _held)(options)
    handler.setFormatter(_formatter(handler, options.log_format))
    for old in root.handlers[:]:
        root.removeHandler(old)
        if isinstance(old, HeldLines):
            old.hand_over(handler)
        elif isinstance(old, LossyHandler):
            _lost_before[0] += old.lost
        old.close()
    root.addHandler(handler)
    logging.raiseExceptions = False  # a full disk must not print tracebacks
    if fault:
        log.error("%s", fault)
    if isinstance(handler, RotatingFile):
        _to_stderr(logging.INFO, f"syslog is not there: logging to {handler.to}")


def destination() -> tuple[str, int]:
    """Return where the log goes, and the number of lines that it has lost since the bridge was started.

    :returns: ``syslog``, ``stderr`` or the path of a file; ``memory`` until a runtime has configured
        a bridge that it launched, on a node where the log then goes to a file.
    """
    lost = _lost_before[0]
    for handler in logging.getLogger("nri").handlers:
        if isinstance(handler, LossyHandler):
            return handler.to, lost + handler.lost
        if isinstance(handler, HeldLines):
            return "memory", lost
    return "stderr", lost


def without_file(*, launched: bool) -> logging.Handler | None:
    """Return a handler for the log of a bridge without a file; None for a discarded stderr if no other is there."""
    try:
        if launched or _is_journal():
            return SyslogHandler(SYSLOG)
    except OSError:
        pass  # there is no syslog, or its socket is not in this container
    return None if launched else _stderr()


def _is_journal() -> bool:
    """Return whether descriptor 2 is a stream to the journal."""
    try:
        status = os.fstat(2)
    except OSError:
        return False
    return os.environ.get(STREAM) == f"{status.st_dev}:{status.st_ino}"


def _held(options: BridgeOptions) -> logging.Handler:
    return HeldLines(lambda: _own_file(options))


def _own_file(options: BridgeOptions) -> logging.Handler:
    """Return a handler for a file of the bridge's own, or for stderr if there can be none."""
    for path, max_bytes in rotating.candidates(options.record_file):
        try:
            handler = RotatingFile(path, max_bytes, lambda text: _to_stderr(logging.ERROR, text))
        except OSError as error:
            _to_stderr(logging.WARNING, f"the log cannot be written to {path}: {error.strerror}")
        else:
            handler.setFormatter(_formatter(handler, options.log_format))
            return handler
    return _stderr()


def _stderr() -> logging.Handler:
    try:
        return StderrHandler(sys.stderr.fileno())
    except (OSError, AttributeError):  # it has no descriptor: a test, or an embedding program
        return logging.StreamHandler(sys.stderr)


def _formatter(handler: logging.Handler, log_format: str) -> logging.Formatter:
    if log_format == "json":
        return JSONFormatter()
    return TextFormatter(stamped=not isinstance(handler, SyslogHandler))


def _report(text: str, *, launched: bool) -> None:
    _once(without_file(launched=launched) or _stderr(), logging.ERROR, text)


def _to_stderr(level: int, text: str) -> None:
    _once(_stderr(), level, text)


def _once(handler: logging.Handler, level: int, text: str) -> None:
    """Log one line to a handler of its own."""
    handler.setFormatter(_formatter(handler, "text"))
    handler.handle(complaint(text, level))
    handler.close()
