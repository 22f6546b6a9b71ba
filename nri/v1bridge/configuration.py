"""The host configuration, read again when its files have changed.

A change takes effect with the next event. If the files are not valid or cannot be read, the last valid configuration
stays in use, and the log reports it once; before the first valid one, no plugin runs. Missing files stay in use for a
moment (:class:`Absence`). Every event gets one configuration, the old or the new: if files change while they are read
(a directory is exchanged, a file is renamed), they are read again. Deciding that a file is not valid is fast; finding
its faults may take a second, so a thread of its own does that, one configuration at a time and then the newest one.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from typing import TYPE_CHECKING, Any

from nri import config, trust
from nri.background import in_background
from nri.config import ConfigError, ConfigList, Fault
from nri.config.loading import GRACE, InvalidFile, unchanged_for
from nri.types.gojson import shorten
from nri.v1bridge.event_log import MAX_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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


class Absence:
    """The missing files, each with the time when it was found missing.

    Tools replace a file by moving the old one away and writing the new one, or exchange a whole directory. A pod that
    starts between the two steps would get no plugins. So if files are missing and nothing else has changed, they stay
    in use for :data:`GRACE` seconds after the event that noticed it.

    :param fallback: the file that is read only if there is no other; it does not replace files that are missing.
    """

    def __init__(self, fallback: str, clock: Callable[[], float]) -> None:
        self._fallback, self._clock = fallback, clock
        self._since: dict[str, float] = {}

    def reset(self) -> None:
        """Forget the missing files."""
        self._since = {}

    def has_expired(self) -> bool:
        """Return whether a file has been missing for :data:`GRACE` seconds."""
        return bool(self._since) and self._clock() - min(self._since.values()) >= GRACE

    def in_use(self, known: Files, found: Files) -> Files:
        """Return the files to use: those that were *found*, and *known* ones that are missing for a moment only."""
        other = [path for path in found if path in known or path != self._fallback]
        is_same = all(known.get(path) == found[path] for path in other)
        now = self._clock()
        since = {path: self._since.get(path, now) for path in known if is_same and path not in found}
        self._since = {path: at for path, at in since.items() if now - at < GRACE}
        if not self._since:
            return found
        return {path: plugins for path, plugins in known.items() if path in found or path in self._since}


class Configuration:
    """The host configuration of a directory, or of the single file that is read instead.

    :param clock: returns the seconds of a monotonic clock.
    """

    def __init__(self, conf_dir: str, conf_file: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._conf_dir, self._conf_file = conf_dir, conf_file
        self._lock = threading.Lock()
        self._snapshot: tuple[object, ...] | None = None
        self._files: Files = {}
        self._current = ConfigList()
        self._is_known = False
        self._is_news = True  # the next valid configuration is to be logged, also if it is the same
        self._rejected: object = None
        self._absence = Absence(conf_file, clock)
        self._reported: list[str] = []  # missing files that the log has listed
        self._faults: list[str] = []
        self._unexplained: tuple[ConfigError, str] | None = None  # and the plugins that stay in use
        self._is_explaining = False
        self._explained = threading.Condition(threading.Lock())  # protects these three
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
                "valid": self._rejected_since is None and self._since is not None,
                "faults": list(self._faults),
                "since": self._since,
                "rejectedSince": self._rejected_since,
            }

    def explain(self) -> None:
        """Log the faults, if there are any: in the background, so that no answer is delayed."""
        with self._explained:
            if self._unexplained is None or self._is_explaining:
                return
            self._is_explaining = True
        if in_background(self._explain_all, "explain"):  # the limit of threads is reached
            with self._explained:
                unexplained, self._unexplained, self._is_explaining = self._unexplained, None, False
            if unexplained is not None:
                _log_faults(*unexplained)

    def is_explained(self, timeout: float) -> bool:
        """Wait until all faults are logged, at most *timeout* seconds; return whether they are."""
        with self._explained:
            return self._explained.wait_for(lambda: not self._is_explaining, timeout)

    def _explain_all(self) -> None:
        while True:
            with self._explained:
                if self._unexplained is None:
                    self._is_explaining = False
                    self._explained.notify_all()
                    return
                (error, kept), self._unexplained = self._unexplained, None
            try:
                explained = error.explained()
            except (Exception, SystemExit) as failure:  # PyInstaller raises the latter when its files are gone
                reason = f"it cannot be explained: {type(failure).__name__}: {failure}"
                explained = ConfigError([*error.faults, Fault(file=error.faults[0].file, message=reason)])
            with self._explained:
                if not self._faults:
                    continue  # there is a valid configuration
                if self._unexplained is None:
                    self._faults = [str(fault) for fault in explained.faults]
            _log_faults(explained, kept)

    def _read(self, check_owner: bool) -> None:
        after, newest = self._look(check_owner)
        if after == self._snapshot and not self._absence.has_expired():
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
        else:
            self._accept(read)

    def _reject(self, error: ConfigError) -> None:
        self._absence.reset()
        self._reported, self._is_news = [], True
        self._rejected_since = self._rejected_since or time.time()
        rejected = [(str(fault), hash(fault)) for fault in error.faults]  # the hash differs if the content does
        if rejected != self._rejected:
            self._rejected = rejected
            with self._explained:
                self._unexplained = error, self._names()
                self._faults = [str(fault) for fault in error.faults]

    def _accept(self, found: Files) -> None:
        self._rejected = self._rejected_since = None
        with self._explained:
            self._unexplained, self._faults = None, []
        files = self._absence.in_use(self._files, found)
        missing = [path for path in files if path not in found]
        gone = [path for path in self._reported if path not in files]
        is_over = any(path not in missing for path in self._reported)
        read = ConfigList(plugins=[plugin for plugins in files.values() for plugin in plugins])
        if self._since is None or read != self._current:
            self._since = time.time()
        is_news = self._is_news or is_over or read != self._current
        self._files, self._current, self._is_news, self._is_known = files, read, False, True
        if is_news:
            self._hash = read.content_hash()
            what = f"{self._names()}{f'; gone: {_joined(gone)}' if gone else ''}"
            log.info("configuration: %s", what, extra={"fields": {"hash": self._hash}})
        new = [path for path in missing if path not in self._reported and files[path]]
        self._reported = [path for path in self._reported if path in missing] + new
        if new:
            kept = f"still using the last valid configuration ({self._names()}) for {GRACE:g} s"
            log.warning("missing: %s; %s", _joined(new), kept)

    def _names(self) -> str:
        """Return the types of the plugins in use, for the log."""
        return _joined([plugin.type for plugin in self._current.plugins]) or "no plugins"

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
    for fault in error.faults:
        log.error("invalid configuration; still using the last valid one (%s): %s", kept, fault)


def _joined(names: Iterable[str]) -> str:
    return shorten(", ".join(names), MAX_TEXT)


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
