"""The bridge's process: launched by a runtime, or connected to its socket."""

from __future__ import annotations

import ctypes
import fcntl
import logging
import os
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING

from nri import trust
from nri.config.loading import read_options
from nri.errors import NRIError, escape, reason_of
from nri.places import beside
from nri.process import peer
from nri.process.libc_spawn import spawn_unlocked
from nri.process.spawn import prepare_process, set_name, use
from nri.process.subreaper import Subreaper
from nri.v1bridge import ahead  # noqa: F401
from nri.v1bridge import log as bridge_log
from nri.v1bridge.bridge import Bridge
from nri.v1bridge.options import BridgeOptions
from nri.v1bridge.options import adopt as adopt_options
from nri.v1bridge.status import CONNECTING
from nri.v2 import stub
from nri.v2.api.names import SOCKET_VARIABLE
from nri.version import describe

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME, INDEX = "v1bridge", "10"
"""The bridge's default name and index."""

ENDING = (signal.SIGTERM, signal.SIGINT)
"""The signals that end the bridge; only the first one counts."""

LAST_CALLS = 5.0
"""Seconds that running chains have when the bridge ends."""

STILL_RUNNING = f"exiting after {LAST_CALLS:g} s while a chain is still running"

_M_ARENA_MAX, _M_MMAP_THRESHOLD = -8, -3
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


def _serve(path: str, index: str, options: BridgeOptions, *, launched: bool, has_file: bool) -> None:
    """Run the bridge.

    :param has_file: the options are from a file, so those of the runtime do not count.
    """

    def begin_log(options: BridgeOptions, *, is_final: bool = True) -> None:
        bridge_log.set_up(options, launched=launched, is_final=is_final)
        if not options.check_owner:
            log.warning('%s ("checkOwner": false)', trust.UNCHECKED)

    locks = [] if launched else [InstanceLock(options.record_dir)]

    def adopt(text: str) -> BridgeOptions:
        options, faults = adopt_options(text)
        begin_log(options)
        for fault in faults:
            log.error("bridge options: %s", fault)
        if not locks:  # launched, and configured for the first time
            locks.append(InstanceLock(options.record_dir))
            locks[0].take_in_background()
        return options

    def is_alone(within: float) -> bool:
        return all(lock.is_held.wait(within) for lock in locks)

    bridge = Bridge(options, None if has_file else adopt, Subreaper(), launched=launched, is_alone=is_alone)
    # A launched bridge takes its name and index from the runtime. The executable's name may be just `nri`.
    name, index = ("", index) if launched else (NAME, index or INDEX)
    runner = stub.Runner(bridge, path=path, name=name, index=index, build=describe())
    begin_log(options, is_final=not launched or has_file)
    log.info("v1bridge %s", describe())

    # A thread waits for these signals, and all others block them. A Python handler would run in this thread, and only
    # after its blocking read has returned, with the next event. Plugins start with the signals unblocked.
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    over = threading.Event()
    threading.Thread(target=_end, args=(runner, bridge, locks, over), name="end", daemon=True).start()
    if launched:
        runner.run()
    elif locks[0].stand_by():
        bridge.status.is_in(CONNECTING)
        bridge.open_status()
        runner.run()
    over.set()
    if not bridge.chains.wait_until_idle(LAST_CALLS):  # a late create may be running
        log.warning(STILL_RUNNING)
    bridge.close()
    for lock in locks:
        lock.release()


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


def _end(runner: stub.Runner, bridge: Bridge, locks: Sequence[InstanceLock], over: threading.Event) -> None:
    log.info("ending: %s", signal.Signals(signal.sigwait(ENDING)).name)
    bridge.chains.stop(for_good=True)
    for lock in locks:
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


GRACE = 8.0
"""Seconds after which a launched bridge that does not get the lock reports it; an ending one needs 5 at most."""

POLL = 0.2
"""Seconds between two attempts."""


class InstanceLock:
    """The lock that one bridge of a node holds, since two connected bridges run every plugin twice.

    A bridge from outside takes it before it connects, and stands by while another one holds it. A bridge that a
    runtime launches must register at once, so it takes the lock in the background, and the log has an error if that
    takes longer than another bridge needs for its end. The kernel releases the lock when the process ends. The
    descriptor is closed in children. Without a lock, such as for another user than root, the bridge goes on. The
    directory may be removed under a bridge, so the next one also looks whether another process listens on the status
    socket beside it.

    :param directory: that of the record, which is locked.
    :param grace: see ``GRACE``.
    """

    def __init__(self, directory: str, grace: float = GRACE) -> None:
        self._directory, self._grace = directory, grace
        self._fd = -1
        self._is_ending = threading.Event()
        self.is_held = threading.Event()
        """Set when no other bridge has the lock any more, or no lock can be made."""

    def stand_by(self) -> bool:
        """Wait until no other bridge has the lock; return False if ``stop`` was called meanwhile."""
        if self._take():
            return True
        log.info("standing by: %s serves this node; connecting when it ends", self._holder())
        while not self._take():
            if self._is_ending.wait(POLL):
                return False
        log.info("the other bridge has ended")
        return True

    def take_in_background(self) -> None:
        """Take the lock, now or when the other bridge ends; report another one that stays."""
        if not self._take():
            threading.Thread(target=self._watch, args=(self._holder(),), name="instance-lock", daemon=True).start()

    def stop(self) -> None:
        """Take it no more: the bridge ends."""
        self._is_ending.set()

    def release(self) -> None:
        """Give the lock to the next bridge. The process's end does the same."""
        self.stop()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _watch(self, other: str) -> None:
        report_at, is_reported = time.monotonic() + self._grace, False
        while not self._is_ending.wait(POLL) and not self._take():
            if not is_reported and time.monotonic() >= report_at:
                is_reported = True
                means = "every plugin runs twice as long as both are connected; keep one of them"
                about = "runs on this node, beside this one, which the runtime has launched"
                log.error("%s %s: %s", other, about, means)
        if is_reported and not self._is_ending.is_set():
            log.info("the other bridge has ended")

    def _take(self) -> bool:
        """Return whether no other bridge holds the lock: we do from now on, or none can be made."""
        fd = -1
        try:
            fd = self._open()
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._other():
                return False
            self._fd, fd = fd, -1
        except BlockingIOError:
            return False
        except (OSError, NRIError) as error:
            log.info("no lock keeps a second bridge away: %s: %s", self._directory, escape(reason_of(error)))
        finally:
            if fd >= 0:
                os.close(fd)
        self.is_held.set()
        return True

    def _open(self) -> int:
        """Return a descriptor of the directory.

        :raises OSError: it cannot be made or opened.
        :raises NRIError: other users could lock it, and so keep every bridge away, or write to it.
        """
        trust.make_private(self._directory)
        if (mode := os.stat(self._directory).st_mode & 0o7777) & 0o077:
            raise NRIError(f"it has mode {mode:04o}, expected 0700")
        return os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def _other(self) -> int:
        """Return the pid of another process that listens on the status socket, -1 if it is hidden, 0 if none does."""
        try:
            fd = os.open(beside(self._directory, ".sock"), os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.settimeout(POLL)
                    connection.connect(f"/proc/self/fd/{fd}")  # a path may be longer than a socket's address
                    pid, user = peer.credentials(connection)
            finally:
                os.close(fd)
        except OSError:
            return 0
        return 0 if pid == os.getpid() or not peer.is_trusted(user) else pid or -1

    def _holder(self) -> str:
        pid = self._other()  # none if it does not listen yet
        return f"the bridge with pid {pid}" if pid > 0 else "another bridge"
