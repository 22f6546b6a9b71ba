"""A plugin's prefork server, seen by the host: it hands out workers, and is asked for others in their place.

The protocol is described in :mod:`nri.prefork.protocol`; :mod:`nri.prefork.pool.worker_conversation` exchanges a
request with a worker. Some workers always wait. The server forks the next one when a worker has answered, or is slow.
Requests go to the workers in the order in which these were forked.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from nri.prefork import protocol
from nri.prefork.pool.background import in_background
from nri.prefork.pool.starting import StartedServer
from nri.prefork.pool.worker_conversation import WorkerConversation
from nri.prefork.pool.workers import ServerGoneError, WorkerQueue
from nri.process.conversation import BrokenOffError, Output
from nri.process.wait import end_child

if TYPE_CHECKING:
    from nri.process.lines import Lines

WAITING = 2
"""Workers that wait. With one, an event that follows at once would wait for a fork."""

MOST_REFUSED = 6
"""Consecutive workers that may end before they have read a request; more than wait at a time."""

END_WITHIN = 2.0
"""Seconds that a server has to end by itself."""


class ServerHandle:
    """A plugin that was started as ``TYPE prefork``. All methods may be called from any thread.

    :raises OSError: when it can't be started.
    """

    def __init__(self, path: str, plugin: str) -> None:
        self._started = StartedServer(path, plugin)
        self._pid = self._started.pid
        self._workers = WorkerQueue(self._started.control)
        self._lock = threading.Lock()
        self._busy = 0
        self._refused = 0  # consecutive workers that ended before they had read a request
        self._retired = False
        self._finished: list[WorkerConversation] = []
        self.has_answered = False
        self.is_suspect = False
        """Whether a worker was killed during a request. It may have held a lock, so the server is replaced."""

    @property
    def files(self) -> list[str]:
        """The files that the plugin was loaded from, except its executable; known when it is ready."""
        return self._started.files

    def prepare(self, within: float) -> str:
        """Wait until the first worker waits; return "", or the reason why the plugin cannot be used so.

        :param within: seconds.
        """
        until = time.monotonic() + within
        if why := self._started.wait(until):
            return why
        for _ in range(WAITING):
            self._workers.ask(protocol.MORE)
        return "" if self._workers.comes(until) else "it does not become ready"

    def launch(self, stdin: bytes, deadline: float, lines: Lines, max_output: int) -> Output:
        """Have a worker answer a request.

        :raises NoWorkerError: when there is no worker, and the server works as it should.
        :raises ServerGoneError: when there is none, and it does not. In both cases no process has read the request.
        """
        started = time.monotonic()
        with self._lock:
            if self._retired:
                raise ServerGoneError
            self._busy += 1
        try:
            self.tidy()
            while True:
                worker = self._workers.take(deadline)
                conversation = WorkerConversation(
                    worker, stdin, lines, max_output, lambda: self._workers.ask(protocol.MORE)
                )
                try:
                    output = conversation.run(deadline)
                    self.is_suspect = self.is_suspect or output.stopped != ""
                except OSError as error:
                    self.is_suspect = True
                    raise BrokenOffError(error.errno, error.strerror) from error
                finally:
                    self._finished.append(conversation)
                if not conversation.was_refused:
                    break
                self._refused += 1
                if self._refused >= MOST_REFUSED:
                    raise ServerGoneError
            self._refused = 0
            self.has_answered = True
            output.seconds = time.monotonic() - started
            return output
        finally:
            with self._lock:
                self._busy -= 1
            self._end_if_done()

    def tidy(self) -> None:
        """Close finished conversations, ask for workers in place of theirs, and receive one.

        The next request does this; the host calls it earlier, while no request waits.
        """
        while self._finished:
            try:
                conversation = self._finished.pop(0)
            except IndexError:
                break  # another thread was faster
            conversation.close()
            self._workers.ask(protocol.DONE if conversation.was_slow else protocol.NEXT, conversation.pid)
        self._workers.fetch()

    def retire(self, *, wait: bool = False) -> None:
        """End the server when its last request is answered.

        :param wait: return only when it has ended, if no request is under way.
        """
        with self._lock:
            self._retired = True
        self._end_if_done(wait=wait)

    def _end_if_done(self, *, wait: bool = False) -> None:
        with self._lock:
            if not self._retired or self._busy or self._pid == 0:
                return
            pid, self._pid = self._pid, 0
        self.tidy()
        self._workers.close()  # the server and all workers end
        # Its process group is killed, too: the plugin may have started processes while it was loaded.
        if wait or not in_background(end_child, pid, END_WITHIN):
            end_child(pid, END_WITHIN)
