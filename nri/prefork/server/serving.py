"""A plugin that is ready before it is asked: ``TYPE prefork``, for hosts that run it often.

Starting an interpreter and loading a plugin takes many times longer than most plugins' work, and pods wait for it.
So a host may start a plugin once, as a helper that has everything loaded and does nothing but fork. Each request is
still answered by a process of its own, which is new, answers once and exits. It has nothing of any request before it:
it comes from the helper, which has seen none.

The host keeps one end of a socket (SOCK_SEQPACKET); the helper has the other as its stdin. What goes over it:

- helper to host, first: ``files``, and after it, each ended by a NUL, the files that the plugin has loaded beside its
  executable and the interpreter's own library. The host looks at them before each request.
- helper to host, instead of that: ``refused REASON``. The same reason is on stderr, and the helper ends.
- host to helper: ``more``: make a child. ``done PID``: the host has done with this one. ``next PID``: both.
- helper to host: ``ready PID``, for a child that waits, with three descriptors: a pidfd, a socket (SOCK_STREAM), and
  a pipe with the child's stdout and stderr (:func:`nri.skel.main` lets what a plugin prints go to stderr).

On its socket a child reads the length of the request (four bytes, network order) and the request. It writes what
``TYPE invoke`` would write to stdout, in pieces: the length of a piece (four bytes, not 0), and the piece. Last come
four zero bytes and its exit status (one byte). Then it has nothing left to do, nor open, and waits for the host to
close the socket, or to kill it: its end would take longer than its answer, and could keep the host from the CPU.
Where it ends before it has read the request, the host sees that its socket was reset, and asks another.
A plugin that forks in ``invoke`` and returns in both processes writes two results, as it does when it is started for
the request: the second process writes a piece, but no end.

A plugin whose children would not be as new (:mod:`nri.prefork.server.fitness`) is refused, with exit status 2.
Without a host, or without the modules that this one needs, stderr has ``TYPE prefork: REASON``.
The host reads
stderr until it has ``files``; after that it is /dev/null.

When the host closes its end, or is gone, everything here ends: the helper, the children that wait, and any that still
work. Nothing of it is on the way of a plugin that is run as ``TYPE invoke``. Whoever changes what is said here
gives it another number (:data:`nri.prefork.protocol.VERSION`), which ``TYPE version`` tells.
"""

from __future__ import annotations

import gc
import os
import select
import sys
from _io import _IOBase
from _socket import SCM_RIGHTS, SO_TYPE, SOCK_SEQPACKET, SOL_SOCKET, socket, socketpair

from nri.errors import escape
from nri.prefork.server.fitness import unfit
from nri.prefork.server.loaded_files import files
from nri.skel.plugin import Plugin
from nri.skel.process import run, speak_on_stderr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from nri.types.v1 import Request, Result

MAX_FILES = 60_000
"""Bytes of the names of the files that are loaded; a plugin with more is none for this."""

_REAP_EVERY = 0.2  # seconds between looks at children that the host has done with, and that have not quite ended
_SIGKILL = 9
_LENGTH = 4  # bytes
_PIECE = 16384  # beyond some ten thousand bytes malloc(3) goes to the kernel
_REQUEST = b"""{"conf": {"a": ["", 0, true]}, "version": "0.1", "state": "create", "id": "%(64)s", "sandboxID":
"%(64)s", "pid": 123456, "spec": {"resources": {"memory": {"limit": 1073741824}, "cpu": {"quota": 50000, "cpus":
"0-3"}}, "namespaces": {"pid": "", "network": "/proc/123456/ns/net"}, "cgroupsPath": "/kubepods/%(32)s/%(64)s",
"annotations": {"%(16)s": "%(16)s", "io.kubernetes.cri.%(16)s": "%(32)s", "io.kubernetes.cri.%(32)s": "%(100)s"}},
"labels": {"%(16)s": "%(32)s", "io.kubernetes.pod.%(8)s": "%(24)s"}, "results": [{"plugin": "a", "metadata": {"a":
"b"}}]}""" % {str(size).encode(): b"a" * size for size in (8, 16, 24, 32, 64, 100)}  # lengths that real ones have


