"""Starts one executable, feeds it, reads it, and sees to it that it ends.

The promises: no shell, a fixed environment, no descriptors but 0, 1 and 2, a process group of its own. What comes
back is bounded. The whole group is killed when the deadline passes, when the output is too long, and when the process
has exited: when :func:`launch` returns or raises, it has ended, and every other process of its group has been killed.
But one that the kernel does not let go, in an uninterruptible call, is not waited for: it is reaped when it is gone.
"""

from __future__ import annotations

import os
import select
import sys
import time
from _thread import allocate_lock

from nri.process.lines import Lines
from nri.process.spawn import pipe, reap, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MAX_OUTPUT = 1024 * 1024
"""Bytes of stdout, and of logged stderr, by default."""

_POLL_WITHOUT_PIDFD = 0.01  # seconds between looks at a process on kernels before 5.3
_CHUNK = 65536
_PLAIN_READS = 4  # after the end, more than an ordinary pipe needs; then the kernel is asked how much is left
REAP_WITHIN = 1.0
"""Seconds that a killed process gets to go; one in an uninterruptible call may take for ever."""

REAP_LATE = 0.03
"""Seconds of these after its deadline: whoever set that may have to answer by then, as the bridge has to."""

_unreaped: list[int] = []  # those that took longer; looked at again by reap_late
_reaping = allocate_lock()

_SIGKILL = 9  # the signal module would import enum


class BrokenOffError(OSError):
    """A process was started, and was killed since it could not be waited for or read any more."""


class Output:
    """What a process left: its stdout, the end of its stderr, how it ended, how long it took."""

    __slots__ = ("seconds", "status", "stderr", "stdout", "stopped")

    stdout: bytes
    stderr: str
    """The end of it, control characters escaped."""
    status: int
    """The exit status; a negative number is the signal that ended it."""
    stopped: str
    """"" or why it was killed: ``deadline`` or ``output``."""
    seconds: float

    @property
    def ending(self) -> str:
        """The exit status or signal in words; "" for exit status 0."""
        if self.status < 0:
            return f"ended by signal {-self.status}"
        return f"exit status {self.status}" if self.status else ""


def launch(
    path: str,
    argv: list[str],
    stdin: bytes,
    deadline: float,
    *,
    max_output: int = MAX_OUTPUT,
    log: Callable[[str], None],
) -> Output:
    """Run ``path`` until it exits, or until ``deadline`` (of :func:`time.monotonic`, in seconds).

    :param stdin: what it is sent; it need not read it.
    :param log: called with each line of its stderr as it comes, control characters escaped.
    :raises OSError: when it can't be started; BrokenOffError when that is not why.
    """
    started = time.monotonic()
    pid, pipes = start(path, argv, deadline)
    output = Conversation(pid, pipes, stdin, Lines(max_output, log), max_output).run(deadline)
    output.seconds = time.monotonic() - started
    return output


def start(path: str, argv: list[str], deadline: float) -> tuple[int, list[int]]:
    """Start ``path``; returns its pid, and our ends of its stdin, stdout and stderr.

    :raises OSError: when it can't be started.
    """
    reap_late()
    pipes: list[int] = []
    try:
        for _ in range(3):
            pipes += pipe()
        for fd in (pipes[1], pipes[2], pipes[4]):
            os.set_blocking(fd, False)
        pid = spawn(path, argv, pipes, deadline)
    except BaseException:
        for fd in pipes:
            os.close(fd)
        raise
    child_in, to_child, from_child, child_out, from_stderr, child_err = pipes
    for fd in (child_in, child_out, child_err):
        os.close(fd)
    return pid, [to_child, from_child, from_stderr]


def reap_late() -> None:
    """Reap those that took longer to go than they were waited for, if they have gone by now."""
    with _reaping:
        _unreaped[:] = [pid for pid in _unreaped if _status(pid) is None]


