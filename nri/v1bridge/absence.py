"""Missing configuration files, which stay in use for a moment.

Tools replace a file by moving the old one away and writing the new one, or exchange a whole directory. Between the
two steps there is no file, and a pod that starts at that moment would get no plugins. So if files are missing and
nothing else has changed, the missing files stay in use for :data:`GRACE` seconds after the event that noticed it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.config.loading import Files

GRACE = 1.0
"""Seconds."""


class Absence:
    """The missing files, each with the time since when it is missing.

    :param fallback: the file that is read only if there is no other; it does not replace files that are missing for
        a moment only.
    """

    def __init__(self, fallback: str, clock: Callable[[], float]) -> None:
        self._fallback = fallback
        self._clock = clock
        self._since: dict[str, float] = {}

    def reset(self) -> None:
        """Forget the missing files: they are there again, or were replaced."""
        self._since = {}

    def has_expired(self) -> bool:
        """Return whether a file has been missing for :data:`GRACE` seconds."""
        return bool(self._since) and self._clock() - min(self._since.values()) >= GRACE

    def in_use(self, known: Files, found: Files) -> Files:
        """Return the files to use: *found*, and the files of *known* that have been missing for a moment only.

        :param known: the files that were in use.
        :param found: the files that exist.
        """
        missing = [path for path in known if path not in found]
        rest = {path: plugins for path, plugins in found.items() if path in known or path != self._fallback}
        if not missing or any(known.get(path) != plugins for path, plugins in rest.items()):
            self.reset()
            return found
        now = self._clock()
        self._since = {path: self._since.get(path, now) for path in missing}
        gone = {path for path in missing if now - self._since[path] >= GRACE}
        if len(gone) == len(missing):
            self.reset()
            return found
        for path in gone:
            del self._since[path]
        return {path: plugins for path, plugins in known.items() if path not in gone}
