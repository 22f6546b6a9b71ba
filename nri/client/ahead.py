"""Plugins that are ready before they are asked: the host's end of :mod:`nri.skel.ahead`.

The contract of a plugin stays as it is: a process of its own for each request, which is new, has the request on stdin
and its result on stdout, the same environment, deadline and end. What is different is where it comes from: a helper,
the plugin itself, started once as ``TYPE ahead``, which forks a child that waits. A plugin is run so when

- it was built with :mod:`nri.skel` (its file names it, and it says so itself when asked for its version), and
- its file is the one that the helper was started from: a plugin that is replaced gets a new helper.

In every other case, and whenever anything about a helper is not as it should be, the plugin is started as ever: the
way here is that of :func:`nri.client.launch.launch` less its first step. No request waits for a helper to be made.
A helper, and all that comes from it, ends when its socket is closed, and so at the latest with this process.

The cost: a process for each plugin, and one that waits, which share most of their memory; no CPU time. Not for
``nri hook``, which ends after one request.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import socket
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from nri.client import launch
from nri.client.lines import Lines
from nri.client.spawn import ENVIRONMENT, pipe
from nri.inheritance import SIGNALS, inheritable
from nri.types import gojson

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

READY_WITHIN = 0.05
"""Seconds that a request waits for the next child, before the plugin is started as ever."""

MISSED_WITHIN = 2.0
"""Seconds that a helper which has nothing else to do may have no child ready; a node can be that busy."""

TAKEN_WITHIN = 0.5
"""Seconds that a child, woken, has to take the request, before it is killed and the plugin is started as ever."""

ANSWER_WITHIN = 10.0
"""Seconds that a plugin has to say whether it can be started ahead, and then to be ready."""

END_WITHIN = 2.0
"""Seconds that a helper has to end by itself."""

PROTOCOL = 1
"""The version of what is said between a host and a helper, as a plugin tells it when asked for its version."""

MARKS = (b"nri.skel", b"nri import skel")
"""What stands in the file of a plugin that was built with :mod:`nri.skel`; no other file is run to be asked."""

_SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
_SIGKILL = 9

MAX_FILE = 64 * 1024 * 1024
"""Bytes of a file that are looked through."""

log = logging.getLogger("nri.client")


class _BusyError(Exception):
    """All that the helper has made is at work, for others."""


class _File(NamedTuple):
    """What tells one file from another of the same name."""

    device: int
    inode: int
    size: int
    changed: int

    @classmethod
    def of(cls, path: str) -> _File:
        status = os.stat(path)
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns)


class Helpers:
    """The helpers of a host's plugins. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._helpers: dict[str, tuple[_File, _Helper | None]] = {}
        self._lock = threading.Lock()
        self._closed = False

    def launch(
        self,
        path: str,
        argv: list[str],
        stdin: bytes,
        deadline: float,
        *,
        max_output: int = launch.MAX_OUTPUT,
        log: Callable[[str], None],
    ) -> launch.Output:
        """As :func:`nri.client.launch.launch`, by a child of the plugin's helper where there is one."""
        helper = self._find(path, argv[0])
        if helper is not None:
            try:
                output = helper.launch(stdin, deadline, Lines(max_output, log), max_output)
            except _BusyError:
                output = None
            else:
                if output is None:
                    self._drop(path, helper)
            if output is not None:
                return output
        return launch.launch(path, argv, stdin, deadline, max_output=max_output, log=log)

    def keep(self, types: Iterable[str]) -> None:
        """End the helpers of all plugins but these: the configuration has changed."""
        wanted = set(types)
        with self._lock:
            gone = [path for path in self._helpers if os.path.basename(path) not in wanted]
            entries = [self._helpers.pop(path) for path in gone]
        for _, helper in entries:
            if helper is not None:
                helper.retire()

    def close(self) -> None:
        """End all helpers; from now on every plugin is started as ever."""
        self._closed = True
        self.keep(())

    def _find(self, path: str, plugin: str) -> _Helper | None:
        """The helper for the file that ``path`` is now; None where there is none, or none yet."""
        try:
            file = _File.of(path)
        except OSError:
            return None
        with self._lock:
            known = self._helpers.get(path)
            if self._closed or (known is not None and known[0] == file):
                return None if known is None else known[1]
            self._helpers[path] = (file, None)
        if known is not None and known[1] is not None:
            known[1].retire()
        if not _in_background(self._prepare, path, plugin, file):
            self._forget(path, file)
        return None

    def _prepare(self, path: str, plugin: str, file: _File) -> None:
        helper = None
        again = False
        try:
            if _can_be_ahead(path, plugin):
                helper = _Helper(path, plugin)
                if not helper.becomes_ready(ANSWER_WITHIN):
                    log.warning("%s can't be started ahead: it does not become ready", plugin)
                    helper.retire()
                    helper = None
        except OSError as error:
            log.warning("%s can't be started ahead: %s", plugin, error.strerror)
            again = error.errno in _SCARCE
        if again:
            self._forget(path, file)
            return
        with self._lock:
            wanted = not self._closed and self._helpers.get(path) == (file, None)
            if wanted:
                self._helpers[path] = (file, helper)
        if not wanted and helper is not None:
            helper.retire()

    def _forget(self, path: str, file: _File) -> None:
        """What could not be made now may be later."""
        with self._lock:
            if self._helpers.get(path) == (file, None):
                del self._helpers[path]

    def _drop(self, path: str, helper: _Helper) -> None:
        """A helper that is not as it should be: the next request makes a new one, if this one has ever been good."""
        with self._lock:
            known = self._helpers.get(path)
            if known is not None and known[1] is helper:
                if helper.has_answered:
                    del self._helpers[path]
                else:
                    self._helpers[path] = (known[0], None)
        helper.retire()


