"""``TYPE serve``: a plugin that stays, and answers request after request, one at a time, as FastCGI is to CGI.

docs/spec.md specifies it. Each request brings a stdin, a stdout and a stderr of its own, and finds a process as
``TYPE invoke`` would: after each answer this process compares what a request could have changed, and ends if anything
has. A request that leaves something to the end of its process, such as a thread or an open file, is answered by that
end, with the interpreter's own exit.

``TYPE invoke`` does not load this module.
"""

from __future__ import annotations

import _locale
import _thread
import gc
import os
import sys
from _io import FileIO, _IOBase
from _signal import getitimer  # type: ignore[import-not-found] # the signal module would import enum
from _socket import CMSG_SPACE, MSG_CMSG_CLOEXEC, SO_TYPE, SOCK_SEQPACKET, SOL_SOCKET, socket

from nri.errors import escape
from nri.types.gojson import shorten
from nri.types.serve import CHANGED, ENDED, INVOKE, MAX_MESSAGE, READY, REFUSED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from nri.skel.plugin import Plugin

    Answer = Callable[[Plugin, Any, Any], "tuple[int, bool]"]

MOST = 10_000
"""Requests that one process answers."""

GROWTH = 1.5
"""How much larger the memory may be than after the first answer."""

_MEMORY = "memory"
_OF_THE_C_LIBRARY = 0b11 << 31  # signals 32 and 33, which it handles from the first thread on
_COMPARED = (
    *(
        b"Umask",
        b"Uid",
        b"Gid",
        b"Groups",
        b"Threads",
        b"SigBlk",
        b"CapInh",
        b"CapPrm",
        b"CapEff",
        b"CapBnd",
    ),
    *(b"CapAmb", b"NoNewPrivs", b"Seccomp", b"VmLck"),
)
"""The lines of /proc/self/status, proc_pid_status(5), that a request must not change, beside SigIgn and SigCgt.

The CPUs and memory nodes are those of the cgroup, which another program changes: also konfine, for its own host.
"""


def serve(plugin: Plugin, answer: Answer) -> NoReturn:
    """Answer requests until the host closes the control socket, which is stdin.

    :param plugin: each request gets a copy of it.
    :param answer: answers one request with the plugin, a stdin and a stdout; returns the exit status, and whether
        nothing unexpected has happened.
    """
    control = _take_control(plugin.type)
    try:
        import copy

        fresh = copy.deepcopy(plugin)
        for module in plugin.uses:
            __import__(module)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        control.send(_message(REFUSED, reason))
        _exit_with(plugin.type, reason)
    null = os.open(os.devnull, os.O_RDWR)
    _be_idle(null)
    sys.argv[1:] = ["invoke"]
    own = os.getpid()
    stderr = sys.stderr
    gc.collect()
    gc.freeze()
    unfinished = _unfinished(null)
    before = _state()
    memory = 0
    functions = _Functions()
    control.send(READY)
    for _ in range(MOST):
        stdout = _receive(control)
        status, is_clean = answer(
            fresh, FileIO(0, closefd=False), FileIO(stdout, "w", closefd=False)
        )
        os.close(stdout)
        _flush_files()
        is_same = sys.stderr is stderr and os.getpid() == own
        if not is_clean or not is_same or _differs(unfinished, null):
            sys.exit(status)  # the end of this process is the end of the answer
        try:
            control.send(b"%s %d" % (ENDED, status))
        except OSError:  # the plugin has closed it
            sys.exit(status)
        _be_idle(null)
        fresh = copy.deepcopy(plugin)
        after = _state()
        grown = after.pop(_MEMORY, 0)
        memory = memory or grown * GROWTH
        changed = [
            _change(name, before[name], value)
            for name, value in after.items()
            if value != before[name]
        ]

        changed += functions.replaced()
        if grown > memory:
            changed.append(f"{_MEMORY}: {grown} KiB")
        if changed:
            control.send(_message(CHANGED, changed[0]))
            os._exit(0)
        control.send(READY)
    os._exit(0)


def _change(name: str, before: Any, after: Any) -> str:
    """Return what has changed, for people; of the environment only the names, as its values may be secrets."""
    if not isinstance(before, dict):
        return f"{name}: {before}, then {after}"
    keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    if name == "environment":
        shown = keys
    else:
        shown = [f"{key} {after.get(key, 'is gone')}" for key in keys]
    return f"{name}: {', '.join(shown)}"


def _take_control(name: str) -> socket:
    """Return the control socket, which is stdin, or exit."""
    try:
        control = socket(fileno=os.dup(0))
        if control.getsockopt(SOL_SOCKET, SO_TYPE) != SOCK_SEQPACKET:
            raise OSError(0, "it is of another type")
        control.getpeername()
    except OSError as error:
        _exit_with(name, f"stdin is no connected socket: {error.strerror}; this is for hosts")
    return control


def _exit_with(name: str, reason: str) -> NoReturn:
    """Report on stderr why no request is answered, and exit."""
    sys.stderr.write(escape(f"{name} serve: {reason}") + "\n")
    sys.exit(2)


