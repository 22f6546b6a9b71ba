"""Checks whether a loaded plugin can be forked: every worker must be as good as a new process.

A fork shares some resources with all other workers (open files, shared memory) and loses others (threads, timers). A
plugin that has one of them when it is loaded is started for each request instead. The checks import nothing: a module
that is not loaded has no effect. docs/writing-a-plugin.md lists them, and the states that they cannot find.
"""

from __future__ import annotations

import gc
import os
import stat
import sys
import time
from _signal import SIG_DFL, SIGCHLD, getitimer, getsignal  # type: ignore[import-not-found] # signal imports enum

from nri.prefork.server.loaded_files import mappings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

_THREAD_ENDS_WITHIN = 0.2  # seconds: a joined thread exists in the kernel for a moment longer

_THREADING_ATEXITS = ("concurrent.futures.thread", "concurrent.futures.process")
"""Modules of the standard library that register one function with ``threading._register_atexit`` each."""


def unfit(controls: Collection[int], workers: Collection[int] = ()) -> str:
    """Return the reason why forked processes would differ from new ones, or "" if they would not.

    :param controls: the descriptors of the control sockets, which may be open.
    :param workers: children that are workers.
    """
    found = (
        _threads() or _children(workers) or _open_files(controls) or _redirected() or _shared_memory() or _timers()
    )
    return found or _signals() or _finalizers() or _exit_functions() or _random_state()


def _threads() -> str:
    until = time.monotonic() + _THREAD_ENDS_WITHIN
    while (count := len(os.listdir("/proc/self/task"))) > 1:
        if time.monotonic() >= until:
            return f"it has threads beside the main one when it is loaded: {count - 1}"
        time.sleep(0.005)
    return ""


def _children(workers: Collection[int]) -> str:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return ""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
            others = [pid for pid in file.read().split() if int(pid) not in workers]
    except OSError:
        others = []  # a kernel without CONFIG_PROC_CHILDREN
    return "it has a child process when it is loaded" if others or not workers else ""


def _open_files(controls: Collection[int]) -> str:
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in controls and os.path.exists(f"/proc/self/fd/{name}"):
            return f"it has a file open when it is loaded: {os.readlink(f'/proc/self/fd/{name}')}"
    return ""


def _redirected() -> str:
    """Compare stdout and stderr: the host opened one pipe for both, and each worker replaces both by its own."""
    try:
        out, err = os.fstat(1), os.fstat(2)
    except OSError:
        return "it has closed stdout or stderr when it is loaded"
    if (out.st_dev, out.st_ino) != (err.st_dev, err.st_ino) or stat.S_ISREG(out.st_mode):
        where = " and ".join([os.readlink(f"/proc/self/fd/{number}") for number in (1, 2)])
        return f"it has redirected stdout or stderr when it is loaded: {where}"
    return ""


def _shared_memory() -> str:
    """Find a writable shared mapping: mmap(2), shared_memory, a semaphore of multiprocessing, shmat(2), io_uring."""
    shared = [name or "anonymous" for permissions, name in mappings() if permissions[1:4:2] == b"ws"]
    return f"it has writable shared memory when it is loaded: {shared[0]}" if shared else ""


def _timers() -> str:
    running = any(getitimer(which)[0] > 0 for which in (0, 1, 2))  # ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF
    try:
        with open("/proc/self/timers", "rb") as file:  # of timer_create(2)
            running = running or file.read(1) != b""
    except OSError:
        pass  # a kernel without CONFIG_CHECKPOINT_RESTORE
    return "it has a timer running when it is loaded, such as signal.alarm" if running else ""


def _signals() -> str:  # the plugin's handler would run in the server when a worker ends
    return "" if getsignal(SIGCHLD) == SIG_DFL else "it handles or ignores SIGCHLD when it is loaded"


def _finalizers() -> str:
    """Find an object with a finalizer, such as a TemporaryDirectory: the first worker that ends would clean it up."""
    weakref = sys.modules.get("weakref")
    for info in list(weakref.finalize._registry.values()) if weakref is not None else ():
        if info.atexit:
            module, kind = getattr(info.func, "__module__", "?"), type(info.func).__name__
            return f"it has a weakref.finalize when it is loaded: {module}.{getattr(info.func, '__qualname__', kind)}"
    util = sys.modules.get("multiprocessing.util")
    if util is not None and util._finalizer_registry:
        return "it has a finalizer of multiprocessing when it is loaded"
    return ""


def _exit_functions() -> str:
    """Count the functions that run at the end of the process, without those that the standard library registers."""
    found = expected = 0
    if "atexit" in sys.modules:
        found += sys.modules["atexit"]._ncallbacks()
        expected += sum([registers(sys.modules[name]) for name, registers in ATEXIT.items() if name in sys.modules])
    if "threading" in sys.modules:
        found += len(getattr(sys.modules["threading"], "_threading_atexits", ()))
        expected += len([name for name in _THREADING_ATEXITS if name in sys.modules])
    return (
        f"it has registered functions with atexit when it is loaded: {found - expected}" if found > expected else ""
    )


ATEXIT: dict[str, Callable[[Any], bool]] = {
    "logging": lambda _module: True,  # logging.shutdown
    "multiprocessing.util": lambda _module: True,  # _exit_function
    "rlcompleter": lambda module: bool(module._readline_available),
    "weakref": lambda module: bool(module.finalize._registered_with_atexit),  # with the first finalize
}
"""Modules of the standard library that register one function with atexit, and whether they have done so.

Source: a search for ``atexit.register`` in the libraries of Python 3.11, 3.12 and 3.13. A plugin that loads another
module which does so is refused."""


def _random_state() -> str:
    """Find a generator of random numbers that is not reseeded after a fork: all workers would get the same numbers.

    ``random`` itself and OpenSSL are reseeded; ``random.SystemRandom`` has no state.
    """
    random, tempfile = sys.modules.get("random"), sys.modules.get("tempfile")
    if random is None:
        return ""
    names = getattr(tempfile, "_name_sequence", None)
    known = (random._inst, getattr(names, "_rng", None))  # tempfile reseeds its own in another process
    for each in gc.get_objects():
        is_seeded = issubclass(type(each), random.Random) and not issubclass(type(each), random.SystemRandom)
        if is_seeded and not any(each is one for one in known):
            return "it has a random.Random of its own when it is loaded"
    return ""
