"""The exchange of one request with a process: writes its stdin, reads its stdout and stderr, until it is done.

``launch`` starts a process for it. The whole process group is killed at the deadline, when the output is too
long, and when the process has exited: when ``launch`` returns or raises, none of it runs. The exception is a
process that the kernel keeps in an uninterruptible call: it is reaped when it is gone.

All ways of asking a plugin share it. They differ in the ``Asked`` process, which knows how its answer ends: a
process that runs for this request ends itself; a resident says that it is done, and stays.
"""

from __future__ import annotations

import errno
import os
import select
import sys
import time
from _thread import allocate_lock

from nri.errors import escape
from nri.process.children import (
    POLL_WITHOUT_PIDFD,
    await_end,
    close_all,
    give_up_at,
    has_exited,
    kill_group,
    pidfds_of,
)
from nri.process.spawn import PLUGIN_ENVIRONMENT, Pipes, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Log = Callable[[str], None]

# Bytes of one line, and of the end of stderr that an error carries; the rest is cut.
MAX_LINE = 4096
_LINE_COST = 64  # bytes that each line adds to its own: logging a million empty lines is much work

MAX_OUTPUT = 1024 * 1024
"""Bytes of stdout, and of logged stderr, of one request."""

_BUSY_RETRY = 0.01  # seconds between attempts to run a file that is being written

_CHUNK = 65536
_ENDS_SOON = 0.001  # seconds that a process has to end after its result, before its output is looked at again
# After the end: more than an ordinary pipe needs; then the kernel is asked how much is left.
_PLAIN_READS = 4


def nothing() -> None:
    """Do nothing."""


class Stop:
    """Ends exchanges at once. Any thread may set it."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._kill: Callable[[], None] = nothing
        self.is_set = False

    def set(self) -> None:
        """End the exchange that runs now, and those that follow."""
        with self._lock:
            self.is_set = True
            self._kill()

    def ends(self, kill: Callable[[], None]) -> None:
        """Have this function called when it is set, at once if it is, until ``over``."""
        with self._lock:
            self._kill = kill
            if self.is_set:
                kill()

    def over(self) -> None:
        """Note that an exchange is over."""
        with self._lock:
            self._kill = nothing


NEVER = Stop()
"""One that nothing sets."""


def launch(
    path: str,
    argv: list[str],
    stdin: bytes,
    deadline: float,
    *,
    log: Log,
    stop: Stop = NEVER,
) -> Output:
    """Run ``path`` until it exits, or until ``deadline`` (of ``time.monotonic``, in seconds).

    :param stdin: the bytes for its stdin; it need not read them.
    :param log: called with each line of its stderr when it arrives, control characters escaped.
    :param stop: ends it before its deadline.
    :raises BrokenOffError: when it was started, and could not be waited for or read.
    :raises OSError: when it cannot be started.
    """
    pid, pipes = start(path, argv, deadline)
    return Conversation(Asked(pid), pipes, stdin, log, stop=stop).run(deadline)


def start(
    path: str,
    argv: list[str],
    deadline: float,
    environment: Mapping[str, str] = PLUGIN_ENVIRONMENT,
    *,
    stdout: int | None = None,
    is_plugin: bool = True,
) -> tuple[int, list[int]]:
    """Start ``path``; return its pid, and our ends of its stdin, stdout and stderr.

    A file that is being written (ETXTBSY) is tried again until ``deadline``.

    :param stdout: a descriptor that becomes its stdout, which the caller closes. Then our end of stdout has no data.
    :param is_plugin: as for ``nri.process.spawn.spawn``.
    :raises OSError: when it cannot be started.
    """
    with Pipes() as pipes:
        child_in, child_out, child_err = pipes.theirs
        out = child_out if stdout is None else stdout
        while True:
            try:
                pid = spawn(
                    path,
                    argv,
                    (child_in, out, child_err),
                    environment=environment,
                    is_plugin=is_plugin,
                )
                break
            except OSError as error:
                if error.errno != errno.ETXTBSY or time.monotonic() + _BUSY_RETRY >= deadline:
                    raise
                time.sleep(_BUSY_RETRY)
    return pid, pipes.ours


class BrokenOffError(OSError):
    """A process was asked, and was killed because it could not be waited for or read any more."""


class Output:
    """The output of a process: its stdout, the end of its stderr, and how it ended."""

    __slots__ = ("status", "stderr", "stdout", "stopped")

    stdout: bytes
    stderr: str  # the end of its stderr, control characters escaped
    status: int  # the exit status; a negative number is the signal that ended it
    # The reason for killing it: `deadline`, `output` or `stop`; "" when it ended by itself.
    stopped: str

    @property
    def ending(self) -> str:
        """The exit status or signal in words; "" for exit status 0."""
        if self.status < 0:
            return f"ended by signal {-self.status}"
        return f"exit status {self.status}" if self.status else ""


class Asked:
    """A process that answers this request only: its end is the end of the answer."""

    is_quick = False
    """True if its end comes within milliseconds; until then its output is not looked at."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.sent = 0
        """Bytes of the request that were written to its stdin."""
        self._pidfds = pidfds_of(pid)

    @property
    def ends(self) -> Sequence[int]:
        """Descriptors that become readable when the answer may have ended; none where the kernel has no pidfd.

        Others than at first if ``has_ended`` has returned False.
        """
        return self._pidfds

    def kill(self) -> None:
        """Kill it with its process group. Any thread may call this until ``finish``."""
        kill_group(self.pid)

    def has_ended(self) -> bool:
        """Return whether the answer has ended. Called when one of ``ends`` is readable, or again and again."""
        return has_exited(self.pid)

    def finish(self, stopped: str, give_up: float) -> int:
        """End what is left of the process, and return its exit status.

        :param stopped: the reason for killing it, as in ``Output``; "" if the answer has ended.
        :param give_up: when to leave a process that does not end, a time of ``time.monotonic``.
        """
        self.kill()
        try:
            return await_end(self.pid, self._pidfds, give_up)
        finally:
            close_all(self._pidfds)
            self._pidfds = []


