"""The file of the bridge's log: it may be rotated, removed, full, or a FIFO without a reader.

:class:`logging.handlers.WatchedFileHandler` follows a file that was moved or removed. This module adds what a full
disk needs: no write blocks, no data stay in a buffer, and lines that the file does not take at once are counted
(:mod:`nri.v1bridge.lossy`).
"""

from __future__ import annotations

import errno
import io
import os
from logging.handlers import WatchedFileHandler
from typing import TYPE_CHECKING, Any

from nri.v1bridge.lossy import LossyHandler

if TYPE_CHECKING:
    from collections.abc import Callable

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


class LogFile(LossyHandler, WatchedFileHandler):
    """Append lines to the file ``path``.

    :param complain: called with one line whenever the file begins to lose lines.
    :raises OSError: the file cannot be opened.
    """

    def __init__(self, path: str, complain: Callable[[str], None]) -> None:
        self._fd = -1
        super().__init__(
            lambda why: complain(f"the log file {path} cannot be written, lines are lost: {why}"),
            (errno.ENOSPC, os.strerror(errno.ENOSPC)),
            filename=path,
            encoding="utf-8",
        )

    def _open(self) -> Any:
        """Return a stream of the file, or of the open one when the file cannot be opened again.

        The stream does not own the descriptor: :meth:`reopenIfNeeded` closes it before it opens the next.
        """
        try:
            fd = os.open(self.baseFilename, _FLAGS, 0o600)
        except OSError:
            if self._fd < 0:
                raise
        else:
            if self._fd >= 0:
                os.close(self._fd)
            self._fd, self._torn = fd, False
        return io.FileIO(self._fd, "w", closefd=False)

    def _is_ready(self) -> bool:
        try:
            self.reopenIfNeeded()
        except OSError:
            pass  # its directory cannot be searched: the open file still takes lines
        return self._fd >= 0

    def _send(self, data: bytes) -> int:
        return os.write(self._fd, data)

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
