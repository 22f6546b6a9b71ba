"""The process of the bridge: launched by a runtime, or connected to one from outside."""

from __future__ import annotations

import _thread
import logging
import os
import signal
from typing import TYPE_CHECKING

from nri import stub
from nri.client.spawn import settle
from nri.stub.identity import SOCKET_VARIABLE
from nri.v1bridge.bridge import Bridge
from nri.v1bridge.logs import set_up
from nri.v1bridge.settings import Settings, SettingsError

if TYPE_CHECKING:
    from types import FrameType

NAME, INDEX = "v1bridge", "10"
"""Who the bridge is where nobody says otherwise."""

LAST_CALLS = 5.0
"""Seconds that chains which are running get when the bridge is told to end."""

log = logging.getLogger("nri.v1bridge")


def serve(*, path: str = stub.DEFAULT_SOCKET, index: str = "", settings_file: str = "") -> None:
    """Run the bridge until its runtime is done with it, if one launched it; else until SIGTERM or SIGINT.

    :param settings_file: its settings; without one they are the runtime's to hand over.
    :raises NRIError: when it can't even begin: settings that can't be read, an index that is none.
    """
    launched = SOCKET_VARIABLE in os.environ
    path = os.path.abspath(path)  # before settle, which leaves the directory that a relative one counts from
    settings = _read(settings_file) if settings_file else Settings()
    settle()

    def adopt(text: str) -> Settings:
        settings, faults = Settings.read(text)
        set_up(settings, launched=launched)
        for fault in faults:
            log.error("the bridge's settings: %s; the default is used instead", fault)
        return settings

    set_up(settings, launched=launched)
    bridge = Bridge(settings, None if settings_file else adopt)
    # The executable's name says nothing where it is `nri`.
    name, index = ("", index) if launched else (NAME, index or INDEX)
    runner = stub.Runner(bridge, path=path, name=name, index=index)

    def end(number: int, _frame: FrameType | None) -> None:
        # Not in the handler itself: it runs in the thread that reads, which must go on until the last answer. And not
        # by threading: that thread may be starting one itself just now, with a lock in its hands.
        _thread.start_new_thread(_end, (runner, number))

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    runner.run()
    # The runtime may be gone in the middle of a chain: nobody but us keeps its plugin's deadline.
    if not bridge.wait_until_idle(LAST_CALLS):
        log.warning("a chain is still running after %g s, and is left to itself", LAST_CALLS)


def _end(runner: stub.Runner, number: int) -> None:
    log.info("ending: %s", signal.Signals(number).name)
    runner.stop(grace=LAST_CALLS)


def _read(path: str) -> Settings:
    try:
        with open(path, encoding="utf-8") as file:
            return Settings.parse(file.read(1024 * 1024))
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}; expected the bridge's settings") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: is not UTF-8: {error.reason}; expected the bridge's settings") from None
