"""What plugins write to stderr again and again: logged once, and then counted.

The unit is all that one run of a plugin writes: a traceback, for example. Memory is bounded: of a text that was
logged a hash and its last line are kept, of :data:`MAX_TEXTS` texts.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

MAX_TEXTS = 256
"""Texts that are known; beyond that the one that was not written for the longest time is forgotten."""

INTERVAL = 60.0
"""Seconds after which repetitions are reported, at the next event."""

AGAIN = 3600.0
"""Seconds after which a text is logged anew if it is written again: its first time may have left the log by then."""


class Repeated:
    """A plugin's text, and how often it was written since it was reported."""

    __slots__ = ("line", "logged", "plugin", "times")

    def __init__(self, plugin: str, line: str, logged: float) -> None:
        self.plugin, self.line = plugin, line
        self.logged = logged
        """When its whole text was logged."""
        self.times = 0


class Repeats:
    """The texts that plugins have written. All methods may be called from any thread.

    :param clock: seconds, as :func:`time.monotonic`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._texts: OrderedDict[tuple[str, int, int], Repeated] = OrderedDict()
        self._lock = threading.Lock()
        self._due = 0.0  # when repetitions are to be reported; 0 for none

    def add(self, plugin: str, lines: Sequence[str], shorten: Callable[[str], str]) -> tuple[bool, list[Repeated]]:
        """Note a text.

        :param shorten: bounds its last line.
        :returns: whether it is to be logged, and the repetitions that are to be reported before that.
        """
        text = "\n".join(lines)
        key = (plugin, len(text), hash(text))  # Python's hash of a text is keyed: a pod cannot choose one
        with self._lock:
            now = self._clock()
            known = self._texts.get(key)
            if known is not None and now - known.logged < AGAIN:
                known.times += 1
                self._texts.move_to_end(key)
                self._due = self._due or now + INTERVAL
                return False, []
            self._texts[key] = Repeated(plugin, shorten(lines[-1]), now)
            self._texts.move_to_end(key)
            reported = [self._texts.popitem(last=False)[1]] if len(self._texts) > MAX_TEXTS else []
            reported += [each for each in self._texts.values() if each.plugin == plugin]
            return True, _taken(reported if known is None else [known, *reported])

    def due(self) -> list[Repeated]:
        """Return the repetitions that are to be reported by now."""
        if not self._due or self._clock() < self._due:
            return []
        return self.rest()

    def rest(self) -> list[Repeated]:
        """Return all repetitions that were not reported."""
        with self._lock:
            self._due = 0.0
            return _taken(self._texts.values())


def _taken(found: Iterable[Repeated]) -> list[Repeated]:
    """Return copies of those that were repeated, and count anew."""
    taken = []
    for each in found:
        if each.times:
            copy = Repeated(each.plugin, each.line, each.logged)
            copy.times, each.times = each.times, 0
            taken.append(copy)
    return taken