class _Helper:
    """One plugin, started as ``TYPE ahead``."""

    def __init__(self, path: str, plugin: str) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            actions: list[tuple[int, int] | tuple[int, int, int] | tuple[int, int, str, int, int]]
            actions = [(os.POSIX_SPAWN_CLOSE, number) for number in inheritable()]
            actions += [(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0)]
            actions += [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
            self._pid = os.posix_spawn(
                path,
                [plugin, "ahead"],
                ENVIRONMENT,
                file_actions=actions,
                setpgroup=0,
                setsigmask=(),
                setsigdef=SIGNALS,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._control = ours
        self.has_answered = False
        self._taking = threading.Lock()
        self._lock = threading.Lock()
        self._busy = 0
        self._at_work = 0
        self._missed = 0.0
        """Since when no child was ready; 0 when the last time there was one."""
        self._retired = False

    def becomes_ready(self, within: float) -> bool:
        """Wait until the first child waits; whether there is one."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        return any(events & select.POLLIN and not events & select.POLLHUP for _, events in poll.poll(within * 1000))

    def launch(self, stdin: bytes, deadline: float, lines: Lines, max_output: int) -> launch.Output | None:
        """Have a child answer; None when none has taken the request, and it can be given to another.

        :raises _BusyError: also that, but the helper is as it should be.
        """
        started = time.monotonic()
        with self._lock:
            if self._retired:
                return None
            self._busy += 1
        try:
            taken = self._take(deadline)
            if taken is None:
                return None
            pid, pidfd, pipes, report = taken
            if not _has_taken(pid, pidfd, report, deadline):
                for descriptor in (pidfd, *pipes, report):
                    os.close(descriptor)
                return None
            conversation = launch.Conversation(pid, pipes, stdin, lines, max_output, pidfd=pidfd, report=report)
            with self._lock:
                self._at_work += 1
            try:
                output = conversation.hold(deadline)
            finally:
                with self._lock:
                    self._at_work -= 1
                status = conversation.end(lambda pid, pidfd: _status(conversation.reported, pid, pidfd))
                os.close(report)
            self.has_answered = True
            output.status = status
            output.seconds = time.monotonic() - started
            return output
        finally:
            with self._lock:
                self._busy -= 1
            self._end_if_done()

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
        self._control.close()  # that is its end, and that of all that it has made
        if not _in_background(_see_end, pid):
            _see_end(pid)

    def _take(self, deadline: float) -> tuple[int, int, list[int], int] | None:
        """Give a waiting child its pipes; its pid and pidfd, our ends of the pipes, and the one of its report."""
        until = min(time.monotonic() + (0.0 if self._missed else READY_WITHIN), deadline)
        if not self._taking.acquire(timeout=max(0.0, until - time.monotonic())):
            raise _BusyError
        made: list[int] = []
        try:
            for _ in range(4):
                made += pipe()
            child_in, to_child, from_child, child_out, from_stderr, child_err, from_report, report = made
            ready = self._ready(until)
            if ready is None:
                for descriptor in made:
                    os.close(descriptor)
                return None
            pid, pidfd = ready
            made.append(pidfd)
            theirs = [child_in, child_out, child_err, report]
            socket.send_fds(self._control, [b"go %d" % pid], theirs)
        except (OSError, _BusyError) as error:
            for descriptor in made:
                os.close(descriptor)
            if isinstance(error, _BusyError) or error.errno in _SCARCE:
                raise  # no fault of the helper's; and starting the plugin as ever would fare no better
            return None
        finally:
            self._taking.release()
        for descriptor in theirs:
            os.close(descriptor)
        return pid, pidfd, [to_child, from_child, from_stderr], from_report

    def _ready(self, until: float) -> tuple[int, int] | None:
        """The pid of a child that waits and lives, and a pidfd of it."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
            now = time.monotonic()
            with self._lock:
                self._missed = self._missed or now
                if self._at_work:  # the next child comes when the last has answered
                    self._missed = now
                if now - self._missed <= MISSED_WITHIN:
                    raise _BusyError
            return None
        self._missed = 0.0
        word = self._control.recv(64)
        if not word.startswith(b"ready ") or not word[6:].isdigit():
            return None  # "": the helper is gone
        pid = int(word[6:])
        pidfd = os.pidfd_open(pid)
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        if poll.poll(0):
            os.close(pidfd)
            return None
        return pid, pidfd


def _has_taken(pid: int, pidfd: int, report: int, deadline: float) -> bool:
    """Whether a child has taken the request. If not it has ended: nobody reads a byte of it any more."""
    poll = select.poll()
    poll.register(report, select.POLLIN)
    poll.register(pidfd, select.POLLIN)
    if not poll.poll(max(0.0, min(TAKEN_WITHIN, deadline - time.monotonic())) * 1000):
        try:
            os.kill(pid, _SIGKILL)  # somebody has stopped it; by now it may have begun nevertheless
        except OSError:
            pass
        poll.poll(END_WITHIN * 1000)
    poll.unregister(pidfd)
    return any(events & select.POLLIN for _, events in poll.poll(0))


def _in_background(what: Callable[..., None], *arguments: object) -> bool:
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
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            ended = poll.poll(END_WITHIN * 1000)
        finally:
            os.close(pidfd)
    except OSError:
        ended = []
    try:
        if not ended:
            os.kill(pid, _SIGKILL)
        os.waitpid(pid, 0)
    except OSError:
        pass  # reaped by somebody else: our caller ignores SIGCHLD


def _can_be_ahead(path: str, plugin: str) -> bool:
    """Whether a plugin knows ``TYPE ahead``. Only one that says in its file that it may is asked."""
    with open(path, "rb") as file:
        content = file.read(MAX_FILE)
    if not any(mark in content for mark in MARKS):
        return False
    until = time.monotonic() + ANSWER_WITHIN
    said = launch.launch(path, [plugin, "version"], b"", until, log=lambda _line: None)
    if said.stopped or said.status != 0:
        return False
    try:
        about = gojson.loads(said.stdout)
    except ValueError:
        return False
    return isinstance(about, dict) and about.get("ahead") == PROTOCOL


def _status(reported: bytes, pid: int, pidfd: int) -> int:
    """The exit status that a child has reported; else that of which the kernel knows, as of a signal."""
    if len(reported) > 1:
        return reported[1]
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.poll(END_WITHIN * 1000)  # it was killed, at the latest now
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return os.waitstatus_to_exitcode(int(fields[49]))  # field 52 of proc(5), exit_code
    except (OSError, ValueError, IndexError):
        return -_SIGKILL
