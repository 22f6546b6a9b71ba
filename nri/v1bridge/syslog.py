"""Logging to syslog, or to the journal, one datagram a line. A socket that takes nothing never blocks the bridge."""

from __future__ import annotations

import logging
import os
import socket
import time

TIMEOUT = 0.01
"""Seconds that syslog has to take a line. If it takes none, :data:`BACKOFF` begins."""

BACKOFF = 1.0
"""Seconds in which lines are lost without another attempt."""

_DAEMON = 3 << 3  # syslog's facility
_SEVERITY = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3}


class SyslogHandler(logging.Handler):
    """Send each line as a datagram to the socket ``path``.

    :raises OSError: the socket does not exist, or has no reader.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._backoff_until = 0.0
        self._socket: socket.socket | None = self._connect()

    def emit(self, record: logging.LogRecord) -> None:
        """Send a line, or lose it."""
        if time.monotonic() < self._backoff_until:
            return
        try:
            priority = _DAEMON | _SEVERITY.get(record.levelno, 2)
            data = f"<{priority}>nri-v1bridge[{os.getpid()}]: {self.format(record)}".encode()
        except Exception:
            self.handleError(record)  # silent, see set_up of nri.v1bridge.logs
            return
        for _ in range(2):
            try:
                self._socket = self._socket or self._connect()
                self._socket.send(data)
            except TimeoutError:
                break
            except OSError:  # syslog may have been restarted
                self._disconnect()
            else:
                return
        self._backoff_until = time.monotonic() + BACKOFF

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
