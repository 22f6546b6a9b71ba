"""The host configuration, read again when its files have changed.

A change takes effect with the next event. If the files are not valid or cannot be read, the last valid configuration
stays in use, and the log reports it once; before the first valid one, no plugin runs. Every event gets one
configuration, the old or the new: if files change while they are read, they are read again.

Tools replace a file by moving the old one away and writing the new one, or exchange a whole directory. So files that
are missing, while nothing else has changed, stay in use until the directory has been unchanged for :data:`GRACE`.

Deciding that a file is not valid is fast; finding its faults may take a second, so that is done after an answer.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from nri.config import ConfigError, ConfigList, Fault
from nri.config.loading import GRACE, InvalidFile, Source, unchanged_for
from nri.types.gojson import shorten
from nri.v1bridge.log import MAX_TEXT

if TYPE_CHECKING:
    from nri.config.loading import Files

ATTEMPTS = 4
"""The number of times that files are read until they do not change meanwhile; after that the last reading counts."""

log = logging.getLogger("nri.v1bridge")


class Configuration:
    """The host configuration of a directory, or of the single file that is read instead."""

    def __init__(self, conf_dir: str, conf_file: str) -> None:
        self._source = Source(conf_dir, conf_file)
        self._lock = threading.Lock()
        self._files: Files = {}
        self._place = ""  # where the directory of these is, at the end of all links
        self._current = ConfigList()
        self._is_known = False
        self._rejected: ConfigError | None = None
        self._faults: list[str] = []
        self._unexplained = False
        self._hash = ""  # of the configuration in use
        self._since: float | None = None  # when the configuration in use was read, in seconds since 1970
        self._rejected_since: float | None = None

    def current(self, *, check_owner: bool = True) -> ConfigList:
        """Return the configuration of the files as they are now, or the last valid one. It raises nothing.

        :param check_owner: see :func:`nri.config.load`.
        """
        with self._lock:
            try:
                self._read(check_owner)
            except (Exception, SystemExit) as error:  # such as no memory, or a module that cannot be loaded
                self._source.forget()
                reason = f"cannot be read: {type(error).__name__}: {shorten(str(error), MAX_TEXT)}"
                self._reject(ConfigError([Fault(file=self._source.conf_dir, message=reason)]))
            return self._current

    def settles_in(self) -> float:
        """Return the seconds until the directories of the files in use have been unchanged for :data:`GRACE`."""
        places = {self._source.conf_dir, *map(os.path.dirname, self._files)}
        return max(0.0, GRACE - min(map(unchanged_for, places)))

    @property
    def is_known(self) -> bool:
        """Return whether there has been a valid configuration, be it an empty one."""
        return self._is_known

    def describe(self) -> dict[str, Any]:
        """Return what the status says of the configuration: docs/status.md."""
        with self._lock:
            return {
                "files": list(self._files),
                "hash": self._hash or None,
                "valid": self._rejected is None and self._since is not None,
                "faults": list(self._faults),
                "since": self._since,
                "rejectedSince": self._rejected_since,
            }

    def explain(self) -> None:
        """Log the faults that the log does not have yet. It may take a second, so it comes after an answer."""
        with self._lock:
            rejected = self._rejected if self._unexplained else None
            self._unexplained, kept = False, self._names() if self._is_known else ""
        if rejected is None:
            return
        try:
            explained = rejected.explained()
        except (Exception, SystemExit) as error:  # PyInstaller raises the latter when its files are gone
            reason = f"it cannot be explained: {type(error).__name__}: {error}"
            explained = ConfigError([*rejected.faults, Fault(file=rejected.faults[0].file, message=reason)])
        with self._lock:
            if self._rejected is not rejected:
                return  # there is a newer one
            self._faults = [str(fault) for fault in explained.faults]
        without = "there has been no valid one, so no plugin runs"
        used = f"still using the last valid one ({kept})" if kept else without
        for fault in explained.faults:
            log.error("invalid configuration; %s: %s", used, fault)

    def _read(self, check_owner: bool) -> None:
        if self._source.is_unchanged(check_owner=check_owner):
            return
        read = self._source.read(check_owner=check_owner, attempts=ATTEMPTS)
        if isinstance(read, ConfigError):
            if not all(isinstance(fault, InvalidFile) for fault in read.faults):
                self._source.forget()  # the reason may pass without a change of the file
            self._reject(read)
        elif self._is_part(read) and self.settles_in():
            self._source.forget()
        else:
            self._accept(read)

    def _is_part(self, files: Files) -> bool:
        """Return whether files in use are missing, and nothing else has changed.

        The single file is read only if there is no other; it does not replace files that are missing. A link that
        leads to another directory, as after ``nri apply``, has changed in one step.
        """
        if os.path.isdir(self._source.conf_dir) and os.path.realpath(self._source.conf_dir) != self._place:
            return False
        others = [path for path in files if path in self._files or path != self._source.conf_file]
        return self._files.keys() > {*others} and all(self._files.get(path) == files[path] for path in others)

    def _reject(self, error: ConfigError) -> None:
        if self._rejected is None or self._rejected.faults != error.faults:
            self._rejected, self._unexplained = error, True
            self._rejected_since = self._rejected_since or time.time()
            self._faults = [str(fault) for fault in error.faults]

    def _accept(self, files: Files) -> None:
        read = ConfigList(plugins=[plugin for plugins in files.values() for plugin in plugins])
        if self._since is None or read != self._current:
            self._since = time.time()
        is_news = not self._is_known or self._rejected is not None or read != self._current
        self._rejected = self._rejected_since = None
        self._unexplained, self._faults = False, []
        self._files, self._current, self._is_known = files, read, True
        self._place = os.path.realpath(self._source.conf_dir)
        if is_news:
            self._hash = read.content_hash()
            log.info("configuration: %s", self._names(), extra={"fields": [("hash", self._hash)]})

    def _names(self) -> str:
        """Return the types of the plugins in use, for the log."""
        return shorten(", ".join([plugin.type for plugin in self._current.plugins]), MAX_TEXT) or "no plugins"
