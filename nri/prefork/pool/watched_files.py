"""The identity of the files that a plugin was loaded from: after any change its server gets no more requests.

A file is identified by device, inode, size and time of change (ctime). That time is coarse, and comes from a clock
that may be set back. Files are trusted if none has changed since before the plugin was started: by the clock, or,
where the clock is no evidence, because they are the same as at an earlier look.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

GRAIN = 20_000_000  # nanoseconds by which a file's time of change may lag behind the clock
AT_ONCE, PAUSE = 3, 0.05  # attempts that are made in a row while files change, and seconds between them
DRIFT = 1_000_000_000  # nanoseconds that the clock may gain or lose while a plugin is loaded, unless it was set

Identity = tuple[int, int, int, int]
Files = dict[str, Identity]


def identity(path: str) -> Identity:
    """Return the identity of the file at ``path``.

    :raises OSError: when it can't be looked at.
    """
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns


def first_changed(files: Files) -> str:
    """Return the first file whose identity differs, or ""."""
    for path, known in files.items():
        try:
            if identity(path) != known:
                return path
        except OSError:
            return path
    return ""


def wait_until_settled(known: Identity) -> None:
    """Wait until a change of this file would change its ctime."""
    if 0 <= time.time_ns() - known[3] < GRAIN:
        time.sleep(GRAIN / 1e9)


class Seen(NamedTuple):
    """Files as they were at a time of the monotonic clock, in nanoseconds."""

    files: Files
    at: int


class Look:
    """A look at a plugin's files before it is started, to be compared with the files that it was loaded from.

    :param before: the plugin's files as an earlier attempt saw them.
    """

    def __init__(self, before: Seen | None) -> None:
        self._wall, self._started = time.time_ns(), time.monotonic_ns()
        self._unchanged: Files = {}
        if before is not None and self._started - before.at > GRAIN:
            # A change from now on changes the ctime, so a file that is the same at the end did not change in between.
            self._unchanged = {path: each for path, each in before.files.items() if not first_changed({path: each})}

    def changed(self, files: Files) -> str:
        """Return the reason why these files may differ from the loaded ones, or "" if they are the same."""
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
