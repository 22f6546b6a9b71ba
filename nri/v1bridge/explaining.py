"""The faults of an invalid configuration, found and logged in the background.

Deciding that a configuration is not valid is fast; finding its faults may take a second, and no container waits for
that. One thread explains one configuration at a time, and only the newest of the others is kept.
"""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nri.config import ConfigError, Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

SWITCH_INTERVAL = 0.0005
"""Seconds after which a background thread yields the interpreter; a tenth of the default."""

_interval = threading.Lock()
log = logging.getLogger("nri.v1bridge")


class Explainer:
    """A background thread that explains configurations. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._next: tuple[ConfigError, str] | None = None
        self._drops = 0
        self.faults: list[str] = []
        """The faults of the configuration that is not valid; those of the files until they are explained."""

    def put(self, error: ConfigError, kept: str) -> None:
        """Put a configuration into the queue, which has one place: it replaces the one that is there.

        :param kept: the plugins that stay in use, for the log.
        """
        with self._lock:
            self._next = error, kept
            self.faults = [str(fault) for fault in error.faults]

    def drop(self) -> None:
        """Log nothing more about earlier configurations: there is a valid one."""
        with self._lock:
            self._next = None
            self._drops += 1
            self.faults = []

    def start(self) -> None:
        """Start the thread if a configuration is in the queue and the thread is not running."""
        with self._lock:
            if self._next is None or self._thread is not None:
                return
            self._thread = threading.Thread(target=self._run, name="explain", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # the limit of threads is reached
                self._thread = None
                queued, self._next = self._next, None
            else:
                return
        _log(*queued)

    def join(self, timeout: float) -> bool:
        """Wait until the thread has ended, at most *timeout* seconds; return whether it has."""
        if (thread := self._thread) is not None:
            thread.join(timeout)
        return self._thread is None

    def _run(self) -> None:
        with _considerate():
            while True:
                with self._lock:
                    if self._next is None:
                        self._thread = None
                        return
                    (error, kept), self._next = self._next, None
                    drops = self._drops
                try:
                    error = error.explained()
                except (Exception, SystemExit) as failure:  # PyInstaller raises the latter when its files are gone
                    reason = f"it cannot be explained: {type(failure).__name__}: {failure}"
                    error = ConfigError([*error.faults, Fault(file=error.faults[0].file, message=reason)])
                if drops == self._drops:
                    self.faults = [str(fault) for fault in error.faults]
                    _log(error, kept)


@contextmanager
def _considerate() -> Iterator[None]:
    """Make this thread yield the interpreter more often while it computes, so that events are not delayed."""
    if not _interval.acquire(blocking=False):
        yield  # another thread has set the interval
        return
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, SWITCH_INTERVAL))
    try:
        yield
    finally:
        sys.setswitchinterval(before)
        _interval.release()


def _log(error: ConfigError, kept: str) -> None:
    for fault in error.faults:
        log.error("invalid configuration; still using the last valid one (%s): %s", kept, fault)
