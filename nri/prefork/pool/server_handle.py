"""A plugin's prefork server, seen by the host: it hands out workers, and forks new ones on demand.

The protocol is described in :mod:`nri.prefork.protocol`; :mod:`nri.prefork.pool.worker_conversation` exchanges a
request with a worker. Some workers always wait. The server forks the next one when a worker has answered, or is slow.
"""

from __future__ import annotations

import os
import select
import threading
import time
from _socket import AF_UNIX, SOCK_SEQPACKET, socketpair
from typing import TYPE_CHECKING

from nri.prefork import protocol
from nri.prefork.pool.worker_conversation import WorkerConversation
from nri.prefork.pool.workers import ServerGoneError, WorkerQueue
from nri.process.conversation import BrokenOffError, Output
from nri.process.lines import MAX_LINE, readable
from nri.types.gojson import shorten

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.prefork.pool.server_process import ServerProcess
    from nri.process.lines import Lines

WAITING = 2  # workers that wait. With one, an event that follows at once would wait for a fork
MOST_REFUSED = 6  # consecutive workers that may end before they have read a request; more than wait at a time
SOON = 0.002  # seconds after an answer: a worker may still be preparing then, so the one after it prepares, too
MAX_STDERR = 1024 * 1024  # bytes that a plugin may write to stderr while it loads; when it writes more, it is ended
MAX_REASON = 500  # characters of the reason why a server is refused, as it is logged
_CHUNK = 65536


class ServerHandle:
    """A plugin's server. All methods may be called from any thread.

    :param start: starts the server's process, or finds it; called with the server's end of the control socket.
    :raises OSError: when it can't be started.
    """

    def __init__(self, plugin: str, start: Callable[[int], ServerProcess]) -> None:
        ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
        try:
            self._process = start(theirs.fileno())
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._plugin, self._control = plugin, ours
        self._stderr, self._stderr_end = self._process.stderr, b""  # until the plugin is loaded
        self._workers = WorkerQueue(ours, is_shared=self._process.is_shared)
        self._lock = threading.Lock()
        self._busy = 0
        self._answered_at = 0.0
        self._refused = 0  # consecutive workers that ended before they had read a request
        self._retired = self._ended = False
        self._finished: list[WorkerConversation] = []
        self.files: list[str] = []  # that the plugin was loaded from, except its executable; known when it is ready
        self.has_refused = False  # True if the server has stated why it does not serve the plugin
        self.has_answered = False
        self.is_suspect = False  # True if a worker was killed during a request: it may have held a lock

    def load(self, until: float) -> str:
        """Wait until the plugin is loaded; return "", or the reason why it cannot be used so.

        :param until: of :func:`time.monotonic`.
        """
        try:
            return self._wait_until_loaded(until)
        finally:
            if self._stderr >= 0:
                os.close(self._stderr)

    def prepare(self, until: float) -> str:
        """Wait until the first worker of a loaded plugin waits; return "", or the reason why it cannot be used so."""
        for _ in range(WAITING):
            self._workers.ask(protocol.MORE)
        if not self._workers.comes(until):
            return "it does not become ready"
        self._workers.fetch()
        return ""

    def launch(self, stdin: bytes, deadline: float, lines: Lines, max_output: int) -> Output:
        """Have a worker answer a request.

        :raises NoWorkerError: when no worker is there, and the server works.
        :raises ServerGoneError: likewise, and the server has failed. In both cases no process has read the request.
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
                if self._process.is_shared and started - self._answered_at < SOON:
                    self._workers.fetch()  # and ask it to prepare
                conversation = WorkerConversation(
                    worker, stdin, lines, max_output, lambda: self._workers.ask(protocol.MORE)
                )
                try:
                    output = conversation.run(deadline)
                    if output.stopped:
                        self._suspect()
                except OSError as error:
                    self._suspect()
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
            self._answered_at = time.monotonic()
            output.seconds = self._answered_at - started
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

    def _suspect(self) -> None:
        self.is_suspect = True
        self._process.distrust()

    def _end_if_done(self, *, wait: bool = False) -> None:
        with self._lock:
            if not self._retired or self._busy or self._ended:
                return
            self._ended = True
        self.tidy()
        self._workers.close()  # all workers end
        self._process.leave(wait=wait)

    def _wait_until_loaded(self, until: float) -> str:
        """Return "", or the reason why the plugin cannot be used."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        if self._stderr >= 0:
            poll.register(self._stderr, select.POLLIN)
        size = 0
        message = None
        while message is None:
            left = until - time.monotonic()
            if left <= 0:
                return self._why_not("it does not become ready")
            for number, _ in poll.poll(left * 1000 + 1):
                if number == self._control.fileno():
                    try:
                        message = self._control.recv(protocol.MAX_MESSAGE)
                    except OSError:
                        message = b""  # reset: the server has ended
                elif read := self._read_stderr():
                    size += read
                else:
                    poll.unregister(number)
            if size > MAX_STDERR:
                return f"it writes too much while it is loaded: more than {MAX_STDERR} bytes"
        word, argument = protocol.decode_message(message)
        if word == protocol.REFUSED:
            self.has_refused = True
            return shorten(readable(argument), MAX_REASON)
        if word != protocol.FILES:
            return self._why_not("it ends while it is loaded")
        self.files = protocol.decode_files(argument)
        return ""

    def _read_stderr(self) -> int:
        """Read once, and keep the end of stderr; return the number of bytes."""
        if self._stderr < 0:
            return 0
        try:
            data = os.read(self._stderr, _CHUNK)
        except BlockingIOError:
            return 0
        self._stderr_end = (self._stderr_end + data)[-MAX_LINE:]
        return len(data)

    def _why_not(self, what: str) -> str:
        """Return the reason on the plugin's stderr, or ``what`` with the last line of its stderr."""
        for _ in range(MAX_STDERR // _CHUNK):  # its output before it ended
            if not self._read_stderr():
                break
        last = last_line(self._stderr_end)
        return stated_reason(self._stderr_end, self._plugin) or (f"{what}: {last}" if last else what)


def last_line(output: bytes) -> str:
    """Return the last line of a server's output, or ""; at most :data:`MAX_REASON` characters."""
    lines = output.strip().splitlines()
    return shorten(readable(lines[-1]), MAX_REASON) if lines else ""


def stated_reason(stderr: bytes, plugin: str) -> str:
    """Return the reason in the last line ``TYPE prefork: REASON`` of a plugin's stderr, or "" without such a line."""
    marker = f"{plugin} prefork: "
    for line in reversed(stderr.splitlines()):
        text = readable(line[:MAX_LINE])
        if text.startswith(marker):
            return shorten(text.removeprefix(marker), MAX_REASON)
    return ""
