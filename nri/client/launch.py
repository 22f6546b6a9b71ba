"""Starts one executable, feeds it, reads it, and sees to it that it ends.

The promises: no shell, a fixed environment, no descriptors but 0, 1 and 2, a process group of its own. What comes
back is bounded. The whole group is killed when the deadline passes, when the output is too long, and when the process
has exited: when :func:`launch` returns or raises, it has ended, and every other process of its group has been killed.
"""

from __future__ import annotations

import os
import select
import time
from _thread import allocate_lock

from nri.client.lines import Lines
from nri.client.spawn import pipe, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MAX_OUTPUT = 1024 * 1024
"""Bytes of stdout, and of logged stderr, by default."""

_POLL_WITHOUT_PIDFD = 0.01  # seconds between looks at a process on kernels before 5.3
_CHUNK = 65536
_PIPE_CHUNKS = 16  # a pipe holds at most 1 MiB (/proc/sys/fs/pipe-max-size)
_REAP_GRACE = 1.0  # seconds that a killed process gets to go; one in an uninterruptible call may take for ever
_unreaped: list[int] = []  # those that took longer; looked at again before the next launch
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
    with _reaping:
        _unreaped[:] = [pid for pid in _unreaped if _status(pid) is None]
    pipes: list[int] = []
    try:
        for _ in range(3):
            pipes += pipe()
        pid = spawn(path, argv, pipes, deadline)
    except BaseException:
        for fd in pipes:
            os.close(fd)
        raise
    child_in, to_child, from_child, child_out, from_stderr, child_err = pipes
    for fd in (child_in, child_out, child_err):
        os.close(fd)
    conversation = Conversation(pid, [to_child, from_child, from_stderr], stdin, Lines(max_output, log), max_output)
    try:
        output = conversation.hold(deadline)
    except OSError as error:
        raise BrokenOffError(error.errno, error.strerror) from error
    finally:
        status = conversation.end(_reap)
    output.status = status
    output.seconds = time.monotonic() - started
    return output


class Conversation:
    """A process that has been started, and the three pipes to it; it owns them.

    :param pipes: our ends of its stdin, stdout and stderr.
    :param pidfd: of the process, where there is one already; it owns this too.
    :param report: a pipe on which it says two bytes of itself: that it has begun, and its exit status, when it is
        done; -1 for a process of which only its end can be known. ``reported`` is what it has said.
    """

    def __init__(
        self, pid: int, pipes: list[int], data: bytes, lines: Lines, limit: int, *, pidfd: int = -1, report: int = -1
    ) -> None:
        self.pid = pid
        self.reported = b""
        self._report = report
        self._stdin, self._stdout, self._stderr = pipes
        self._left = memoryview(data)
        self._out = bytearray()
        self._limit = limit
        self._lines = lines
        self._open = set(pipes)
        self._poll = select.poll()
        self._pidfd = pidfd if pidfd >= 0 else _pidfd(pid)
        for fd in pipes:
            os.set_blocking(fd, False)
        self._poll.register(self._stdin, select.POLLOUT)
        for fd in (self._stdout, self._stderr, self._pidfd):
            if fd >= 0:
                self._poll.register(fd, select.POLLIN)
        if report >= 0:
            self._poll.register(report, select.POLLIN)

    def hold(self, deadline: float) -> Output:
        """Write and read until the process has exited, or said that it is done, or is not worth waiting for."""
        output = Output()
        output.stopped = ""
        exited = False
        while not exited:
            left = deadline - time.monotonic()
            if left <= 0:
                output.stopped = "deadline"
                break
            wait = left if self._pidfd >= 0 else min(left, _POLL_WITHOUT_PIDFD)
            for fd, _events in self._poll.poll(wait * 1000 + 1):
                if fd == self._pidfd:
                    exited = True
                elif fd == self._stdin:
                    self._write()
                elif fd == self._stdout:
                    self._read_stdout()
                elif fd == self._stderr:
                    self._read_stderr()
                else:
                    exited = self._read_report() or exited
            if self._pidfd < 0:
                exited = _has_exited(self.pid)
            if len(self._out) > self._limit:
                output.stopped = "output"
                break
        self._kill()
        # What it had written before it exited is in the pipes. A descendant that left the group may hold them open,
        # or go on writing: no waiting for their end, and no more is read than a pipe can hold.
        for _ in range(_PIPE_CHUNKS):
            if not (self._read_stdout() | self._read_stderr()):
                break
        if len(self._out) > self._limit:
            output.stopped = output.stopped or "output"
        self._lines.finish()
        output.stdout = bytes(self._out)
        output.stderr = self._lines.tail()
        return output

    def end(self, reap: Callable[[int, int], int]) -> int:
        """Kill what is left of the group, close everything; returns the exit status.

        :param reap: takes the process's pid and pidfd (or -1), and returns its exit status.
        """
        self._kill()
        status = reap(self.pid, self._pidfd)
        for fd in (*self._open, self._pidfd):
            if fd >= 0:
                os.close(fd)
        return status

    def _kill(self) -> None:
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
            return
        except OSError:
            pass  # it does not want to read the rest; whether that is a fault, its answer tells
        self._close(self._stdin)

    def _read_report(self) -> bool:
        data = os.read(self._report, 2)
        self.reported += data
        if not data:
            self._poll.unregister(self._report)  # it ends without having said how
        return len(self.reported) > 1

    def _read_stdout(self) -> bool:
        data = self._read(self._stdout)
        self._out += data
        return bool(data)

    def _read_stderr(self) -> bool:
        data = self._read(self._stderr)
        self._lines.feed(data)
        return bool(data)

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
        self._poll.unregister(fd)
        self._open.discard(fd)
        os.close(fd)


def _pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except OSError:  # ENOSYS before Linux 5.3, EPERM under some seccomp filters
        return -1


def _has_exited(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True  # see _status


def _reap(pid: int, pidfd: int) -> int:
    """The exit status of a process that has exited or was killed."""
    give_up = time.monotonic() + _REAP_GRACE
    while (status := _status(pid)) is None:
        left = give_up - time.monotonic()
        if left <= 0:
            with _reaping:
                _unreaped.append(pid)
            return -_SIGKILL
        try:
            if pidfd < 0:
                raise OSError
            waiting = select.poll()
            waiting.register(pidfd, select.POLLIN)
            waiting.poll(left * 1000 + 1)
        except OSError:  # also ENOMEM: whatever happens, it has to be reaped
            time.sleep(_POLL_WITHOUT_PIDFD)
    return status


def _status(pid: int) -> int | None:
    """The exit status of a process that is reaped by this call; None while it runs."""
    try:
        reaped, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0  # reaped by somebody else: our caller ignores SIGCHLD, and the kernel keeps no status
    return os.waitstatus_to_exitcode(status) if reaped else None
