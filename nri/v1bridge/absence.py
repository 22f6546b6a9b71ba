"""Configuration files that are suddenly gone: for a moment they count as they were.

Tools replace a file by moving the old one away and writing the new one, or exchange a whole directory. Between the
two steps there is no file, and a pod that starts just then would get no plugins. So where files are missing, and
nothing else has changed, the missing ones count for :data:`GRACE` seconds more, from the event that noticed it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.config.entries import PluginEntry

    Files = dict[str, tuple[PluginEntry, ...]]

GRACE = 1.0
"""Seconds."""


class Absence:
    """The files that are missing, and since when.

    :param stand_in: the file that is read only where there is no other; it does not take the place of files that
        were there a moment ago.
    """

    def __init__(self, stand_in: str, clock: Callable[[], float]) -> None:
        self._stand_in = stand_in
        self._clock = clock
        self._since: dict[str, float] = {}

    def forget(self) -> None:
        """Count anew: what was missing is there again, or was replaced."""
        self._since = {}

    def is_over(self) -> bool:
        """Return whether a missing file has had its time."""
        return bool(self._since) and self._clock() - min(self._since.values()) >= GRACE

    def bridge(self, known: Files, found: Files) -> Files:
        """Return what counts: ``found``, with those files of ``known`` that have been missing for a moment only.

        :param known: what counts until now.
        """
        missing = [path for path in known if path not in found]
        rest = {path: plugins for path, plugins in found.items() if path in known or path != self._stand_in}
        if not missing or any(known.get(path) != plugins for path, plugins in rest.items()):
            self.forget()
            return found
        now = self._clock()
        self._since = {path: self._since.get(path, now) for path in missing}
        gone = {path for path in missing if now - self._since[path] >= GRACE}
        if len(gone) == len(missing):
            self.forget()
            return found
        for path in gone:
            del self._since[path]
        return {path: plugins for path, plugins in known.items() if path not in gone}
