"""Answers that are sent for somebody who must not wait.

If the thread that reads waited for the peer to read, and the peer did the same, neither would read again. And the
threads of the handlers may all hang.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class ReplyQueue:
    """Sends in order, in one thread, which there is as long as there is something to send."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_sending = False
        self._is_over = False

    def send(self, answer: Callable[[], None]) -> None:
        """Have ``answer`` called soon; not at all when it is over. It must not raise."""
        with self._lock:
            if self._is_over:
                return
            self._waiting.append(answer)
            if self._is_sending:
                return
            self._is_sending = True
        try:
            # A daemon: a peer that does not read must not keep the process from ending.
            threading.Thread(target=self._send, name="ttrpc-reply", daemon=True).start()
        except RuntimeError:  # the system has none left; the next answer tries again
            self._is_sending = False

    def end(self) -> None:
        """Send nothing more."""
        with self._lock:
            self._is_over = True
            self._waiting.clear()

    def _send(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_sending = False
                    return
                answer = self._waiting.popleft()
            answer()
