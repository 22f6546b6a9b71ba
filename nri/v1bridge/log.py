"""The bridge's log: one writer thread behind a bounded queue.

All lines go to one place: the file of ``logFile``; for a bridge that a runtime launched, syslog at ``/dev/log``,
where journald listens as well, or a file that keeps its own size if there is none; for any other bridge, stderr, or
syslog if its stderr is the journal: there each line has its priority.

Each text stays within its field, each record in its line. A record has its fields in ``fields``, as pairs
(``nri.v1bridge.runs`` has those of events).

A place that blocks, is full or is gone stops the writer, never an event: it tries again until the line is taken. When
the queue is full, lines are lost, and counted. The next line that gets through says so, and the status does.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import json
import logging
import os
import queue
import re
import select
import signal
import threading
import time
from collections.abc import Callable
from logging.handlers import RotatingFileHandler, SysLogHandler, WatchedFileHandler
from typing import Any

from nri import trust
from nri.errors import NRIError, escape, reason_of
from nri.files import open_log
from nri.places import DEFAULT_RECORD_DIR, beside
from nri.v1bridge.options import BridgeOptions

SYSLOG = "/dev/log"
"""The socket of syslog."""

IDENTIFIER = "nri-v1bridge"
"""The name of the bridge's lines in syslog: ``journalctl -t nri-v1bridge``."""

STREAM = "JOURNAL_STREAM"
"""The variable that systemd sets for a service whose stderr is the journal: device and inode, systemd.exec(5)."""

DIRECTORY = "/var/log/nri"
"""The directory of the file that keeps its own size."""

MAX_BYTES = 4 * 1024 * 1024
OLD_FILES = 2
"""Size at which that file is replaced, and how many older ones are kept."""

MAX_LINES = 1000
"""Lines that wait for the writer."""

DRAINED_WITHIN = 0.5
"""Seconds that the writer has for them when the bridge ends."""

AGAIN_AFTER = 1.0
"""Seconds after which a line that was not taken is tried again."""

_PLAIN = re.compile(r"[^\s\"=\\]+")

Place = tuple[str, Callable[[], logging.Handler]]
"""``syslog``, ``stderr`` or the path of a file, and what opens it."""


