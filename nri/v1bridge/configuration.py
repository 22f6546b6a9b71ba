"""The plugins' configuration, read again when its files have changed.

A change takes effect with the next event. One that is broken is said loudly, once, and the last good configuration
stays; where there has been none yet, no plugin runs. Every event sees one configuration, the old or the new: where
files change while they are read (a directory that is exchanged, a file that gets another name), they are read again.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
import time

from nri import config
from nri.types.v1 import ConfigList

RECENT_NS = 100_000_000
"""Nanoseconds: a file that is younger may change again without its time of change showing it."""

ATTEMPTS = 4
"""Readings until the files are the same before and after; if they never are, the last one counts."""

PAUSE = 0.001
"""Seconds between two of them."""

log = logging.getLogger("nri.v1bridge")

State = tuple[object, ...]


class Configuration:
    """The configuration of a directory, or of the one file that stands in for it."""

    def __init__(self, conf_dir: str, conf_file: str) -> None:
        self._conf_dir = conf_dir
        self._conf_file = conf_file
        self._beside = os.path.dirname(conf_file)
        self._lock = threading.Lock()
        self._state: State | None = None
        self._current = ConfigList()
        self._complaint = ""
        self._listed: object = None
        self._paths: list[str] = []

    def current(self, *, check_owner: bool = True) -> ConfigList:
        """The configuration as its files say it now, or the last good one.

        :param check_owner: as for :func:`nri.config.load`.
        """
        with self._lock:
            before, _ = self._look(check_owner)
            if before == self._state:
                return self._current
            read, after, newest = self._attempt(check_owner)
            for _ in range(ATTEMPTS - 1):
                if after == before:
                    break
                time.sleep(PAUSE)
                before = after
                read, after, newest = self._attempt(check_owner)
            self._judge(read)
            # What may have changed without a trace is read again by the next event.
            self._state = None if after != before or time.time_ns() - newest < RECENT_NS else after
            return self._current

    def _attempt(self, check_owner: bool) -> tuple[ConfigList | config.ConfigError, State, int]:
        read: ConfigList | config.ConfigError
        try:
            read = config.load(self._conf_dir, self._conf_file, check_owner=check_owner)
        except config.ConfigError as error:
            read = error
        return read, *self._look(check_owner)

    def _judge(self, read: ConfigList | config.ConfigError) -> None:
        if isinstance(read, config.ConfigError):
            if str(read) != self._complaint:
                self._complaint = str(read)
                kept = f"the last good one stays, with {len(self._current.plugins)} plugins"
                for fault in read.faults:
                    log.error("the configuration is broken, %s: %s", kept, fault)
            return
        if self._complaint or read != self._current:
            names = ", ".join([plugin.type for plugin in read.plugins]) or "no plugins"
            log.info("configuration: %s", names)
        self._complaint = ""
        self._current = read

    def _look(self, check_owner: bool) -> tuple[State, int]:
        """What the files look like from outside, and when the youngest changed."""
        seen: list[object] = [check_owner, _owned(self._beside)]
        newest = 0
        for path in [self._conf_dir, *self._names(), self._conf_file]:
            try:
                status = os.lstat(path)
                if stat.S_ISLNK(status.st_mode):
                    status = os.stat(path)
                    seen.append(_owned(os.path.dirname(os.path.realpath(path))))
            except OSError as error:
                seen.append((path, error.errno))
                continue
            seen.append((path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode))
            newest = max(newest, status.st_ctime_ns)
        return tuple(seen), newest

    def _names(self) -> list[str]:
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


def _owned(directory: str) -> tuple[object, ...]:
    """What a directory is judged by: one that is put right must not be overlooked."""
    try:
        status = os.stat(directory)
    except OSError as error:
        return directory, error.errno
    return directory, status.st_mode, status.st_uid, status.st_gid