def _message(word: bytes, argument: str) -> bytes:
    return b"%s %s" % (word, escape(shorten(argument, MAX_MESSAGE // 8)).encode())


def _receive(control: socket) -> int:
    """Wait for a request; put its stdin and stderr into their places, and return its stdout."""
    data, ancillary, _, _ = control.recvmsg(MAX_MESSAGE, CMSG_SPACE(12), MSG_CMSG_CLOEXEC)
    numbers = [number for _, _, rights in ancillary for number in memoryview(rights).cast("i")]
    if data != INVOKE or len(numbers) != 3:
        os._exit(0)  # the host has closed the socket
    stdin, stdout, stderr = numbers
    os.dup2(stdin, 0)
    os.dup2(stderr, 1)  # what a plugin prints is not its result
    os.dup2(stderr, 2)
    os.close(stdin)
    os.close(stderr)
    return stdout


def _be_idle(null: int) -> None:
    """Close the files of a request."""
    for number in (0, 1, 2):
        os.dup2(null, number)


def _flush_files() -> None:
    """Write the buffers of all files that are still open, without those that were open before ``gc.freeze``."""
    # Without frozen objects.
    new = [file for file in gc.get_objects() if issubclass(type(file), _IOBase)]
    for file in (*new, sys.__stdout__, sys.stderr):
        try:
            if file is not None and file.writable():
                file.flush()
        except (OSError, ValueError):  # it is closed, or full
            pass


def _differs(unfinished: tuple[object, ...], null: int) -> bool:
    """Return whether a request has left something that the end of its process would finish."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        pass
    else:
        return True
    if _unfinished(null) == unfinished:
        return False
    gc.collect()  # a file or a finalizer may be part of a cycle
    return _unfinished(null) != unfinished


def _unfinished(null: int) -> tuple[object, ...]:
    """Return what the end of a process finishes: threads, exit functions, finalizers, handlers of logging, files.

    Of files the lowest free descriptor, which an open file takes: to compare all of them takes longer.
    """
    free = os.dup(null)
    os.close(free)
    at_exit = sys.modules.get("atexit")
    threading = sys.modules.get("threading")
    weakref = sys.modules.get("weakref")
    logging = sys.modules.get("logging")
    return (
        _thread._count(),
        at_exit and at_exit._ncallbacks(),
        threading and len(getattr(threading, "_threading_atexits", ())),
        weakref and len(weakref.finalize._registry),
        logging and len(logging._handlerList),
        free,
    )


def _state() -> dict[str, Any]:
    """Return what a request must leave as it was, by name, and the memory of this process in KiB."""
    state: dict[str, Any] = {
        "environment": dict(os.environ),
        "locale": _locale.setlocale(_locale.LC_ALL),
        "sys.path": [*sys.path],
        "process group": (os.getpgrp(), os.getsid(0)),
        "timers": ([getitimer(which)[0] > 0 for which in (0, 1, 2)], _content("timers")),
        "limits": _content("limits"),
        "priority": _priority(),
        "personality": _content("personality"),
        "timer slack": _content("timerslack_ns"),
        "memory policy": _content("numa_maps", 128).partition(b" ")[2].partition(b" ")[0],
        "cgroup": _content("cgroup"),
        "descriptors": _links("fd"),
        "namespaces": _links("ns"),
        "directory": _link("cwd"),
        "root": _link("root"),
    }
    for line in _content("status").splitlines():
        key, _, value = line.partition(b":")
        if key in (b"SigIgn", b"SigCgt"):
            state[key.decode()] = f"{int(value, 16) & ~_OF_THE_C_LIBRARY:016x}"
        elif key in _COMPARED:
            state[key.decode()] = value.strip().decode()
        elif key == b"RssAnon":
            state[_MEMORY] = int(value.split()[0])
    return state


class _Functions:
    """The functions and classes that all requests share: of the interpreter, ``os``, and what nri.skel uses.

    Also notes what ``os.putenv`` has set without ``os.environ``: no file of /proc shows that.
    """

    def __init__(self) -> None:
        import builtins
        import time

        self._put: dict[object, object] = {}
        real_put = os.putenv
        real_unset = os.unsetenv

        def putenv(key: Any, value: Any, /) -> None:
            real_put(key, value)
            self._put[os.fsdecode(key)] = os.fsdecode(value)

        def unsetenv(key: Any, /) -> None:
            real_unset(key)
            self._put[os.fsdecode(key)] = None

        os.putenv = putenv
        os.unsetenv = unsetenv
        shared = [
            sys.modules[name]
            for name in sys.modules
            if name.startswith(("nri.skel", "nri.types", "nri.errors"))
        ]

        namespaces = [vars(module) for module in (builtins, os, sys, time, *shared)]
        functions = [
            (space, key, value)
            for space in namespaces
            for key, value in space.items()
            if callable(value)
        ]
        self._spaces = [space for space, _, _ in functions]
        self._names = [name for _, name, _ in functions]
        self._values = [value for _, _, value in functions]

    def replaced(self) -> list[str]:
        """Return what a request has changed, for people."""
        changed = [
            f"putenv: {key}"
            for key, value in self._put.items()
            if os.environ.get(str(key)) != value
        ]

        self._put.clear()
        now = list(map(dict.get, self._spaces, self._names))
        if now != self._values:
            pairs = zip(self._names, now, self._values, strict=True)
            changed += [f"another function {name}" for name, one, new in pairs if one is not new]
        return changed


def _priority() -> tuple[object, ...]:
    """Return how the scheduler and the OOM killer prefer this process: nice, real-time priority, policy, score."""
    fields = _content("stat").rpartition(b")")[2].split()  # proc_pid_stat(5), from the third on
    return (*fields[16:17], *fields[37:39], _content("oom_score_adj"))


def _content(name: str, size: int = 65536) -> bytes:
    """Return a file of this process, as much as one read gives; *size* if the kernel takes long for more."""
    try:
        file = os.open(f"/proc/self/{name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(file, size)
        finally:
            os.close(file)
    except OSError:
        return b""  # a kernel without this file


def _links(name: str) -> dict[str, str]:
    return {entry: _link(f"{name}/{entry}") for entry in os.listdir(f"/proc/self/{name}")}


def _link(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/{name}")
    except OSError:
        return ""  # the descriptor of the listing itself
