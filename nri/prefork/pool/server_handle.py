"""A plugin's helper, seen by the host: one process that has the plugin loaded, and forks one for each request.

The protocol between the two is in :mod:`nri.prefork.server.serving`, the exchange with a child in
:mod:`nri.prefork.pool.worker_conversation`. Some children always wait; the helper makes the next one when one has
answered, or takes its time. Requests go to the
children in the order in which these were made.
"""

from __future__ import annotations

import errno
import os
import select
import threading
import time
from _socket import (
    AF_UNIX,
    CMSG_SPACE,
    MSG_CMSG_CLOEXEC,
    MSG_CTRUNC,
    MSG_DONTWAIT,
    SOCK_SEQPACKET,
    socketpair,
)
from typing import TYPE_CHECKING

from nri.prefork.pool.worker_conversation import Worker, WorkerConversation
from nri.process import launch
from nri.process.lines import MAX_LINE, Lines, readable
from nri.process.spawn import pipe, spawn
from nri.process.wait import end_child
from nri.types.gojson import shorten

if TYPE_CHECKING:
    from collections.abc import Callable

WAITING = 2
"""Children that wait. One would do for a pod now and then; with two, the next event does not wait for a fork."""

READY_WITHIN = 0.05
"""Seconds that a request waits for a child that was asked for, before the plugin is started as ever."""

MISSED_WITHIN = 2.0
"""Seconds that a helper which has been asked for a child may give none; a node can be that busy."""

MOST_REFUSED = 6
"""Children that may have ended before they had read a request, one after another; more than wait at a time."""

END_WITHIN = 2.0
"""Seconds that a helper has to end by itself."""

SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
"""What has nothing to do with the plugin: the host is out of something."""

_RIGHTS = 3
_FILES = 65536  # bytes of the longest message
_CHUNK = 65536

MAX_SAID = 1024 * 1024
"""Bytes that a plugin may write to stderr while it is loaded; its helper is ended when it writes more."""

MAX_REASON = 500
"""Characters of the reason why there is no helper, as it is logged."""


class NoWorkerError(Exception):
    """All that the helper has made is at work, for others; or it could not make more just now."""


class ServerGoneError(Exception):
    """The helper has ended, or is not as it should be."""