class Conversation:
    """A process that has been started, and the three pipes to it; it owns them.

    :param pipes: our ends of its stdin, stdout and stderr, which do not block.
    :param data: for its stdin.
    :param limit: bytes of its stdout.
    :param pidfd: of the process, where there is one already; it owns this too.
    """

    def __init__(self, pid: int, pipes: list[int], data: bytes, lines: Lines, limit: int, *, pidfd: int = -1) -> None:
        self.pid = pid
        self._stdin, self._stdout, self._stderr = pipes
        self._left = memoryview(data)
        self._out = bytearray()
        self._limit = limit
        self._lines = lines
        self._open = set(pipes)
        self._over = self._killed = False
        self._poll = select.poll()
        self._pidfd = pidfd if pidfd >= 0 else _pidfd(pid)
        for fd in (self._stdout, self._stderr, self._pidfd):
            if fd >= 0:
                self._poll.register(fd, select.POLLIN)

    def run(self, deadline: float) -> Output:
        """Hold it, and end it.

        :raises BrokenOffError: when that can't go on.
        """
        try:
            output = self.hold(deadline)
        except OSError as error:
            raise BrokenOffError(error.errno, error.strerror) from error
        finally:
            status = self.end(give_up_at(deadline))
        output.status = status
        return output

    def hold(self, deadline: float) -> Output:
        """Write and read until the process is done, or is not worth waiting for."""
        output = Output()
        output.stopped = ""
        self._write()
        while not self._over:
            left = deadline - time.monotonic()
            if left <= 0:
                output.stopped = "deadline"
                break
            for fd, events in self._poll.poll(self._wait(left) * 1000 + 1) or self._nothing():
                if fd == self._pidfd:
                    self._over = True
                elif fd == self._stderr:
                    self._read_stderr()
                else:
                    if fd == self._stdin and self._left:
                        self._write()
                    if fd == self._stdout and events != select.POLLOUT:
                        self._read_stdout()
            if self._pidfd < 0:
                self._over = has_exited(self.pid)
            if len(self._out) > self._limit:
                output.stopped = "output"
                break
        self._kill()
        self._drain(deadline)
        if len(self._out) > self._limit:
            output.stopped = output.stopped or "output"
        self._lines.finish()
        output.stdout = bytes(self._out)
        output.stderr = self._lines.tail()
        return output

    def _drain(self, deadline: float) -> None:
        """Read what the process had written before it ended.

        A descendant that left the group may hold the pipes open, or go on writing. So do not wait for their end,
        and read no more than they hold now. The plugin decides how much that is: F_SETPIPE_SZ enlarges a pipe, for
        root up to 2 GiB, and with O_DIRECT a read returns one write. The limit of output bounds what is read of
        stdout; the time that a killed process has to end bounds what is read of stderr.
        """
        for _ in range(_PLAIN_READS):
            if not (self._read_stdout() | self._read_stderr()):
                return
        left = self._unread(self._stdout)
        while left > 0 and len(self._out) <= self._limit:
            left -= self._read_stdout() or left
        left, give_up = self._unread(self._stderr), give_up_at(deadline)
        while left > 0 and time.monotonic() < give_up:
            left -= self._read_stderr() or left

    def _unread(self, fd: int) -> int:
        """Return the number of bytes that a pipe or socket holds now."""
        import fcntl  # after an ordinary plugin none of this is needed
        import termios

        if fd not in self._open:
            return 0
        return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)

    def end(self, give_up: float | None = None) -> int:
        """Kill what is left of the group, close everything; returns the exit status.

        :param give_up: as of :func:`await_end`.
        """
        self._kill()
        status = await_end(self.pid, self._pidfd, give_up)
        self.close()
        return status

    def close(self) -> None:
        """Close everything that it owns."""
        for fd in (*self._open, self._pidfd):
            if fd >= 0:
                os.close(fd)

    def _wait(self, left: float) -> float:
        """Seconds to wait for something to happen."""
        return left if self._pidfd >= 0 else min(left, _POLL_WITHOUT_PIDFD)

    def _nothing(self) -> tuple[()]:
        """Nothing has happened in that time."""
        return ()

    def _kill(self) -> None:
        if self._killed:
            return
        self._killed = True
        # The process is not reaped yet, so neither its number nor its group's can be somebody else's by now.
        for kill in (os.killpg, os.kill):  # the process itself may have left its group
            try:
                kill(self.pid, _SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass  # all gone; or only processes that changed their user, which we may not touch

    def _write(self) -> None:
        try:
            while self._left:
                self._left = self._left[os.write(self._stdin, self._left[:_CHUNK]) :]
        except BlockingIOError:
            is_both = self._stdin == self._stdout
            self._poll.register(self._stdin, select.POLLIN | select.POLLOUT if is_both else select.POLLOUT)
            return
        except OSError:
            self._unwanted()
        self._sent()

    def _unwanted(self) -> None:
        """It does not want the rest of its stdin; whether that is a fault, its answer tells."""
        self._left = self._left[:0]

    def _sent(self) -> None:
        """There is no more for its stdin."""
        self._close(self._stdin)

    def _read_stdout(self) -> int:
        """Read once; returns the number of bytes."""
        data = self._read(self._stdout)
        self._out += data
        return len(data)

    def _read_stderr(self) -> int:
        """Read once; returns the number of bytes."""
        data = self._read(self._stderr)
        if data:
            self._lines.feed(data)
        return len(data)

    def _read(self, fd: int) -> bytes:
        if fd not in self._open:
            return b""
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return b""
        if not data:
            self._close(fd)
        return data

    def _close(self, fd: int) -> None:
        try:
            self._poll.unregister(fd)
        except KeyError:
            pass  # all was written at once
        self._open.discard(fd)
        os.close(fd)


def _pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except OSError:  # ENOSYS before Linux 5.3, EPERM under some seccomp filters
        return -1


def has_exited(pid: int) -> bool:
    """Whether a child has ended. It is not reaped: its number stays its own."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True  # see _status


def ends(pidfd: int, within: float) -> bool:
    """Wait, at most so many seconds, for the end of a process; whether it has come."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(max(0.0, within) * 1000 + 1))


def give_up_at(deadline: float) -> float:
    """When a process that has been killed, by its ``deadline`` or before, is waited for no longer."""
    now = time.monotonic()
    return min(now + REAP_WITHIN, max(now, deadline) + REAP_LATE)


def await_end(pid: int, pidfd: int, give_up: float | None = None) -> int:
    """Reap a process that has exited or was killed; returns its exit status.

    One that takes longer than it may, in an uninterruptible system call, is left to :func:`reap_late`.

    :param give_up: of :func:`time.monotonic`; by default in :data:`REAP_WITHIN` seconds.
    """
    give_up = time.monotonic() + REAP_WITHIN if give_up is None else give_up
    while (status := _status(pid)) is None:
        left = give_up - time.monotonic()
        if left <= 0:
            with _reaping:
                _unreaped.append(pid)
            return -_SIGKILL
        try:
            if pidfd < 0:
                raise OSError
            ends(pidfd, left)
        except OSError:  # also ENOMEM: whatever happens, it has to be reaped
            time.sleep(_POLL_WITHOUT_PIDFD)
    return status


def _status(pid: int) -> int | None:
    """The exit status of a process that is reaped by this call; None while it runs."""
    try:
        reaped, status = reap(pid)
    except ChildProcessError:
        return 0  # reaped by somebody else: our caller ignores SIGCHLD, and the kernel keeps no status
    return os.waitstatus_to_exitcode(status) if reaped else None
