"""A plugin that waits for its request: for those that have no helper, and whose configuration says that they may.

It is started as ``TYPE invoke``, as ever, but before there is a request; the next one is started when that has
answered. What it does before it reads its stdin it does ahead of time, and for nobody if no request comes.
"""

from __future__ import annotations

import logging
import threading
import time

from nri.prefork.pool.server_handle import NoWorkerError, ServerGoneError, in_background
from nri.process import launch
from nri.process.conversation import Conversation
from nri.process.lines import Lines
from nri.process.wait import has_exited

BUSY_WITHIN = 0.1
"""Seconds that a file which is being written is tried again."""

log = logging.getLogger("nri.client")


class Standby:
    """One plugin, of which one process waits. All methods may be called from any thread.

    :raises OSError: when it can't be started.
    """

    files: tuple[str, ...] = ()
    has_answered = False
    is_suspect = False

    def __init__(self, path: str, plugin: str) -> None:
        self._path = path
        self._plugin = plugin
        self._lock = threading.Lock()
        self._retired = False
        self._starting = False
        self._waiting: tuple[int, list[int]] | None = self._start()

    def prepare(self, within: float) -> str:
        """Return "", always: a foreign program cannot signal that it is ready."""
        return ""

    def launch(self, stdin: bytes, deadline: float, lines: Lines, max_output: int) -> launch.Output:
        """Have the process that waits answer.

        :raises NoWorkerError: when none does just now.
        :raises ServerGoneError: when it did not wait for a request, but has ended. Nobody has taken it.
        """
        with self._lock:
            waiting, self._waiting = self._waiting, None
        if waiting is None:
            self._begin()
            raise NoWorkerError
        started = time.monotonic()
        pid, pipes = waiting
        if has_exited(pid):
            _discard(pid, pipes)
            log.warning("%s can't be started ahead: it does not wait for its request", self._plugin)
            self.has_answered = False  # if it has, the request came just in time
            raise ServerGoneError
        output = Conversation(pid, pipes, stdin, lines, max_output).run(deadline)
        output.seconds = time.monotonic() - started
        self.has_answered = True
        return output

    def tidy(self) -> None:
        """Have the next one started, if none waits."""
        self._begin()

    def retire(self) -> None:
        """End what waits."""
        with self._lock:
            self._retired = True
            waiting, self._waiting = self._waiting, None
        if waiting is not None and not in_background(_discard, *waiting):
            _discard(*waiting)

    def _start(self) -> tuple[int, list[int]]:
        return launch.start(self._path, [self._plugin, "invoke"], time.monotonic() + BUSY_WITHIN)

    def _begin(self) -> None:
        """Have the next one started, unless that is under way."""
        with self._lock:
            if self._starting or self._retired or self._waiting is not None:
                return
            self._starting = True
        if not in_background(self._next):
            self._starting = False

    def _next(self) -> None:
        waiting = None
        try:
            waiting = self._start()
        except OSError as error:
            log.warning("%s can't be started ahead: %s", self._plugin, error.strerror)
        with self._lock:
            self._starting = False
            is_wanted = not self._retired
            if is_wanted:
                self._waiting = waiting
        if waiting is not None and not is_wanted:
            _discard(*waiting)


def _discard(pid: int, pipes: list[int]) -> None:
    Conversation(pid, pipes, b"", Lines(0, lambda _line: None), 0).end()
