"""The log in syslog, which journald reads as well where it runs: one datagram for each line."""

from __future__ import annotations

import errno
import logging
import os
import socket
import time

from nri.v1bridge import stderr
from nri.v1bridge.handlers import LossyHandler

BACKOFF = 1.0
"""Seconds in which lines are lost without another attempt, after the socket has taken none."""

IDENTIFIER = "nri-v1bridge"
"""The name of the bridge's lines: ``journalctl -t nri-v1bridge``."""

FACILITY = 3
"""That of daemons, syslog(3)."""

_SEVERITY = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3}


class SyslogHandler(LossyHandler):
    """Send each line as a datagram to ``path``, in syslog's first form: RFC 3164 without time and host.

    The socket is connected again if its reader was restarted.

    :raises OSError: the socket does not exist, or has no reader.
    """

    def __init__(self, path: str) -> None:
        super().__init__("syslog", lambda _why: None, (errno.EMSGSIZE, os.strerror(errno.EMSGSIZE)))
        self._path = path
        self._backoff_until = 0.0
        self._socket: socket.socket | None = self._connect()

    def _encode(self, record: logging.LogRecord) -> bytes:
        priority = FACILITY << 3 | _SEVERITY.get(record.levelno, 2)
        return f"<{priority}>{IDENTIFIER}[{os.getpid()}]: {self.format(record)}".encode("utf-8", "backslashreplace")

    def _put(self, data: bytes) -> None:
        if time.monotonic() < self._backoff_until:
            raise OSError(errno.EAGAIN, self._why)
        failure: OSError | None = None
        for _ in range(2):
            try:
                self._socket = self._socket or self._connect()
                self._socket.send(data)
            except TimeoutError:
                failure = OSError(errno.EAGAIN, "syslog took no more")
                break
            except OSError as error:
                failure = error
                if error.errno == errno.EMSGSIZE:
                    raise  # the next line may be shorter
                self._close()  # the reader may have been restarted
            else:
                return
        self._backoff_until = time.monotonic() + BACKOFF
        raise failure or OSError(errno.EIO, os.strerror(errno.EIO))

    def _connect(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sock.settimeout(stderr.TIMEOUT)
        try:
            sock.connect(self._path)
        except BaseException:
            sock.close()
            raise
        return sock

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
