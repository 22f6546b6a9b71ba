"""Send replies from a background thread, so that the thread that reads never blocks.

If both ends waited for each other to read, neither would read again; the handlers' threads cannot help, they may all
hang.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable


class ReplyQueue:
    """Sends replies in order, in one thread that exists while there are replies to send."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_sending = False
        self._is_over = False

    def send(self, reply: Callable[[], None]) -> None:
        """Have ``reply`` called soon; drop it after :meth:`end`. It must not raise."""
        with self._lock:
            if self._is_over:
                return
            self._waiting.append(reply)
            if self._is_sending:
                return
            self._is_sending = True
        try:
            # A daemon: a peer that does not read must not keep the process from ending.
            threading.Thread(target=self._send, name="ttrpc-reply", daemon=True).start()
        except RuntimeError:  # the system has no thread left; the next reply tries again
            self._is_sending = False

    def end(self) -> None:
        """Drop the waiting replies, and send nothing more."""
        with self._lock:
            self._is_over = True
            self._waiting.clear()

    def _send(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_sending = False
                    return
                reply = self._waiting.popleft()
            reply()