def serve(plugin: Plugin) -> NoReturn:
    """Be the helper, until the host closes its end of the socket on stdin."""
    control = _control(plugin)
    _load(plugin, control)
    _tell_files(plugin, control)
    ended, other = os.pipe()
    os.dup2(ended, 0)  # what a plugin finds on its stdin when its request has been read: the end
    os.close(ended)
    os.close(other)
    _exchange_policy(os.SCHED_OTHER, os.SCHED_BATCH)
    sys.argv[1:] = ["invoke"]
    _warm_up()  # what that makes for the first time, and keeps, each child would make for itself
    gc.collect()
    gc.freeze()  # what is loaded stays as it is, and its pages stay shared
    poll = select.poll()
    poll.register(control.fileno(), select.POLLIN)
    children: set[int] = set()
    done: set[int] = set()
    while True:
        if poll.poll(_REAP_EVERY * 1000 if done else None):
            try:
                verb, _, number = control.recv(64).partition(b" ")
            except OSError:
                verb, number = b"", b""
            if verb == b"":
                _end(children)
            if number.isdigit() and int(number) in children:
                done.add(int(number))
            if verb in (b"more", b"next"):
                child, is_known = _fork(plugin, control)
                children.add(child)
                if not is_known:
                    done.add(child)
        for child in [child for child in done if os.waitpid(child, os.WNOHANG)[0]]:
            done.remove(child)
            children.remove(child)


def _control(plugin: Plugin) -> socket:
    """Return the socket to the host, which is stdin."""
    try:
        control = socket(fileno=os.dup(0))
        if control.getsockopt(SOL_SOCKET, SO_TYPE) != SOCK_SEQPACKET:
            raise OSError(0, "it is of another type")
        control.getpeername()
    except OSError as error:
        _refuse(plugin, None, f"stdin is no connected socket: {error.strerror}; this is for hosts")
    return control


def _load(plugin: Plugin, control: socket) -> None:
    """Load what the plugin imports late, and check that nothing of it stands against a fork."""
    for module in plugin.uses:
        try:
            __import__(module)
        except ImportError as error:
            _refuse(plugin, control, f"its `uses` names a module that cannot be imported: {error}")
    why = unfit(control.fileno())
    if why:
        _refuse(plugin, control, why)


def _tell_files(plugin: Plugin, control: socket) -> None:
    """Tell the host what is loaded; from now on it does not read stderr."""
    names = b"".join([os.fsencode(file) + b"\0" for file in files()])
    if len(names) > MAX_FILES:
        why = f"the names of its files are too long: {len(names)} bytes, expected at most {MAX_FILES}"
        _refuse(plugin, control, why)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nowhere, number)
    os.close(nowhere)
    control.send(b"files " + names)


def _refuse(plugin: Plugin, control: socket | None, why: str) -> NoReturn:
    """Say why no process is forked, to the host and on stderr, and exit."""
    if control is not None:
        control.send(b"refused " + os.fsencode(why)[:MAX_FILES])
    sys.stderr.write(escape(f"{plugin.type} prefork: {why}") + "\n")
    sys.exit(2)


def _exchange_policy(old: int, new: int) -> None:
    """Under SCHED_BATCH, who wakes up does not push another from its CPU: pods wait for that one, not for us."""
    try:
        if os.sched_getscheduler(0) == old:
            os.sched_setscheduler(0, new, os.sched_param(0))
    except OSError:
        pass  # it is a courtesy


def _fork(plugin: Plugin, control: socket) -> tuple[int, bool]:
    """A new child, and whether the host has been told of it."""
    ours, theirs = socketpair()
    read_err, write_err = os.pipe()
    child = os.fork()
    if child == 0:
        ours.close()
        os.close(read_err)
        control.close()
        _wait(plugin, theirs.detach(), write_err)
    theirs.close()
    os.close(write_err)
    pidfd, is_known = -1, True
    try:
        os.setpgid(child, child)  # by both, so that it is done when either goes on
        pidfd = os.pidfd_open(child)
        rights = b"".join([number.to_bytes(4, sys.byteorder) for number in (pidfd, ours.fileno(), read_err)])
        control.sendmsg([b"ready %d" % child], [(SOL_SOCKET, SCM_RIGHTS, rights)])
    except OSError:  # the host is gone, or one of us is out of descriptors
        os.kill(child, _SIGKILL)
        is_known = False
    finally:
        ours.close()
        os.close(read_err)
        if pidfd >= 0:
            os.close(pidfd)
    return child, is_known


