"""A plugin that is ready before it is asked: ``TYPE ahead``, for hosts that run it often.

Starting an interpreter and loading a plugin takes many times longer than most plugins' work, and pods wait for it.
So a host may start a plugin once, as a helper that has everything loaded and does nothing but fork. Each request is
still answered by a process of its own, which is new, has its request on stdin and its result on stdout, answers once
and exits. It has nothing of any request before it: it comes from the helper, which has seen none.

The host keeps one end of a socket (SOCK_SEQPACKET); the helper has the other as its stdin. What goes over it:

- helper to host: ``ready PID``, for a child that waits. There is one at a time, and the next when that has answered.
- host to child: ``go PID``, with four descriptors: the plugin's stdin, stdout and stderr, and a pipe for its status.
- child to host, on that pipe: ``t`` when it has taken the request, then its exit status as one byte.

A plugin of which something would be shared by its children is none for this, and its helper ends at once: one that
has started a thread (a fork has only the thread that forks) or holds a file open (its position and locks are common).

When the host closes its end, or is gone, everything here ends: the helper, the child that waits, and any that still
work. Nothing of it is on the way of a plugin that is run as ``TYPE invoke``.
"""

from __future__ import annotations

import gc
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from typing import NoReturn

    from nri.skel.plugin import Plugin
    from nri.types.v1 import Request, Result

REAP_AFTER = 1.0
"""Seconds that a child's number stays its own after its end: the host may still want to kill what it left."""

_SIGKILL = 9
_REQUEST = b"""{"conf": {"a": ["", 0, true]}, "version": "0.1", "state": "create", "id": "a", "sandboxID": "b", "pid":
1, "spec": {"resources": {"memory": {}, "cpu": {"quota": 50000}}, "namespaces": {"pid": ""}, "cgroupsPath": "/a",
"annotations": {"a": "b"}}, "labels": {"a": "b"}, "results": [{"plugin": "a", "metadata": {"a": "b"}}]}"""
_DESCRIPTORS = 4
_LOOK = os.WEXITED | os.WNOHANG | os.WNOWAIT


def serve(plugin: Plugin) -> NoReturn:
    """Be the helper, until the host closes its end of the socket on stdin."""
    from _socket import SO_TYPE, SOCK_SEQPACKET, SOL_SOCKET, socket

    for module in plugin.uses:
        __import__(module)
    try:
        control = socket(fileno=os.dup(0))
        if control.getsockopt(SOL_SOCKET, SO_TYPE) != SOCK_SEQPACKET:
            raise OSError(0, "it is of another type")
        control.getpeername()
    except OSError as error:
        _refuse(plugin, f"stdin is no connected socket: {error.strerror}; this is for hosts")
    if (shared := _shared(control.fileno())) != "":
        _refuse(plugin, f"it has {shared} when it is loaded, which its processes would share")
    gc.collect()
    gc.freeze()  # what is loaded stays as it is, and its pages stay shared
    taken, tell_taken = os.pipe()
    working: set[int] = set()
    ended: dict[int, float] = {}  # since when
    poll = select.poll()
    poll.register(control.fileno(), 0)  # POLLHUP alone: what is sent is for the child
    poll.register(taken, select.POLLIN)
    waiting, alive = 0, -1
    while True:
        if alive < 0:
            waiting = _fork(plugin, control, taken, tell_taken)
            alive = os.pidfd_open(waiting)
            poll.register(alive, select.POLLIN)
        happened = {descriptor for descriptor, _ in poll.poll(REAP_AFTER * 1000 if working or ended else None)}
        if control.fileno() in happened:
            _end([waiting, *working, *ended])
        if taken in happened:
            os.read(taken, 1)
        if happened & {taken, alive}:  # it has answered; or it has ended without an answer
            working.add(waiting)
            poll.unregister(alive)
            os.close(alive)
            alive = -1
        now = time.monotonic()
        for child in [child for child, since in ended.items() if now - since > REAP_AFTER]:
            os.waitpid(child, 0)
            del ended[child]
        for child in [child for child in working if os.waitid(os.P_PID, child, _LOOK) is not None]:
            working.remove(child)
            ended[child] = now


