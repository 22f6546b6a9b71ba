"""Log lines about configurations that are not valid, made in the background.

That a configuration is not valid is known at once; what is wrong in it may take a second of Python to find out, and
no container waits for that. One thread explains one configuration at a time; of those that wait only the newest is
kept.
"""

from __future__ import annotations

import gc
import logging
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nri.config import ConfigError, Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

SWITCH_INTERVAL = 0.0005
"""Seconds after which a thread that computes in the background lets another one run; a tenth of the default."""

_interval = threading.Lock()
log = logging.getLogger("nri.v1bridge")


class Explainer:
    """Explains configurations in a thread of its own. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._next: tuple[ConfigError, str] | None = None
        self._drops = 0

    def put(self, error: ConfigError, kept: str) -> None:
        """Take a configuration to be explained, instead of one that waits.

        :param kept: the plugins that go on to run.
        """
        with self._lock:
            self._next = error, kept

    def drop(self) -> None:
        """Say no more of what was put: the configuration is valid again."""
        with self._lock:
            self._next = None
            self._drops += 1

    def start(self) -> None:
        """Begin with what waits, if there is anything, and nothing is being explained."""
        with self._lock:
            if self._next is None or self._thread is not None:
                return
            self._thread = threading.Thread(target=self._run, name="explain", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # there is no room for a thread
                self._thread = None
                waiting, self._next = self._next, None
            else:
                return
        _say(*waiting)

    def join(self, timeout: float) -> bool:
        """Wait until nothing is being explained; return whether that is so."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout)
        return self._thread is None

    def _run(self) -> None:
        with considerate():
            while True:
                with self._lock:
                    if self._next is None:
                        self._thread = None
                        return
                    (error, kept), self._next = self._next, None
                    drops = self._drops
                explained = _explained(error)
                if drops == self._drops:
                    _say(explained, kept)
                gc.collect()  # the places in a text are a tree that knows its parents; it may be of 50 MB


@contextmanager
def considerate() -> Iterator[None]:
    """Let other threads run sooner while this one computes: an event's thread waits for the interpreter often."""
    if not _interval.acquire(blocking=False):
        yield  # another thread has seen to it
        return
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, SWITCH_INTERVAL))
    try:
        yield
    finally:
        sys.setswitchinterval(before)
        _interval.release()


def _explained(error: ConfigError) -> ConfigError:
    try:
        return error.explained()
    except (Exception, SystemExit) as failure:  # PyInstaller raises the latter when its files are gone
        reason = f"it cannot be explained: {type(failure).__name__}: {failure}"
        return ConfigError([*error.faults, Fault(file=error.faults[0].file, message=reason)])


def _say(error: ConfigError, kept: str) -> None:
    for fault in error.faults:
        log.error("invalid configuration; still using the last valid one (%s): %s", kept, fault)
