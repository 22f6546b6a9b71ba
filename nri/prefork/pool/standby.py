"""Standby processes: a plugin without a prefork server, started before its requests if its entry allows that.

The work of ``TYPE invoke`` before it reads its stdin is done in advance, and is lost if no request comes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque

from nri.prefork.pool import in_background
from nri.prefork.pool.workers import NoWorkerError, ServerGoneError
from nri.process import launch
from nri.process.conversation import Conversation
from nri.process.lines import Lines
from nri.process.wait import has_exited

WAITING = 2  # processes that wait. With one, an event that follows at once would wait for a start
BUSY_WITHIN = 0.1  # seconds during which a file that is being written (ETXTBSY) is tried again

log = logging.getLogger("nri.client")


class Standby:
    """A plugin with some processes that wait. All methods may be called from any thread.

    :raises OSError: when none can be started.
    """

    has_answered = False
    is_suspect = False

    def __init__(self, path: str, plugin: str) -> None:
        self._path, self._plugin = path, plugin
        self._lock = threading.Lock()
        self._retired = False
        self._coming = 0
        self._waiting = deque([self._start()])
        self.tidy()

    def launch(self, stdin: bytes, deadline: float, lines: Lines, max_output: int) -> launch.Output:
        """Have the process that has waited longest answer.

        :raises NoWorkerError: when no process waits.
        :raises ServerGoneError: when the process has ended without a request. The request was not read.
        """
        try:
            pid, pipes = self._waiting.popleft()
        except IndexError:
            if not self._coming:
                in_background(self.tidy)
            raise NoWorkerError from None
        started = time.monotonic()
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
        """Start processes in place of those that have answered, unless other threads are at it.

        The next request does this in the background; the host calls it earlier, when the last request has its answer.
        """
        while True:
            with self._lock:
                if self._retired or len(self._waiting) + self._coming >= WAITING:
                    return
                self._coming += 1
            if not self._add():
                return

    def retire(self) -> None:
        """End the waiting processes, and start no other."""
        with self._lock:
            self._retired = True
            waiting = [self._waiting.popleft() for _ in range(len(self._waiting))]
        if waiting and not in_background(_discard_all, waiting):
            _discard_all(waiting)

    def _start(self) -> tuple[int, list[int]]:
        return launch.start(self._path, [self._plugin, "invoke"], time.monotonic() + BUSY_WITHIN)

    def _add(self) -> bool:
        """Start a process that is counted as coming; return whether that went well."""
        started = None
        try:
            started = self._start()
        except OSError as error:
            log.warning("%s has no standby process: %s", self._plugin, error.strerror)
        with self._lock:
            self._coming -= 1
            is_kept = started is not None and not self._retired
            if started is not None and is_kept:
                self._waiting.append(started)
        if started is not None and not is_kept:
            _discard(*started)
        return is_kept


def _discard_all(waiting: list[tuple[int, list[int]]]) -> None:
    for pid, pipes in waiting:
        _discard(pid, pipes)


def _discard(pid: int, pipes: list[int]) -> None:
    Conversation(pid, pipes, b"", Lines(0, lambda _line: None), 0).end()