class ServerHandle:
    """One plugin, started as ``TYPE prefork``. All methods may be called from any thread.

    :raises OSError: when it can't be started.
    """

    def __init__(self, path: str, plugin: str) -> None:
        ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
        pipes: tuple[int, ...] = ()
        try:
            pipes = pipe()
            os.set_blocking(pipes[0], False)
            self._pid = spawn(path, [plugin, "prefork"], (theirs.fileno(), pipes[1], pipes[1]))
        except BaseException:
            ours.close()
            for number in pipes[:1]:
                os.close(number)
            raise
        finally:
            theirs.close()
            for number in pipes[1:]:
                os.close(number)
        self._control = ours
        self._stderr = pipes[0]  # what it says while it is loaded
        self._said = b""
        self._marker = f"{plugin} prefork: "
        self._taking = threading.Lock()
        self._lock = threading.Lock()
        self._coming = 0  # children that were asked for, and have not come
        self._busy = 0
        self._ready: Worker | None = None  # one that was taken before there is a request for it
        self._gone = False  # whether that was tried, and the helper is not as it should be
        self._missed = 0.0  # since when none has come that was asked for; 0 while they do
        self._refused = 0  # children that have ended before they had read a request, one after another
        self._retired = False
        self._finished: list[WorkerConversation] = []
        self.has_answered = False
        self.is_suspect = False
        """Whether a child was killed at its work: what it may have held is not known, so the helper is replaced."""
        self.files: list[str] = []
        """What the plugin was loaded from beside its executable; known when it is ready."""

    def prepare(self, within: float) -> str:
        """Wait, at most so many seconds, until the first child waits; return "" or why there is none."""
        try:
            return self._prepare(time.monotonic() + within)
        finally:
            stderr, self._stderr = self._stderr, -1
            os.close(stderr)

    def _prepare(self, until: float) -> str:
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._stderr, select.POLLIN)
        size = 0
        word = None
        while word is None:
            left = until - time.monotonic()
            if left <= 0:
                return self._why_not("it does not become ready")
            for number, _ in poll.poll(left * 1000 + 1):
                if number == self._control.fileno():
                    word = self._receive_word()
                elif (read := self._listen()) == 0:
                    poll.unregister(number)
                else:
                    size += read
            if size > MAX_SAID:
                return f"it writes too much while it is loaded: more than {MAX_SAID} bytes"
        if word.startswith(b"refused "):
            return shorten(readable(word[8:]), MAX_REASON)
        if not word.startswith(b"files "):
            return self._why_not("it ends while it is loaded")
        self.files = [os.fsdecode(name) for name in word[6:].split(b"\0") if name]
        for _ in range(WAITING):
            self._say(b"more")
        return "" if self._comes(until) else "it does not become ready"

    def _receive_word(self) -> bytes:
        try:
            return self._control.recv(_FILES)
        except OSError:
            return b""  # reset: it has ended

    def _listen(self) -> int:
        """Read from the helper's stderr, and keep the end of it; return how many bytes there were."""
        try:
            data = os.read(self._stderr, _CHUNK)
        except BlockingIOError:
            return 0
        self._said = (self._said + data)[-MAX_LINE:]
        return len(data)

    def _why_not(self, what: str) -> str:
        """Return what the plugin says itself, or ``what`` with the end of its stderr."""
        for _ in range(MAX_SAID // _CHUNK):  # of what it wrote before it ended
            if not self._listen():
                break
        return reason(self._said, self._marker) or what + (f": {end}" if (end := _last(self._said)) else "")

    def launch(self, stdin: bytes, deadline: float, lines: Lines, max_output: int) -> launch.Output:
        """Have a child answer.

        :raises NoWorkerError: when there is none, and the helper is as it should be.
        :raises ServerGoneError: when there is none, and it is not. In either case nobody has taken the request.
        """
        started = time.monotonic()
        with self._lock:
            if self._retired:
                raise ServerGoneError
            self._busy += 1
        try:
            self.tidy()
            while True:
                exchange = WorkerConversation(
                    self._take(deadline), stdin, lines, max_output, lambda: self._say(b"more")
                )
                try:
                    output = exchange.run(deadline)
                    self.is_suspect = self.is_suspect or output.stopped != ""
                except OSError as error:
                    self.is_suspect = True
                    raise launch.BrokenOffError(error.errno, error.strerror) from error
                finally:
                    self._finished.append(exchange)
                if not exchange.was_refused:
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
        """Close what was left open of children that have answered, ask for others in their place, and take one.

        Done before the next request at the latest; better by then, as nobody waits.
        """
        while self._finished:
            try:
                exchange = self._finished.pop(0)
            except IndexError:
                break  # another thread was faster
            exchange.close()
            self._say(b"done %d" % exchange.pid if exchange.was_slow else b"next %d" % exchange.pid)
        if self._ready is None and self._taking.acquire(blocking=False):
            try:
                if self._ready is None:
                    self._ready = self._receive()
            except (NoWorkerError, OSError):
                pass  # as the next request will see
            except ServerGoneError:
                self._gone = True
            finally:
                self._taking.release()

    def retire(self, *, wait: bool = False) -> None:
        """End the helper, as soon as no request is at work with it.

        :param wait: return only when it has ended, if no request is at work.
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
        with self._taking:
            self._control.close()  # that is its end, and that of all that it has made
            ready, self._ready = self._ready, None
            if ready is not None:
                ready.close()
        # What the plugin started when it was loaded is left in the group, and is killed, as a stopped server is.
        if wait or not in_background(end_child, pid, END_WITHIN):
            end_child(pid, END_WITHIN)

    def _say(self, word: bytes) -> None:
        with self._lock:
            if not word.startswith(b"done"):
                self._coming += 1
        try:
            self._control.send(word, MSG_DONTWAIT)
        except OSError:
            pass  # it is gone, as whoever takes the next child will see

    def _comes(self, until: float) -> bool:
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        events = poll.poll(max(0.0, until - time.monotonic()) * 1000)
        return any(event & select.POLLIN for _, event in events)

    def _take(self, deadline: float) -> Worker:
        until = min(time.monotonic() + (0.0 if self._missed else READY_WITHIN), deadline)
        if not self._taking.acquire(timeout=max(0.0, until - time.monotonic())):
            raise NoWorkerError
        try:
            if self._gone:
                raise ServerGoneError
            child, self._ready = self._ready, None
            return self._next(until) if child is None else child
        except OSError as error:
            # Starting the plugin as ever would fare no better when something is scarce; and say what it is.
            raise (NoWorkerError if error.errno in SCARCE else ServerGoneError) from error
        finally:
            self._taking.release()

    def _next(self, until: float) -> Worker:
        """The child that has waited longest."""
        child = self._receive()
        if child is None:
            with self._lock:
                if self._coming == 0:
                    raise NoWorkerError
            if not self._comes(until):
                now = time.monotonic()
                self._missed = self._missed or now
                if now - self._missed <= MISSED_WITHIN:
                    raise NoWorkerError
                raise ServerGoneError
            child = self._receive()
            if child is None:
                raise NoWorkerError
        return child

    def _receive(self) -> Worker | None:
        """A child that has come; None when there is none yet."""
        try:
            word, ancillary, flags, _ = self._control.recvmsg(
                64, CMSG_SPACE(4 * _RIGHTS), MSG_CMSG_CLOEXEC | MSG_DONTWAIT
            )
        except BlockingIOError:
            return None
        numbers = [number for _, _, data in ancillary for number in memoryview(data).cast("i")]
        is_child = word.startswith(b"ready ") and word[6:].isdigit()
        if is_child:
            with self._lock:
                self._coming -= 1
        if not is_child or len(numbers) != _RIGHTS:
            for number in numbers:
                os.close(number)
            if is_child and flags & MSG_CTRUNC:  # we have no descriptors left
                self._say(b"next " + word[6:])
                raise NoWorkerError
            raise ServerGoneError  # "": it has ended
        self._missed = 0.0
        child = Worker(int(word[6:]), *numbers)
        try:
            for number in (child.channel, child.stderr):
                os.set_blocking(number, False)
        except OSError:
            child.close()
            self._say(b"next " + word[6:])
            raise
        return child


def reason(said: bytes, marker: str) -> str:
    """Return why a plugin is not started ahead, as it says itself on stderr: a line after ``marker``; or ""."""
    for line in reversed(said.splitlines()):
        text = readable(line[:MAX_LINE])
        if text.startswith(marker):
            return shorten(text.removeprefix(marker), MAX_REASON)
    return ""


def _last(said: bytes) -> str:
    """Return the last line: of a traceback, the error."""
    lines = said.strip().splitlines()
    return shorten(readable(lines[-1]), MAX_REASON) if lines else ""


def in_background(what: Callable[..., object], *arguments: object) -> bool:
    """Do something in a thread of its own; whether there could be one."""
    try:
        threading.Thread(target=what, args=arguments, name="prefork", daemon=True).start()
    except RuntimeError:
        return False
    return True
