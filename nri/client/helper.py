"""A plugin's helper, seen by the host: one process that has the plugin loaded, and forks one for each request.

What is said between the two stands in :mod:`nri.skel.ahead`. Some children always wait; the next is asked for when
one has answered, or when one takes its time. They are asked in the order in which they were made.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import termios
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
from typing import TYPE_CHECKING, NamedTuple

from nri.client import launch
from nri.client.lines import Lines
from nri.client.spawn import spawn_with

if TYPE_CHECKING:
    from collections.abc import Callable

WAITING = 2
"""Children that wait. One would do for a pod now and then; with two, the next event does not wait for a fork."""

READY_WITHIN = 0.05
"""Seconds that a request waits for a child that was asked for, before the plugin is started as ever."""

MISSED_WITHIN = 2.0
"""Seconds that a helper which has been asked for a child may give none; a node can be that busy."""

SLOW = 0.005
"""Seconds after which another child is asked for, while one is still at work."""

TAKEN_WITHIN = 0.5
"""Seconds after which a child that has not read its request is killed, and another asked: somebody has stopped it."""

END_WITHIN = 2.0
"""Seconds that a helper has to end by itself."""

SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
"""What has nothing to do with the plugin: the host is out of something."""

_SIGKILL = 9
_RIGHTS = 3
_FILES = 65536  # bytes of the longest message
_NONE = bytes(4)  # a number of bytes that are not read yet, as ioctl(2) has it
_LENGTH = 4  # bytes that tell a request's or a result's length; the latter is followed by the exit status, one byte


class BusyError(Exception):
    """All that the helper has made is at work, for others; or it could not make more just now."""


class GoneError(Exception):
    """The helper has ended, or is not as it should be."""


class _Child(NamedTuple):
    """One that waits."""

    pid: int
    pidfd: int
    channel: int
    stderr: int

    def close(self) -> None:
        """Let go of it; it ends."""
        for number in (self.pidfd, self.channel, self.stderr):
            os.close(number)


class Helper:
    """One plugin, started as ``TYPE ahead``. All methods may be called from any thread.

    :raises OSError: when it can't be started.
    """

    def __init__(self, path: str, plugin: str) -> None:
        ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
        try:
            nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
            actions = [(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0), *nowhere]
            self._pid = spawn_with(path, [plugin, "ahead"], actions)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._control = ours
        self._taking = threading.Lock()
        self._lock = threading.Lock()
        self._coming = 0  # children that were asked for, and have not come
        self._busy = 0
        self._ready: _Child | None = None  # one that was taken before there is a request for it
        self._gone = False  # whether that was tried, and the helper is not as it should be
        self._missed = 0.0  # since when none has come that was asked for; 0 while they do
        self._retired = False
        self._finished: list[_Exchange] = []
        self.has_answered = False
        self.files: list[str] = []
        """What the plugin was loaded from beside its executable; known when it is ready."""

    def becomes_ready(self, within: float) -> bool:
        """Wait, at most so many seconds, until the first child waits; whether there is one."""
        until = time.monotonic() + within
        if not self._comes(until):
            return False
        word = self._control.recv(_FILES)
        if not word.startswith(b"files "):
            return False
        self.files = [os.fsdecode(name) for name in word[6:].split(b"\0") if name]
        for _ in range(WAITING):
            self._say(b"more")
        return self._comes(until)

    def launch(self, stdin: bytes, deadline: float, lines: Lines, max_output: int) -> launch.Output:
        """Have a child answer.

        :raises BusyError: when there is none, and the helper is as it should be.
        :raises GoneError: when there is none, and it is not. In either case nobody has taken the request.
        """
        started = time.monotonic()
        with self._lock:
            if self._retired:
                raise GoneError
            self._busy += 1
        try:
            self.tidy()
            while True:
                exchange = _Exchange(self._take(deadline), stdin, lines, max_output, lambda: self._say(b"more"))
                try:
                    output = exchange.hold(deadline)
                    output.status = exchange.status(deadline)
                except OSError as error:
                    raise launch.BrokenOffError(error.errno, error.strerror) from error
                finally:
                    self._finished.append(exchange)
                if not exchange.was_refused:
                    break
            self.has_answered = True
            output.stdout = output.stdout[_LENGTH : exchange.status_at]
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
            except (BusyError, OSError):
                pass  # as the next request will see
            except GoneError:
                self._gone = True
            finally:
                self._taking.release()

    def retire(self) -> None:
        """End the helper, as soon as nobody is at work with it."""
        with self._lock:
            self._retired = True
        self._end_if_done()

    def _end_if_done(self) -> None:
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
        if not in_background(_see_end, pid):
            _see_end(pid)

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

    def _take(self, deadline: float) -> _Child:
        until = min(time.monotonic() + (0.0 if self._missed else READY_WITHIN), deadline)
        if not self._taking.acquire(timeout=max(0.0, until - time.monotonic())):
            raise BusyError
        try:
            if self._gone:
                raise GoneError
            child, self._ready = self._ready, None
            return self._next(until) if child is None else child
        except OSError as error:
            # Starting the plugin as ever would fare no better when something is scarce; and say what it is.
            raise (BusyError if error.errno in SCARCE else GoneError) from error
        finally:
            self._taking.release()

    def _next(self, until: float) -> _Child:
        """The child that has waited longest."""
        child = self._receive()
        if child is None:
            with self._lock:
                if self._coming == 0:
                    raise BusyError
            if not self._comes(until):
                now = time.monotonic()
                self._missed = self._missed or now
                if now - self._missed <= MISSED_WITHIN:
                    raise BusyError
                raise GoneError
            child = self._receive()
            if child is None:
                raise BusyError
        return child

    def _receive(self) -> _Child | None:
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
                raise BusyError
            raise GoneError  # "": it has ended
        self._missed = 0.0
        child = _Child(int(word[6:]), *numbers)
        try:
            for number in (child.channel, child.stderr):
                os.set_blocking(number, False)
        except OSError:
            child.close()
            self._say(b"next " + word[6:])
            raise
        return child


class _Exchange(launch.Conversation):
    """With a child of a helper: a socket stands for its stdin and stdout, and its answer tells where it ends."""

    def __init__(self, child: _Child, data: bytes, lines: Lines, limit: int, on_slow: Callable[[], None]) -> None:
        pipes = [child.channel, child.channel, child.stderr]
        data = len(data).to_bytes(_LENGTH, "big") + data
        super().__init__(child.pid, pipes, data, lines, limit + _LENGTH + 1, pidfd=child.pidfd)
        self._length = len(data)
        self._on_slow = on_slow
        self._patience = [SLOW, TAKEN_WITHIN]
        self.was_slow = False
        self.was_refused = False
        """Whether the child has ended before it had read the request."""

    @property
    def status_at(self) -> int:
        """Where in the answer the exit status stands, or would stand."""
        return _LENGTH + int.from_bytes(self._out[:_LENGTH], "big")

    def status(self, deadline: float) -> int:
        """The exit status that the child has told; else that of which the kernel knows, as of a signal."""
        if len(self._out) > self.status_at:
            return self._out[self.status_at]
        return _status(self.pid, self._pidfd, launch.give_up_at(deadline) - time.monotonic())

    def _wait(self, left: float) -> float:
        return min(left, self._patience[0]) if self._patience else left

    def _nothing(self) -> tuple[()]:
        if not self._patience:
            return ()
        if not self.was_slow:
            self.was_slow = True
            self._on_slow()
        elif self._stdout in self._open and fcntl.ioctl(self._stdout, termios.TIOCOUTQ, _NONE) != _NONE:
            os.kill(self.pid, _SIGKILL)  # its end shows whether it has read the request in this moment
        self._patience.pop(0)
        return ()

    def _unwanted(self) -> None:
        if len(self._left) == self._length:
            self.was_refused = self._over = True
        super()._unwanted()

    def _sent(self) -> None:
        self._poll.register(self._stdin, select.POLLIN)

    def _read(self, fd: int) -> bytes:
        try:
            return super()._read(fd)
        except ConnectionResetError:
            self.was_refused = self._over = True
            self._close(fd)
            return b""

    def _read_stdout(self) -> int:
        if len(self._out) > self.status_at:
            return 0
        count = super()._read_stdout()
        self._over = self._over or len(self._out) > self.status_at
        return count


def in_background(what: Callable[..., None], *arguments: object) -> bool:
    """Do something in a thread of its own; whether there could be one."""
    try:
        threading.Thread(target=what, args=arguments, name="ahead", daemon=True).start()
    except RuntimeError:
        return False
    return True


def _see_end(pid: int) -> None:
    """Reap a helper whose socket is closed. One that does not end, as it was stopped, is killed."""
    try:
        pidfd = os.pidfd_open(pid)
        try:
            ended = launch.ends(pidfd, END_WITHIN)
        finally:
            os.close(pidfd)
    except OSError:
        ended = False
    if not ended:
        try:
            os.kill(pid, _SIGKILL)
        except OSError:
            pass  # reaped by somebody else: our caller ignores SIGCHLD
    launch.await_end(pid, -1)


def _status(pid: int, pidfd: int, within: float) -> int:
    launch.ends(pidfd, within)  # it was killed, at the latest now
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return os.waitstatus_to_exitcode(int(fields[49]))  # field 52 of proc(5), exit_code
    except (OSError, ValueError, IndexError):
        return -_SIGKILL
