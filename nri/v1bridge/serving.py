"""The process of the bridge: launched by a runtime, or connected to one from outside."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import threading

from nri import stub, trust
from nri.build import describe
from nri.process.inherit import prepare_process
from nri.process.subreaper import Subreaper
from nri.stub.identity import SOCKET_VARIABLE
from nri.v1bridge.bridge import Bridge
from nri.v1bridge.logs import set_up
from nri.v1bridge.options import BridgeOptions, OptionsError
from nri.v1bridge.stderr import replace_stderr

NAME, INDEX = "v1bridge", "10"
"""Who the bridge is where nobody says otherwise."""

ENDING = (signal.SIGTERM, signal.SIGINT)
"""What tells the bridge to end; after the first, the others do nothing."""

LAST_CALLS = 5.0
"""Seconds that chains which are running get when the bridge is told to end."""

_M_ARENA_MAX, _M_MMAP_THRESHOLD = -8, -3
_LARGE = 128 * 1024  # bytes

log = logging.getLogger("nri.v1bridge")


def serve(*, path: str = stub.DEFAULT_SOCKET, index: str = "", settings_file: str = "") -> None:
    """Run the bridge until its runtime is done with it, if one launched it; else until SIGTERM or SIGINT.

    :param settings_file: its settings; without one they are the runtime's to hand over.
    :raises NRIError: when it can't even begin: settings that can't be read, an index that is none.
    """
    launched = SOCKET_VARIABLE in os.environ
    path = os.path.abspath(path)  # before prepare_process, which leaves the directory that a relative one counts from
    settings = _read(settings_file) if settings_file else BridgeOptions()
    prepare_process()
    replace_stderr()
    _give_back_memory()

    begun: set[str] = set()

    def adopt(text: str) -> BridgeOptions:
        settings, faults = BridgeOptions.read(text)
        _begin_log(settings, begun, launched=launched)
        for fault in faults:
            log.error("the bridge's settings: %s; the default is used instead", fault)
        return settings

    bridge = Bridge(settings, None if settings_file else adopt, Subreaper())
    # The executable's name says nothing where it is `nri`.
    name, index = ("", index) if launched else (NAME, index or INDEX)
    runner = stub.Runner(bridge, path=path, name=name, index=index, build=describe())
    _begin_log(settings, begun, launched=launched)

    # Waited for by a thread, and blocked in all others. A handler would run in this one, where Python gets to it only
    # when what it is about to wait for has come: the next event, maybe tomorrow's. Plugins are started without it.
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    threading.Thread(target=_end, args=(runner,), name="end", daemon=True).start()
    runner.run()
    # The runtime may be gone in the middle of a chain: nobody but us keeps its plugin's deadline.
    if not bridge.wait_until_idle(LAST_CALLS):
        log.warning("a chain is still running after %g s, and is left to itself", LAST_CALLS)


def _give_back_memory() -> None:
    """Let what a plugin's output once took not stay with us (mallopt(3), of glibc).

    The C library would give each thread a heap of its own, although only one at a time runs Python; and when
    something large has been given back once, it would keep the like in these heaps.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return  # another C library
    mallopt(_M_ARENA_MAX, 1)
    mallopt(_M_MMAP_THRESHOLD, _LARGE)


def _begin_log(settings: BridgeOptions, begun: set[str], *, launched: bool) -> None:
    """Set up the log; its first line says which build this is. ``begun`` has the log files with such a line."""
    set_up(settings, launched=launched)
    if settings.log_file not in begun:
        begun.add(settings.log_file)
        log.info("v1bridge %s", describe())
    if not settings.check_owner:
        log.warning('%s ("checkOwner": false)', trust.UNCHECKED)


def _end(runner: stub.Runner) -> None:
    log.info("ending: %s", signal.Signals(signal.sigwait(ENDING)).name)
    runner.stop(grace=LAST_CALLS)


def _read(path: str) -> BridgeOptions:
    try:
        with open(path, encoding="utf-8") as file:
            # In any case: else a file that anybody can write to could say itself that this does not matter.
            if wrong := trust.judge_path(path, os.fstat(file.fileno())):
                raise OptionsError(f"the bridge's settings: {wrong}")
            return BridgeOptions.parse(file.read(1024 * 1024))
    except OptionsError as error:
        raise OptionsError(f"{path}: {error}") from None
    except OSError as error:
        raise OptionsError(f"{path}: cannot be read: {error.strerror}; expected the bridge's settings") from error
    except UnicodeDecodeError as error:
        raise OptionsError(f"{path}: is not UTF-8: {error.reason}; expected the bridge's settings") from None
