"""The file of the bridge's log: rotated by whoever likes to, and full when it is full.

A file that was moved away, or is gone, is made anew. What it does not take at once is lost: see
:mod:`nri.v1bridge.lossy`.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from nri.v1bridge.lossy import LossyHandler

if TYPE_CHECKING:
    from collections.abc import Callable

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


class LogFile(LossyHandler):
    """Appends to the file ``path``.

    :param complain: told once, in one line, whenever the file begins to lose lines.
    :raises OSError: when it can't be opened.
    """

    def __init__(self, path: str, complain: Callable[[str], None]) -> None:
        super().__init__(lambda why: complain(f"the log file {path} cannot be written, lines are lost: {why}"))
        self._path = path
        self._fd = _open(path)

    def close(self) -> None:
        """Close the file."""
        self.acquire()
        try:
            if self._fd >= 0:
                os.close(self._fd)
            self._fd = -1
        finally:
            self.release()
        super().close()

    def _is_ready(self) -> bool:
        if self._fd < 0:
            return False  # closed, by a thread that has set up another one
        self._follow()
        return True

    def _send(self, data: bytes) -> int:
        return os.write(self._fd, data)

    def _full(self) -> OSError:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _follow(self) -> None:
        """Open the file anew if it is not the one that is open; where that fails the old one will do."""
        try:
            if os.path.samestat(os.stat(self._path), os.fstat(self._fd)):
                return
        except FileNotFoundError:
            pass
        except OSError:
            return
        try:
            fd = _open(self._path)
        except OSError:
            return
        os.close(self._fd)
        self._fd, self._torn = fd, False


def _open(path: str) -> int:
    """A descriptor of the log; a FIFO that nobody reads is not waited for."""
    return os.open(path, _FLAGS, 0o600)
