"""A standby process: a plugin without a prefork server, started before its request if its entry allows that.

The work of ``TYPE invoke`` before it reads its stdin is done in advance, and is lost if no request comes.
"""

from __future__ import annotations

import logging
import threading
import time

from nri.prefork.pool import in_background
from nri.prefork.pool.workers import NoWorkerError, ServerGoneError
from nri.process import launch
from nri.process.conversation import Conversation
from nri.process.lines import Lines
from nri.process.wait import has_exited

BUSY_WITHIN = 0.1  # seconds during which a file that is being written (ETXTBSY) is tried again

log = logging.getLogger("nri.client")


class Standby:
    """A plugin with one process that waits. All methods may be called from any thread.

    :raises OSError: when it can't be started.
    """

    has_answered = False
    is_suspect = False

    def __init__(self, path: str, plugin: str) -> None:
        self._path, self._plugin = path, plugin
        self._lock = threading.Lock()
        self._retired = self._starting = False
        self._waiting: tuple[int, list[int]] | None = self._start()

    def launch(self, stdin: bytes, deadline: float, lines: Lines, max_output: int) -> launch.Output:
        """Have the waiting process answer.

        :raises NoWorkerError: when no process waits.
        :raises ServerGoneError: when the process has ended without a request. The request was not read.
        """
        with self._lock:
            waiting, self._waiting = self._waiting, None
        if waiting is None:
            self.tidy()
            raise NoWorkerError
        started = time.monotonic()
        pid, pipes = waiting
        if has_exited(pid):
            _discard(pid, pipes)
            log.warning("%s has no standby process: it does not wait for its request", self._plugin)
            self.has_answered = False  # an earlier process may have received a request before it ended
            raise ServerGoneError
        output = Conversation(pid, pipes, stdin, lines, max_output).run(deadline)
        output.seconds = time.monotonic() - started
        self.has_answered = True
        return output

    def tidy(self) -> None:
        """Start the next process in the background, unless one waits or is being started."""
        with self._lock:
            if self._starting or self._retired or self._waiting is not None:
                return
            self._starting = True
        if not in_background(self._next):
            self._starting = False

    def retire(self) -> None:
        """End the waiting process, and start no other."""
        with self._lock:
            self._retired = True
            waiting, self._waiting = self._waiting, None
        if waiting is not None and not in_background(_discard, *waiting):
            _discard(*waiting)

    def _start(self) -> tuple[int, list[int]]:
        return launch.start(self._path, [self._plugin, "invoke"], time.monotonic() + BUSY_WITHIN)

    def _next(self) -> None:
        waiting = None
        try:
            waiting = self._start()
        except OSError as error:
            log.warning("%s has no standby process: %s", self._plugin, error.strerror)
        with self._lock:
            self._starting = False
            if not self._retired:
                self._waiting, waiting = waiting, None
        if waiting is not None:
            _discard(*waiting)


def _discard(pid: int, pipes: list[int]) -> None:
    Conversation(pid, pipes, b"", Lines(0, lambda _line: None), 0).end()