def _wait(plugin: Plugin, channel: int, stderr: int) -> NoReturn:
    """The child: wait to be asked, answer, exit."""
    status = 1
    own = os.getpid()
    try:
        os.setpgid(0, 0)
        os.dup2(stderr, 1)
        os.dup2(stderr, 2)
        os.close(stderr)
        _touch(plugin)
        gc.freeze()
        _exchange_policy(os.SCHED_BATCH, os.SCHED_OTHER)
        request = _Request(channel)
        answer = _Answer()
        status = _answer(plugin, request, answer)
        result = _piece(answer.data)
        if "threading" in sys.modules or "atexit" in sys.modules:  # as these may never end, or end it
            _write(channel, result)
            result = b""
            _wind_up()
        _flush()
        if os.getpid() != own:  # `invoke` has forked, and has returned in both processes
            _write(channel, result)
            os._exit(status)
        os.closerange(3, channel)  # its locks are free when the host is told
        os.closerange(channel + 1, 1 << 20)
        _write(channel, result + _last(status))
        os.read(channel, 1)  # until the host has it: see above
    finally:
        os._exit(status)


class _Request:
    """The request, as a file to be read to its end. Made, it waits for it."""

    def __init__(self, channel: int, begun: bytes = b"") -> None:
        self._channel = channel
        while len(begun) < _LENGTH:
            begun += self._next()
        self._begun = begun[_LENGTH:]
        self._left = int.from_bytes(begun[:_LENGTH], "big") - len(self._begun)

    def read(self, size: int) -> bytes:
        piece, self._begun = self._begun, b""
        if not piece and self._left > 0:
            piece = self._next()
            self._left -= len(piece)
        return piece

    def _next(self) -> bytes:
        piece = os.read(self._channel, _PIECE)
        if not piece:
            os._exit(0)  # nobody needs it, or no more: half a request is none
        return piece


class _Answer:
    """The result, as a file that it is written to."""

    data = b""

    def write(self, data: bytes) -> int:
        self.data += data
        return len(data)

    def flush(self) -> None:
        pass


def _write(channel: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(channel, left) :]


def _with_length(data: bytes) -> bytes:
    return len(data).to_bytes(_LENGTH, "big") + data


def _piece(data: bytes) -> bytes:
    """Return a piece of stdout as the host reads it; "" for none."""
    return _with_length(data) if data else b""


def _last(status: int) -> bytes:
    """Return what the host reads last."""
    return bytes(_LENGTH) + bytes([status & 0xFF])


class _Nobody(Plugin):
    def invoke(self, request: Request) -> Result:
        return request.new_result("", metadata={"": ""})


def _warm_up() -> None:
    """Go the way of a request once, without the plugin."""
    answer = _Answer()
    status = _answer(_Nobody(), _Request(0, _with_length(_REQUEST)), answer)
    _flush()
    _piece(answer.data) + _last(status)


def _touch(plugin: Plugin) -> None:
    """Write to what a request will write to: it becomes this process's own memory now.

    The interpreter counts the references to an object in the object, and so writes to all that it uses.
    """
    _warm_up()
    for kind in [kind for kind in type(plugin).__mro__ if kind not in Plugin.__mro__]:
        beside = [value for value in vars(sys.modules[kind.__module__]).values() if type(value) is type(_touch)]
        for value in [*beside, *vars(kind).values()]:
            code = getattr(value, "__code__", None)
            if code is not None:
                list(code.co_consts)


def _answer(plugin: Plugin, request: _Request, answer: _Answer) -> int:
    """What :func:`nri.skel.main` does."""
    speak_on_stderr()
    try:
        status = run(plugin, sys.argv, request, answer, sys.stderr)
    except KeyboardInterrupt:
        status = 130
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    return status


def _wind_up() -> None:
    """What the interpreter does at its end, as far as it can be seen outside."""
    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()  # waits for those that are no daemons
    if "atexit" in sys.modules:
        sys.modules["atexit"]._run_exitfuncs()


def _flush() -> None:
    """Write what is still in files that nobody has closed."""
    new = [each for each in gc.get_objects() if issubclass(type(each), _IOBase)]  # without what is frozen
    for file in (*new, sys.__stdout__, sys.stderr):
        try:
            if file is not None and not file.closed and file.writable():
                file.flush()
        except (OSError, ValueError):
            pass


def _end(children: set[int]) -> NoReturn:
    """The host is gone: so is everything that was started for it."""
    for child in children:
        try:
            os.killpg(child, _SIGKILL)
        except OSError:
            pass  # it has ended by itself
    for child in children:  # one that is killed and not gone would be taken for something that the plugin left
        try:
            os.waitpid(child, 0)
        except ChildProcessError:
            pass
    os._exit(0)
