"""The files that a plugin was loaded from, as they were: any difference, and its helper is asked no more.

A file is told from another of the same name by device, inode, size and time of change (ctime). That time has a grain,
and comes from a clock that may be set back. Files are trusted if none has changed since before the plugin was
started: by the clock, or, where the clock does not show it, because they are the same as at an earlier look.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

GRAIN = 20_000_000
"""Nanoseconds by which a file's time of change may be behind the clock."""

DRIFT = 1_000_000_000
"""Nanoseconds that the clock may gain or lose while a plugin is loaded; by more, and it was set."""

Identity = tuple[int, int, int, int]
Files = dict[str, Identity]


def identity(path: str) -> Identity:
    """Return what tells this file from another one of the same name.

    :raises OSError: when there is no file.
    """
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns


def first_changed(files: Files) -> str:
    """Return the first file that is not what it was; "" when all are."""
    for path, known in files.items():
        try:
            if identity(path) != known:
                return path
        except OSError:
            return path
    return ""


def wait_until_settled(known: Identity) -> None:
    """Wait until a change of this file would give it another time."""
    if 0 <= time.time_ns() - known[3] < GRAIN:
        time.sleep(GRAIN / 1e9)


class Seen(NamedTuple):
    """Files as they were at a time of the monotonic clock, in nanoseconds."""

    files: Files
    at: int


class Look:
    """A look at a plugin's files before it is started, and what it says about those that it was loaded from.

    :param before: files of the plugin as an earlier attempt has seen them.
    """

    def __init__(self, before: Seen | None) -> None:
        self._wall = time.time_ns()
        self._started = time.monotonic_ns()
        self._unchanged: Files = {}
        if before is not None and self._started - before.at > GRAIN:
            # A change from now on gives another time: those that are the same at the end are the same all the time.
            self._unchanged = {
                path: known for path, known in before.files.items() if not first_changed({path: known})
            }

    def changed(self, files: Files) -> str:
        """Return why these files, as they are now, may not be those that were loaded; "" when they are."""
        passed = time.monotonic_ns() - self._started
        clock_was_set = abs(time.time_ns() - self._wall - passed) > DRIFT
        for path, known in files.items():
            if self._unchanged.get(path) == known:
                continue
            if clock_was_set:
                return f"the clock was set while it was loaded, from {path} among others"
            if known[3] > self._wall + passed + DRIFT:
                return f"a file has a time of change in the future: {path}"
            if known[3] > self._wall - GRAIN:
                return f"a file changes while it is loaded: {path}"
        return ""