class Log(logging.Handler):
    """The handler of all loggers of ``nri`` in a bridge's process. Until ``use``, lines wait in the queue."""

    def __init__(self) -> None:
        super().__init__()
        self.place: Place = ("", logging.NullHandler)
        self.lost = 0
        """The number of lines that were lost."""
        self.fault = ""
        """Why the line that the writer has is not taken."""
        self.waiting: queue.SimpleQueue[logging.LogRecord | None] = queue.SimpleQueue()
        self._why = ""  # why the last one was lost
        self._reported = 0  # of `lost`
        self._is_ending = threading.Event()
        self._is_over = threading.Event()  # no thread writes
        self._is_over.set()

    def use(self, place: Place) -> None:
        """Write to this place from now on."""
        self.place = place
        self._is_ending.clear()
        if self._is_over.is_set():
            self._is_over.clear()
            threading.Thread(target=self._run, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a line, or lose it."""
        try:
            record.msg = record.getMessage()
            record.args = None
        except Exception as error:  # its values do not fit
            self._lose(f"{type(error).__name__}: {error}")
            return
        if self.waiting.qsize() >= MAX_LINES:
            self._lose(self.fault or "the log takes no more")
        else:
            self.waiting.put(record)

    def drain(self) -> None:
        """Wait until all lines are written, at most ``DRAINED_WITHIN``; no line follows."""
        self._is_ending.set()
        self.waiting.put(None)
        self._is_over.wait(DRAINED_WITHIN)

    def _lose(self, reason: str) -> None:
        self.lost += 1
        self._why = reason

    def _run(self) -> None:
        # Other threads handle signals.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._write()
        finally:
            self._is_over.set()

    def _write(self) -> None:
        """Write what is queued, until the end."""
        place: Place | None = None
        handler: logging.Handler = logging.NullHandler()
        record = self.waiting.get()
        while record is not None:
            try:
                if place is not self.place:
                    _close(handler)
                    place = self.place
                    handler = _opened(place, may_be_cut=bool(self.fault))
                if (lost := self.lost) > self._reported:
                    text = f"{lost - self._reported} lines before this one are lost: {self._why}"
                    handler.handle(
                        logging.LogRecord("nri", logging.WARNING, "", 0, text, None, None)
                    )
                    self._reported = lost
                handler.handle(record)
            except Exception as error:
                _close(handler)
                place = None  # it is opened again
                is_of_line = (
                    not isinstance(error, OSError | NRIError)
                    or getattr(error, "errno", 0) == errno.EMSGSIZE
                )
                self.fault = "" if is_of_line else reason_of(error)
                if self.fault and not self._is_ending.wait(AGAIN_AFTER):
                    continue
                self._lose(reason_of(error))
            else:
                self.fault = ""
            record = self.waiting.get()
        _close(handler)


def _opened(place: Place, *, may_be_cut: bool) -> logging.Handler:
    """Return the handler of a place.

    :param may_be_cut: a full disk may have cut its last line.
    """
    name, make = place
    handler = make()
    handler.setFormatter(TextFormatter(stamped=name != "syslog"))
    setattr(handler, "handleError", _reraise)  # noqa: B010 - the line is tried again
    if may_be_cut and isinstance(handler, logging.FileHandler):
        _end_line(handler.stream)
    return handler


def _end_line(stream: Any) -> None:
    if os.fstat(stream.fileno()).st_size:
        stream.write("\n")


def _close(handler: logging.Handler) -> None:
    with contextlib.suppress(OSError):  # what it has not written is lost
        handler.close()


bridge_handler = Log()


def set_up(options: BridgeOptions, *, launched: bool, is_final: bool = True) -> None:
    """Send the records of all ``nri`` loggers to the place that the options name.

    :param launched: a runtime launched the bridge; its stderr is discarded.
    :param is_final: False if the runtime has yet to pass the options: lines wait for them.
    """
    logger = logging.getLogger("nri")
    logger.setLevel(options.log_level.upper())
    logger.propagate = False
    logger.handlers[:] = [bridge_handler]
    if is_final:
        bridge_handler.use(_place(options, launched=launched))


def take_tracebacks() -> None:
    """Log the exceptions that end a thread, which Python would write to stderr; before any thread starts."""
    threading.excepthook = _take_traceback
    # A background process of a terminal with ``tostop`` must not be stopped when it writes.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTTOU,))


def _take_traceback(arguments: threading.ExceptHookArgs) -> None:
    logging.getLogger("nri").error("unexpected error", exc_info=arguments.exc_value)


def describe() -> dict[str, Any]:
    """Return what the status says of the log: docs/status.md."""
    return {
        "to": bridge_handler.place[0] or None,
        "lost": bridge_handler.lost,
        "fault": bridge_handler.fault or None,
    }


def drain() -> None:
    """Write what waits, for a bounded time: the process ends."""
    if not bridge_handler.place[0]:  # a runtime has never passed the options
        bridge_handler.use(_place(BridgeOptions(), launched=True))
    bridge_handler.drain()
    atexit.unregister(logging.shutdown)  # it would wait for a place that blocks


def _place(options: BridgeOptions, *, launched: bool) -> Place:
    if options.log_file:
        return options.log_file, lambda: _PrivateFile(options.log_file)
    is_for_syslog = launched or _is_journal()
    if is_for_syslog and os.path.exists(SYSLOG):
        return "syslog", _syslog
    if not launched:
        return "stderr", _Stderr
    path = beside(options.record_dir, ".log")
    if options.record_dir == DEFAULT_RECORD_DIR:  # another record is another bridge's
        path = f"{DIRECTORY}/{os.path.basename(path)}"
    return path, lambda: _own_file(path)


def _syslog() -> logging.Handler:
    handler = SysLogHandler(SYSLOG, SysLogHandler.LOG_DAEMON)
    handler.ident = f"{IDENTIFIER}[{os.getpid()}]: "
    handler.append_nul = False
    return handler


class _Stderr(logging.Handler):
    """Descriptor 2."""

    def emit(self, record: logging.LogRecord) -> None:
        data = f"{self.format(record)}\n".encode("utf-8", "backslashreplace")
        while data:
            try:
                data = data[os.write(2, data) :]
            except BlockingIOError:  # another process that shares it has made it non-blocking
                select.select([], [2], [])


def _own_file(path: str) -> logging.Handler:
    """Return the handler of a file that keeps its own size; nothing else rotates it. Root alone can read it."""
    trust.make_private(os.path.dirname(path))
    return _PrivateRotatingFile(path, maxBytes=MAX_BYTES, backupCount=OLD_FILES)


class _Private(logging.FileHandler):
    def _open(self) -> Any:
        return open(open_log(self.baseFilename), "a", encoding="utf-8", errors="backslashreplace")


class _PrivateFile(_Private, WatchedFileHandler):
    """A file that may be rotated or removed by others."""


class _PrivateRotatingFile(_Private, RotatingFileHandler):
    """A file that no other program rotates."""


def _is_journal() -> bool:
    """Return whether descriptor 2 is a stream to the journal."""
    try:
        status = os.fstat(2)
    except OSError:
        return False
    return os.environ.get(STREAM) == f"{status.st_dev}:{status.st_ino}"


def _reraise(_record: logging.LogRecord) -> None:
    raise  # noqa: PLE0704 - logging calls this in its handler of an exception


class TextFormatter(logging.Formatter):
    """``TIME LEVEL MESSAGE key=value …``; without the time for syslog and the journal, which add one."""

    converter = time.gmtime  # type: ignore[assignment]
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self, *, stamped: bool) -> None:
        super().__init__()
        self._stamped = stamped

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        text = record.getMessage()
        if record.exc_info:
            text += " | " + self.formatException(record.exc_info).replace("\n", " | ")
        pairs = "".join(
            [f" {key}={quoted(str(value))}" for key, value in getattr(record, "fields", ())]
        )
        line = escape(f"{record.levelname.lower()} {text}{pairs}")
        if self._stamped:
            return f"{self.formatTime(record)} {line}"
        return line


def quoted(value: str) -> str:
    """Return a value as it stands in a line: a JSON string, unless it is one plain word."""
    return value if _PLAIN.fullmatch(value) else json.dumps(value)
