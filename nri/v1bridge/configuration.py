"""The plugins' configuration, read again when its files have changed.

A change takes effect with the next event. If the files are not valid, or cannot be read for whatever reason, the last
valid configuration stays, and the log says so once; where there has been none yet, no plugin runs. If files are
missing, they count for a moment more (:mod:`nri.v1bridge.absence`). Every event sees one configuration, the old or
the new: where files change while they are read (a directory that is exchanged, a file that gets another name), they
are read again. What is wrong in a file is found out after the event (:mod:`nri.v1bridge.explaining`).
"""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from typing import TYPE_CHECKING

from nri import config, trust
from nri.config.entries import ConfigList
from nri.config.faults import Fault, Unexplained
from nri.types.gojson import shorten
from nri.v1bridge.absence import GRACE, Absence
from nri.v1bridge.explaining import Explainer
from nri.v1bridge.logs import MAX_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nri.v1bridge.absence import Files

RECENT_NS = 100_000_000
"""Nanoseconds: a file that is younger may change again without its time of change showing it."""

ATTEMPTS = 4
"""Readings until the files are the same before and after; if they never are, the last one counts."""

PAUSE = 0.001
"""Seconds between two of them."""

log = logging.getLogger("nri.v1bridge")

State = tuple[object, ...]


class Configuration:
    """The configuration of a directory, or of the one file that stands in for it.

    :param clock: seconds of a clock that is never set.
    """

    def __init__(self, conf_dir: str, conf_file: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._conf_dir = conf_dir
        self._conf_file = conf_file
        self._lock = threading.Lock()
        self._state: State | None = None
        self._files: Files = {}
        self._current = ConfigList()
        self._is_first = True
        self._complaint: object = None
        self._absence = Absence(conf_file, clock)
        self._noticed: list[str] = []  # missing files that the log has named
        self._explainer = Explainer()
        self._listed: object = None
        self._paths: list[str] = []

    def current(self, *, check_owner: bool = True) -> ConfigList:
        """The configuration as its files say it now, or the last valid one. Raises nothing.

        :param check_owner: as for :func:`nri.config.loading`.
        """
        with self._lock:
            try:
                self._read(check_owner)
            except (Exception, SystemExit) as error:  # no memory, too deep a stack, a module that cannot be loaded
                self._state = None
                self._refuse(_unreadable(self._conf_dir, error))
            return self._current

    def explain(self) -> None:
        """Have the log say what is wrong, if anything is: in the background, and so not before an answer."""
        self._explainer.start()

    def is_explained(self, timeout: float) -> bool:
        """Wait until nothing is being explained, at most so many seconds; return whether that is so."""
        return self._explainer.join(timeout)

    def _read(self, check_owner: bool) -> None:
        before, _ = self._look(check_owner)
        if before == self._state and not self._absence.is_over():
            return
        read, after, newest = self._attempt(check_owner)
        for _ in range(ATTEMPTS - 1):
            if after == before:
                break
            time.sleep(PAUSE)
            before = after
            read, after, newest = self._attempt(check_owner)
        # What may have changed without a trace is read again by the next event.
        self._state = None if after != before or time.time_ns() - newest < RECENT_NS else after
        if isinstance(read, config.ConfigError):
            if not all(isinstance(fault, Unexplained) for fault in read.faults):
                self._state = None  # what keeps a file from being read may pass without a trace in it
            self._refuse(read)
        else:
            self._accept(read)

    def _attempt(self, check_owner: bool) -> tuple[Files | config.ConfigError, State, int]:
        read: Files | config.ConfigError
        try:
            read = config.load_files(self._conf_dir, self._conf_file, check_owner=check_owner)
        except config.ConfigError as error:
            read = error
        return read, *self._look(check_owner)

    def _refuse(self, error: config.ConfigError) -> None:
        self._absence.forget()
        self._noticed = []
        complaint = [(str(fault), _mark(fault)) for fault in error.faults]
        if complaint != self._complaint:
            self._complaint = complaint
            self._explainer.put(error, self._names())

    def _accept(self, found: Files) -> None:
        was_refused = self._complaint is not None
        if was_refused:
            self._complaint = None
            self._explainer.drop()
        files = self._absence.bridge(self._files, found)
        missing = [path for path in files if path not in found]
        gone = [path for path in self._noticed if path not in files]
        is_over = any(path not in missing for path in self._noticed)
        read = ConfigList(plugins=[plugin for plugins in files.values() for plugin in plugins])
        is_news = self._is_first or was_refused or is_over or read != self._current
        self._is_first = False
        self._files, self._current = files, read
        if is_news:
            log.info("configuration: %s%s", self._names(), f"; gone: {_listed(gone)}" if gone else "")
        new = [path for path in missing if path not in self._noticed and files[path]]
        self._noticed = [path for path in self._noticed if path in missing] + new
        if new:
            kept = f"still using the last valid configuration ({self._names()}) for {GRACE:g} s"
            log.warning("missing: %s; %s", _listed(new), kept)

    def _names(self) -> str:
        """The plugins that run."""
        return _listed([plugin.type for plugin in self._current.plugins]) or "no plugins"

    def _look(self, check_owner: bool) -> tuple[State, int]:
        """What the files look like from outside, and when the youngest changed."""
        seen: dict[str, object] = {"": check_owner}
        newest = 0
        plain: set[str] = set()
        for path in [self._conf_dir, self._conf_file, *self._listing()]:
            try:
                status = os.lstat(path)
                if path in (self._conf_dir, self._conf_file) or stat.S_ISLNK(status.st_mode):
                    end, named_in = trust.follow(path, plain)
                    seen[f"{path} leads to"] = end
                    for directory in [*named_in, os.path.dirname(end)]:
                        if directory not in seen:
                            seen[directory] = _owned(directory)
                    status = os.stat(path)
            except OSError as error:
                seen[path] = error.errno
                continue
            seen[path] = (
                status.st_ino,
                status.st_size,
                status.st_mtime_ns,
                status.st_ctime_ns,
                status.st_mode,
            )
            newest = max(newest, status.st_ctime_ns)
        return (*seen.items(),), newest

    def _listing(self) -> list[str]:
        """The files; the directory is listed again only where it may have changed."""
        try:
            status = os.stat(self._conf_dir)
            state = (status.st_dev, status.st_ino, status.st_ctime_ns, status.st_mode)
            if state != self._listed:
                with os.scandir(self._conf_dir) as entries:
                    self._paths = sorted([entry.path for entry in entries if entry.name.endswith(".conf")])
                self._listed = state if time.time_ns() - status.st_ctime_ns > RECENT_NS else None
        except OSError:
            self._listed, self._paths = None, []
        return self._paths


def _unreadable(conf_dir: str, error: BaseException) -> config.ConfigError:
    """A configuration that could not be read, for a reason that is not one of its own."""
    reason = f"cannot be read: {type(error).__name__}: {shorten(str(error), MAX_TEXT)}"
    return config.ConfigError([Fault(file=conf_dir, message=reason)])


def _mark(fault: Fault) -> int:
    """Tell one document from another; they are not kept."""
    return hash(fault.document) if isinstance(fault, Unexplained) else 0


def _listed(names: Iterable[str]) -> str:
    return shorten(", ".join(names), MAX_TEXT)


def _owned(directory: str) -> tuple[int, ...] | int:
    """What a directory is judged by: one that is put right must not be overlooked."""
    try:
        status = os.stat(directory)
    except OSError as error:
        return error.errno or 0
    return status.st_mode, status.st_uid, status.st_gid