def _refuse(plugin: Plugin, why: str) -> NoReturn:
    sys.stderr.write(f"{plugin.type} ahead: {why}\n")
    sys.exit(2)


def _shared(control: int) -> str:
    """What all children would have in common; "" for nothing."""
    if len(os.listdir("/proc/self/task")) > 1:
        return "a thread"
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != control and os.path.exists(f"/proc/self/fd/{name}"):
            return f"a file open, {os.readlink(f'/proc/self/fd/{name}')!r},"
    return ""


def _fork(plugin: Plugin, control: socket, taken: int, tell_taken: int) -> int:
    child = os.fork()
    if child == 0:
        os.close(taken)
        _wait(plugin, control, tell_taken)
    try:
        os.setpgid(child, child)  # by both, so that it is done when either goes on
        control.send(b"ready %d" % child)
    except OSError:
        pass  # the host is gone, which poll() tells, or the child is, which the host notices
    return child


def _wait(plugin: Plugin, control: socket, tell_taken: int) -> NoReturn:
    """The child: wait to be asked, answer, exit."""
    from _socket import CMSG_SPACE, MSG_CMSG_CLOEXEC

    status = 1
    try:
        os.setpgid(0, 0)
        _touch()
        word, ancillary, _flags, _address = control.recvmsg(32, CMSG_SPACE(4 * _DESCRIPTORS), MSG_CMSG_CLOEXEC)
        descriptors = [
            int.from_bytes(data[at : at + 4], sys.byteorder)
            for _level, _type, data in ancillary
            for at in range(0, len(data), 4)
        ]
        if word != b"go %d" % os.getpid() or len(descriptors) != _DESCRIPTORS:
            os._exit(0)  # the host is gone, or means the child before, which ended in between
        stdin, stdout, stderr, report = descriptors
        os.write(report, b"t")
        # As skel.main leaves it: 1 is stderr's, and the result has a descriptor of its own.
        for source, target in ((stdin, 0), (stderr, 1), (stderr, 2)):
            os.dup2(source, target)
        for descriptor in (stdin, stderr):
            os.close(descriptor)
        control.close()
        status = _answer(plugin, stdout)
        # Only now: making the next child takes a CPU that this one needed. And before the host is told that this one
        # is done, which may be its end.
        os.write(tell_taken, b"t")
        os.closerange(3, report)  # its locks are free when the host is told
        os.closerange(report + 1, 1 << 20)
        os.write(report, bytes([status & 0xFF]))
    finally:
        os._exit(status)


def _touch() -> None:
    """Go the way of a request once, without the plugin: what it writes to becomes this process's own memory now."""
    from io import BytesIO, StringIO

    from nri.skel.plugin import Plugin
    from nri.skel.process import run

    class Nobody(Plugin):
        def invoke(self, request: Request) -> Result:
            return request.new_result("", metadata={"": ""})

    run(Nobody(), ["", "invoke"], BytesIO(_REQUEST), BytesIO(), StringIO())


def _answer(plugin: Plugin, stdout: int) -> int:
    """What :func:`nri.skel.main` does, and what the interpreter does at its end as far as it can be seen outside."""
    from nri.skel.process import run, speak_on_stderr

    sys.argv[1:] = ["invoke"]
    speak_on_stderr()
    try:
        with open(0, "rb", closefd=False) as stdin, open(stdout, "wb", buffering=0) as result:
            status = run(plugin, sys.argv, stdin, result, sys.stderr)
    except KeyboardInterrupt:
        status = 130
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()  # waits for those that are no daemons
    if "atexit" in sys.modules:
        sys.modules["atexit"]._run_exitfuncs()
    _flush()
    return status


def _flush() -> None:
    """Write what is still in files that nobody has closed."""
    from io import IOBase

    new = [each for each in gc.get_objects() if issubclass(type(each), IOBase)]  # without what was there before
    for file in (*new, sys.__stdout__, sys.stderr):
        try:
            if file is not None and not file.closed and file.writable():
                file.flush()
        except (OSError, ValueError):
            pass


def _end(children: list[int]) -> NoReturn:
    """The host is gone: so is everything that was started for it."""
    for child in children:
        try:
            os.killpg(child, _SIGKILL)
        except OSError:
            pass  # it has ended by itself
    os._exit(0)