class Conversation:
    """The exchange with a process, which begins at once. It owns the pipes.

    :param pipes: our ends of stdin, stdout and stderr, non-blocking.
    :param data: the bytes for stdin.
    :param log: called with each line of its stderr.
    :param stop: ends the exchange before its deadline.
    :param meanwhile: seconds, and a function that is called once if the answer takes longer.
    """

    def __init__(
        self,
        asked: Asked,
        pipes: Sequence[int],
        data: bytes,
        log: Log,
        *,
        stop: Stop = NEVER,
        meanwhile: tuple[float, Callable[[], None]] = (float("inf"), nothing),
    ) -> None:
        self._asked = asked
        self._stdin, self._stdout, self._stderr = pipes
        self._left = memoryview(data)
        self._lines = Lines(log)
        seconds, self._meanwhile = meanwhile
        self._meanwhile_at = time.monotonic() + seconds
        self._written = bytearray()  # what was read from stdout
        self.pipes = [*pipes]
        """Those that it has not closed."""
        self._poll = select.poll()
        self._stop = stop
        for fd in (self._stdout, self._stderr, *asked.ends):
            self._poll.register(fd, select.POLLIN)
        # Nearly always the next event is the end. A look at the output would wake this thread for each of its pieces
        # and ends, perhaps on the CPU where the process is at work.
        self._ends = select.poll()
        for fd in asked.ends:
            self._ends.register(fd, select.POLLIN)
        self._ends_within = asked.is_quick * 5 * _ENDS_SOON
        self._poll.register(self._stdin, 0)
        self._write()  # what the pipe takes now: a resident that is woken next reads it at once

    def run(self, deadline: float) -> Output:
        """Write and read until the answer ends, or must end; then end the process if it must end.

        :raises BrokenOffError: when a system call of the exchange fails.
        """
        output = Output()
        try:
            try:
                output.stopped = self._until_stop(deadline)
            except BaseException:
                self._asked.finish("broken off", give_up_at(deadline))
                raise
            output.status = self._asked.finish(output.stopped, give_up_at(deadline))
            self._drain(deadline)
        except OSError as error:
            raise BrokenOffError(error.errno, error.strerror) from error
        finally:
            self._meanwhile = nothing  # it may refer to the owner of this object
            close_all(self.pipes)
        if len(self._written) > MAX_OUTPUT:
            output.stopped = output.stopped or "output"
        self._lines.finish()
        output.stdout = bytes(self._written)
        output.stderr = self._lines.tail()
        return output

    def _until_stop(self, deadline: float) -> str:
        self._stop.ends(self._asked.kill)
        try:
            stopped = self._exchange(deadline)
        finally:
            self._stop.over()  # before it is reaped: then its number may be another process's
        return "stop" if self._stop.is_set else stopped

    def _exchange(self, deadline: float) -> str:
        """Return the reason for ending the process, as in ``Output``; "" if the answer has ended."""
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return "deadline"
            for fd, _ in self._wait(left):
                if fd == self._stdin:
                    self._write()
                elif fd in self.pipes:
                    if 0 < self._read(fd) < _CHUNK and fd == self._stdout:
                        self._ends_within = _ENDS_SOON
                elif self._asked.has_ended():
                    return ""
                elif fd not in self._asked.ends:
                    self._poll.unregister(fd)
                    self._ends.unregister(fd)
            if not self._asked.ends and self._asked.has_ended():
                return ""
            if len(self._written) > MAX_OUTPUT:
                return "output"

    def _wait(self, left: float) -> list[tuple[int, int]]:
        """Wait, at most so many seconds, for events; return them."""
        if self._ends_within and self._asked.ends and not self._left:
            within = min(left, self._ends_within)
            self._ends_within = 0.0
            if events := self._ends.poll(within * 1000):
                return events
        if not self._asked.ends:
            left = min(left, POLL_WITHOUT_PIDFD)
        left = min(left, self._until_meanwhile())
        return self._poll.poll(left * 1000 + 1)

    def _until_meanwhile(self) -> float:
        """Return the seconds until a function is to be called; call it when it is due."""
        left = self._meanwhile_at - time.monotonic()
        if left > 0:
            return left
        self._meanwhile_at = float("inf")
        self._meanwhile()
        return 0.0

    def _write(self) -> None:
        try:
            while self._left:
                written = os.write(self._stdin, self._left[:_CHUNK])
                self._asked.sent += written
                self._left = self._left[written:]
        except BlockingIOError:
            self._poll.modify(self._stdin, select.POLLOUT)  # again makes no difference
            return
        # The process does not read the rest; its output shows whether that is a fault.
        except OSError:
            self._left = self._left[:0]
        self._close(self._stdin)

    def _drain(self, deadline: float) -> None:
        """Read the rest of the output after the end.

        A descendant that left the group may hold the pipes open, or go on writing. So do not wait for their end,
        and read no more than they hold now. The plugin controls this amount (F_SETPIPE_SZ, for root up to 2 GiB;
        O_DIRECT): a limit bounds stdout, and the time that a killed process has to end bounds stderr.
        """
        for _ in range(_PLAIN_READS):
            if not (self._read(self._stdout) | self._read(self._stderr)):
                return
        left = self._unread(self._stdout)
        while left > 0 and len(self._written) <= MAX_OUTPUT:
            left -= self._read(self._stdout) or left
        left = self._unread(self._stderr)
        give_up = give_up_at(deadline)
        while left > 0 and time.monotonic() < give_up:
            left -= self._read(self._stderr) or left

    def _unread(self, fd: int) -> int:
        return unread(fd) if fd in self.pipes else 0

    def _read(self, fd: int) -> int:
        """Read once from stdout or stderr; return the number of bytes."""
        if fd not in self.pipes:
            return 0
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return 0
        if not data:
            self._close(fd)
        elif fd == self._stderr:
            self._lines.feed(data)
        else:
            self._written += data
        return len(data)

    def _close(self, fd: int) -> None:
        self._poll.unregister(fd)
        self.pipes.remove(fd)
        os.close(fd)


