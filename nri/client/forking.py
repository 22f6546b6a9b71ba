"""Runs the plugins of this very build in forked processes, and starts all others.

Starting a plugin costs more than its work: the kernel loads a program, the interpreter starts and loads modules. A
host such as ``nri hook`` has loaded most of them already, so it forks. A plugin is of this build if its executable is
in the folder that this process was started from, and its mark (``nri.client.build_mark``) names the build of this
process's own executable. A copy, a script or another build in the place of a plugin is started.

The process has what the contract names: arguments, pipes, environment, a session of its own, no other
descriptor, default signal handling. Its memory, ``/proc/PID/exe`` and ``/proc/PID/cmdline`` are the host's.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # the signal module would import enum
import os
import sys
import time

from nri.client import build_mark
from nri.client.invoker import Invoker
from nri.process import children
from nri.process.conversation import NEVER, Asked, Conversation
from nri.process.spawn import PLUGIN_ENVIRONMENT, SIGNALS, Pipes, close_others, set_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    from nri.client.invoker import Log
    from nri.process.conversation import Output, Stop

STATEFUL = ("atexit", "logging", "multiprocessing", "random", "threading")
"""Modules whose state a fork shares or loses. No host that uses this invoker loads them."""

_IGNORED = (_signal.SIGPIPE, _signal.SIGXFSZ)  # by the interpreter, at its start


class ForkingInvoker(Invoker):
    """Forks for a plugin of this build, and starts any other.

    For a process with one thread that does nothing but run chains: a lock that another thread holds would never be
    released in the child. The parameters are those of ``Invoker``.
    """

    def run(
        self,
        path: str,
        plugin: str,
        request: bytes,
        deadline: float,
        log: Log,
        stop: Stop = NEVER,
    ) -> Output:
        """Run it in a forked process if it is of this build, else start it."""
        main = own_plugin(path)
        if main is None:
            return super().run(path, plugin, request, deadline, log, stop)
        with Pipes() as pipes:
            pid = _fork(main, plugin, pipes.theirs)
        return Conversation(Asked(pid), pipes.ours, request, log, stop=stop).run(deadline)


def own_plugin(path: str) -> Callable[[], object] | None:
    """Return the function that runs the plugin of an executable of this build; None for any other executable."""
    if not getattr(sys, "frozen", False) or not sys.modules.keys().isdisjoint(STATEFUL):
        return None
    _, module = build_mark.read_own_plugin(path)
    if not module:
        return None
    try:
        __import__(module)
    except ImportError:
        return None
    main: Callable[[], object] = sys.modules[module].main
    return main


def _fork(main: Callable[[], object], plugin: str, descriptors: Sequence[int]) -> int:
    """Fork a process that runs a plugin, and return its pid.

    :raises OSError: when no process can be forked.
    """
    children.reap_late()
    # Our handlers must not run in the child.
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, SIGNALS)

    def begin() -> int:
        pid = os.fork()
        if pid == 0:
            _become(main, plugin, descriptors)
        return pid

    try:
        return children.start_plugin(begin, descriptors[0])
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)


def _become(main: Callable[[], object], plugin: str, descriptors: Sequence[int]) -> NoReturn:
    """Be the child: run the plugin, and exit."""
    status = 1
    try:
        os.setsid()
        for number, fd in enumerate(descriptors):
            os.dup2(fd, number)
        close_others(*range(len(descriptors)))
        for signal in SIGNALS:
            handler = _signal.SIG_IGN if signal in _IGNORED else _signal.SIG_DFL
            _signal.signal(signal, handler)
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
        os.environ.clear()
        os.environ.update(PLUGIN_ENVIRONMENT)
        time.tzset()  # there may have been a TZ
        sys.argv[:] = [plugin, "invoke"]
        # The host's objects stay, in sys.__stdin__ and so on: a file that is freed writes its buffer.
        sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
        sys.stdout = sys.stderr = open(  # noqa: SIM115
            2, "w", encoding="utf-8", errors="backslashreplace", closefd=False, buffering=1
        )
        set_name(plugin)
        main()
    except SystemExit as exit_:
        status = exit_.code if isinstance(exit_.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status & 0xFF)
