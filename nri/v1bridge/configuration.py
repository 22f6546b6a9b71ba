"""The host configuration, read again when its files have changed.

A change takes effect with the next event. If the files are not valid or cannot be read, the last valid configuration
stays in use, and the log reports it once; before the first valid one, no plugin runs. Every event gets one
configuration, the old or the new: if files change while they are read, they are read again.

Tools replace a file by moving the old one away and writing the new one, or exchange a whole directory. So files that
are missing, while nothing else has changed, stay in use until the directory has been unchanged for :data:`GRACE`.

Deciding that a file is not valid is fast; finding its faults may take a second, so a thread of its own does that, one
configuration at a time and then the newest one.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from typing import TYPE_CHECKING, Any

from nri import config, trust
from nri.config import ConfigError, ConfigList, Fault
from nri.config.loading import GRACE, InvalidFile, unchanged_for
from nri.types.gojson import shorten
from nri.v1bridge.event_log import MAX_TEXT

if TYPE_CHECKING:
    from nri.config.loading import Files

RECENT_NS, SECOND_NS = 100_000_000, 1_000_000_000
"""Nanoseconds; a file that changed within them may change again without getting another time of change: the second
where the file system has times of whole seconds.
"""

ATTEMPTS = 4
"""The number of times that files are read until they do not change meanwhile; after that the last reading counts."""

PAUSE = 0.001
"""Seconds between two readings."""

log = logging.getLogger("nri.v1bridge")


class Configuration:
    """The host configuration of a directory, or of the single file that is read instead."""

    def __init__(self, conf_dir: str, conf_file: str) -> None:
        self._conf_dir, self._conf_file = conf_dir, conf_file
        self._lock = threading.Lock()
        self._snapshot: tuple[object, ...] | None = None
        self._files: Files = {}
        self._place = ""  # where the directory of these is, at the end of all links
        self._current = ConfigList()
        self._is_known = False
        self._rejected: ConfigError | None = None
        self._faults: list[str] = []
        self._unexplained = False
        self._explaining: threading.Thread | None = None
        self._hash = ""  # of the configuration in use
        self._since: float | None = None  # when the configuration in use was read, in seconds since 1970
        self._rejected_since: float | None = None
        self._listed: object = None  # the directory's metadata when _paths was made
        self._paths: list[str] = []

    def current(self, *, check_owner: bool = True) -> ConfigList:
        """Return the configuration of the files as they are now, or the last valid one. It raises nothing.

        :param check_owner: see :func:`nri.config.load`.
        """
        with self._lock:
            try:
                self._read(check_owner)
            except (Exception, SystemExit) as error:  # such as no memory, or a module that cannot be loaded
                self._snapshot = None
                reason = f"cannot be read: {type(error).__name__}: {shorten(str(error), MAX_TEXT)}"
                self._reject(ConfigError([Fault(file=self._conf_dir, message=reason)]))
            return self._current

    def settles_in(self) -> float:
        """Return the seconds until the directory has been unchanged for :data:`GRACE`."""
        return max(0.0, GRACE - unchanged_for(self._conf_dir))

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

    def explain(self, within: float = 0.0) -> None:
        """Log the faults, if there are any: in the background, so that no answer is delayed.

        :param within: seconds to wait until they are logged.
        """
        with self._lock:
            thread, rejected = self._explaining, self._rejected
            if self._unexplained and rejected is not None and (thread is None or not thread.is_alive()):
                self._unexplained, about = False, (rejected, self._names() if self._is_known else "")
                thread = threading.Thread(target=self._explain, args=about, name="explain", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # no thread is left
                    _log_faults(*about)
                    return
                self._explaining = thread
        if thread is not None and within:
            thread.join(within)

    def _explain(self, rejected: ConfigError, kept: str) -> None:
        try:
            explained = rejected.explained()
        except (Exception, SystemExit) as failure:  # PyInstaller raises the latter when its files are gone
            reason = f"it cannot be explained: {type(failure).__name__}: {failure}"
            explained = ConfigError([*rejected.faults, Fault(file=rejected.faults[0].file, message=reason)])
        with self._lock:
            if self._rejected is None:
                return  # there is a valid configuration
            if self._rejected is rejected:
                self._faults = [str(fault) for fault in explained.faults]
        _log_faults(explained, kept)

    def _read(self, check_owner: bool) -> None:
        after, newest = self._look(check_owner)
        if after == self._snapshot:
            return
        read: Files | ConfigError
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(PAUSE)
            before = after
            try:
                read = config.load_files(self._conf_dir, self._conf_file, check_owner=check_owner)
            except ConfigError as error:
                read = error
            after, newest = self._look(check_owner)
            if after == before:
                break
        # Files that may have changed without another time of change are read again at the next event.
        self._snapshot = None if after != before or _is_recent(newest) else after
        if isinstance(read, ConfigError):
            if not all(isinstance(fault, InvalidFile) for fault in read.faults):
                self._snapshot = None  # the reason may pass without a change of the file
            self._reject(read)
        elif self._is_part(read) and self.settles_in():
            self._snapshot = None
        else:
            self._accept(read)

    def _is_part(self, found: Files) -> bool:
        """Return whether files in use are missing, and nothing else has changed.

        The single file is read only if there is no other; it does not replace files that are missing. A link that
        leads to another directory, as after ``nri apply``, has changed in one step.
        """
        if os.path.isdir(self._conf_dir) and os.path.realpath(self._conf_dir) != self._place:
            return False
        others = [path for path in found if path in self._files or path != self._conf_file]
        return self._files.keys() > {*others} and all(self._files.get(path) == found[path] for path in others)

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
        self._place = os.path.realpath(self._conf_dir)
        if is_news:
            self._hash = read.content_hash()
            log.info("configuration: %s", self._names(), extra={"fields": {"hash": self._hash}})

    def _names(self) -> str:
        """Return the types of the plugins in use, for the log."""
        return shorten(", ".join([plugin.type for plugin in self._current.plugins]), MAX_TEXT) or "no plugins"

    def _look(self, check_owner: bool) -> tuple[tuple[object, ...], int]:
        """Return the metadata of all files and directories that count, and the time of the files' latest change."""
        seen: dict[str, object] = {"": check_owner}
        newest = 0
        plain: set[str] = set()
        for path in [self._conf_dir, self._conf_file, *self._list_files()]:
            try:
                status = os.lstat(path)
                if path in (self._conf_dir, self._conf_file) or stat.S_ISLNK(status.st_mode):
                    end, named_in = trust.follow(path, plain)
                    seen[f"{path} leads to"] = end
                    for directory in [*named_in, os.path.dirname(end)]:
                        if directory not in seen:
                            seen[directory] = _ownership(directory)
                    status = os.stat(path)
            except OSError as error:
                seen[path] = error.errno
                continue
            changed = status.st_mtime_ns, status.st_ctime_ns
            seen[path] = (status.st_ino, status.st_size, *changed, status.st_mode)
            newest = max(newest, status.st_ctime_ns)
        return (*seen.items(),), newest

    def _list_files(self) -> list[str]:
        """Return the paths of the files; the directory is listed again only if it may have changed."""
        try:
            status = os.stat(self._conf_dir)
            state = (status.st_dev, status.st_ino, status.st_ctime_ns, status.st_mode)
            if state != self._listed:
                self._paths = config.list_files(self._conf_dir)
                self._listed = None if _is_recent(status.st_ctime_ns) else state
        except OSError:
            self._listed, self._paths = None, []
        return self._paths


def _log_faults(error: ConfigError, kept: str) -> None:
    used = f"still using the last valid one ({kept})" if kept else "there has been no valid one, so no plugin runs"
    for fault in error.faults:
        log.error("invalid configuration; %s: %s", used, fault)


def _is_recent(changed: int) -> bool:
    """Return whether what changed at this time, in nanoseconds, may change again without getting another one."""
    return time.time_ns() - changed < RECENT_NS + (0 if changed % SECOND_NS else SECOND_NS)


def _ownership(directory: str) -> tuple[int, ...] | int:
    """Return the metadata that decides whether a directory is trusted, so that a change of it is noticed."""
    try:
        status = os.stat(directory)
    except OSError as error:
        return error.errno or 0
    return status.st_mode, status.st_uid, status.st_gid
