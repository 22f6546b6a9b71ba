"""The bridge's process: launched by a runtime, or connected to its socket."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import threading

from nri import trust
from nri.config.loading import read_options
from nri.errors import NRIError
from nri.process.libc_spawn import spawn_unlocked
from nri.process.spawn import prepare_process, set_name, use
from nri.process.subreaper import Subreaper
from nri.v1bridge import ahead  # noqa: F401
from nri.v1bridge import log as bridge_log
from nri.v1bridge.bridge import Bridge
from nri.v1bridge.one_bridge import InstanceLock
from nri.v1bridge.options import BridgeOptions
from nri.v1bridge.options import adopt as adopt_options
from nri.v1bridge.status import CONNECTING
from nri.v2 import stub
from nri.v2.api.names import SOCKET_VARIABLE
from nri.version import describe

NAME = "v1bridge"
INDEX = "10"
"""The bridge's default name and index."""

ENDING = (signal.SIGTERM, signal.SIGINT)
"""The signals that end the bridge; only the first one counts."""

LAST_CALLS = 5.0
"""Seconds that running chains have when the bridge ends."""

STILL_RUNNING = f"exiting after {LAST_CALLS:g} s while a chain is still running"

_M_ARENA_MAX = -8
_M_MMAP_THRESHOLD = -3
_LARGE = 128 * 1024  # bytes

log = logging.getLogger("nri.v1bridge")


def serve(*, path: str = stub.DEFAULT_SOCKET, index: str = "", options_file: str = "") -> None:
    """Run the bridge until SIGTERM or SIGINT, or, if a runtime launched it, until that closes the connection.

    :param path: the runtime's socket.
    :param index: the plugin's index, two digits; ``INDEX`` by default.
    :param options_file: the file of the bridge options; without one the runtime passes them.
    :raises NRIError: the options cannot be read, or the index is invalid.
    """
    launched = SOCKET_VARIABLE in os.environ
    path = os.path.abspath(path)  # before prepare_process changes the directory
    options = _read(options_file) if options_file else BridgeOptions()
    prepare_process()
    if not launched:
        set_name(NAME)  # `pgrep v1bridge` finds it, whatever program it was started by
    _limit_heaps()
    use(spawn_unlocked)  # other threads go on while a plugin is started
    bridge_log.take_tracebacks()
    try:
        _serve(path, index, options, launched=launched, has_file=bool(options_file))
    except Exception as error:
        if not isinstance(error, NRIError):
            log.exception("unexpected error")  # a launched bridge's stderr is discarded
        raise
    finally:
        bridge_log.drain()


def _serve(
    path: str, index: str, options: BridgeOptions, *, launched: bool, has_file: bool
) -> None:
    """Run the bridge.

    :param has_file: the options are from a file, so those of the runtime do not count.
    """

    lock = InstanceLock()

    def begin(options: BridgeOptions) -> None:
        """Begin with options that count."""
        bridge_log.set_up(options, launched=launched)
        if not options.check_owner:
            log.warning('%s ("checkOwner": false)', trust.UNCHECKED)
        raise_priority(options.nice)
        if not lock.directory:  # later options, of the same bridge, change nothing about it
            lock.directory = options.record_dir
            if launched:
                lock.take_in_background()

    def adopt(text: str) -> BridgeOptions:
        options, faults = adopt_options(text)
        begin(options)
        for fault in faults:
            log.error("bridge options: %s", fault)
        return options

    take = None if has_file else adopt
    bridge = Bridge(options, take, Subreaper(), launched=launched, is_alone=lock.is_held.wait)
    name = ""  # a launched bridge takes its name and index from the runtime
    if not launched:
        name = NAME  # the executable's name may be just `nri`
        index = index or INDEX
    runner = stub.Runner(bridge, path=path, name=name, index=index, build=describe())
    if launched and not has_file:
        bridge_log.set_up(options, launched=launched, is_final=False)
    else:
        begin(options)
    log.info("v1bridge %s", describe())

    over = _end_by_signals(runner, bridge, lock)
    if launched:
        runner.run()
    else:
        _run_alone(runner, bridge, lock)
    over.set()
    if not bridge.chains.wait_until_idle(LAST_CALLS):  # a late create may be running
        log.warning(STILL_RUNNING)
    bridge.close()
    lock.release()


def _run_alone(runner: stub.Runner, bridge: Bridge, lock: InstanceLock) -> None:
    """Run the bridge when it is the only one of the node."""
    if lock.stand_by():
        bridge.status.is_in(CONNECTING)
        bridge.open_status()
        runner.run()


def _end_by_signals(runner: stub.Runner, bridge: Bridge, lock: InstanceLock) -> threading.Event:
    """Have the signals of ``ENDING`` end the bridge, until the event is set.

    A thread waits for them, and all others block them. A Python handler would run in this thread, and only after its
    blocking read has returned, with the next event. Plugins start with the signals unblocked.
    """
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    over = threading.Event()
    waits = threading.Thread(
        target=_end, args=(runner, bridge, lock, over), name="end", daemon=True
    )
    waits.start()
    return over


def raise_priority(nice: int) -> None:
    """Have all threads, and what they start, run at a nice value, if theirs is higher: setpriority(2).

    The start of each container of the node waits for the bridge, which needs a millisecond at a time. Its plugins
    inherit the value: a busy node would make each wait as long. Their deadline bounds what they take of others.
    """
    try:
        for thread in os.listdir("/proc/self/task"):
            if os.getpriority(os.PRIO_PROCESS, int(thread)) > nice:
                os.setpriority(os.PRIO_PROCESS, int(thread), nice)
    except OSError as error:  # no CAP_SYS_NICE, as in a container; or no /proc
        log.debug("priority: nice %d is not possible: %s", nice, error.strerror)


def _limit_heaps() -> None:
    """Return the memory of large plugin outputs to the kernel (mallopt(3) of glibc).

    By default glibc gives each thread its own heap, although only one thread at a time runs Python; and after the
    first large block was freed, it takes such blocks from these heaps and keeps them.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return  # another C library
    mallopt(_M_ARENA_MAX, 1)
    mallopt(_M_MMAP_THRESHOLD, _LARGE)


def _end(runner: stub.Runner, bridge: Bridge, lock: InstanceLock, over: threading.Event) -> None:
    log.info("ending: %s", signal.Signals(signal.sigwait(ENDING)).name)
    bridge.chains.stop(for_good=True)
    lock.stop()
    runner.stop(grace=LAST_CALLS)
    if not over.wait(1.0):
        log.warning(STILL_RUNNING)
        bridge_log.drain()
        os._exit(0)  # the watchdog kills what is left; the kernel closes the rest


def _read(path: str) -> BridgeOptions:
    """Return the options in a file, whose owner is judged whatever its ``checkOwner`` says."""
    try:
        options, faults = read_options(path, BridgeOptions)
    except FileNotFoundError:
        faults = [f"{path}: does not exist, expected the bridge options"]
    if faults:
        raise NRIError("; ".join(faults))
    return options