def unread(fd: int) -> int:
    """Return the number of bytes that a pipe holds now."""
    import fcntl  # an ordinary plugin's output does not need these
    import termios

    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)


class Lines:
    """Cuts stderr into lines for a log, and keeps its end. ``log`` gets lines escaped, of ``limit`` bytes at most."""

    def __init__(self, log: Log, limit: int = MAX_OUTPUT) -> None:
        self._log = log
        self._left = limit
        self._line = self._end = b""

    def feed(self, data: bytes) -> None:
        """Take in the bytes that were read next, and log the lines that are complete."""
        self._end = (self._end + data)[-MAX_LINE:]
        if self._left < 0:
            return
        *lines, rest = (self._line + data).split(b"\n")
        self._left -= len(data) + _LINE_COST * len(lines)
        for line in lines:
            self._log(readable(line[:MAX_LINE]))
        self._line = rest[:MAX_LINE]
        if self._left < 0:
            self._line = b""
            self._log("(the rest of its stderr is too long, and is left out)")

    def finish(self) -> None:
        """Log a last line that has no newline."""
        if self._line:
            self._log(readable(self._line))

    def tail(self) -> str:
        """Return the end of all that was read, in one line."""
        return readable(self._end.strip().replace(b"\n", b" | "))


def readable(text: bytes) -> str:
    """Return ``text`` as ``nri.errors.escape`` does; bytes that are not UTF-8 are escaped, a tab is a blank."""
    return escape(text.decode("utf-8", "backslashreplace").rstrip("\r").replace("\t", " "))
