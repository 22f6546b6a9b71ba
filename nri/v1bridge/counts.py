"""What the bridge counts: events, and the runs of each plugin. docs/status.md describes the values."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from nri.client.chain import OUTCOMES
from nri.errors import bounded, escape

if TYPE_CHECKING:
    from nri.v1bridge.exchanges import PodExchange

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds of the histograms, in seconds: from a resident plugin to more than a runtime's timeout."""

MAX_ERROR = 1024
"""Bytes of a plugin's last error."""

MAX_PLUGINS = 256
"""Plugins, by type and file, whose runs are counted; the counts of the one that ran longest ago are dropped."""


class Histogram:
    """How many values lie between each two of :data:`BOUNDS`."""

    __slots__ = ("_counts", "_sum")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        """Count one value."""
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self._sum += seconds

    def to_value(self) -> dict[str, Any]:
        """Return the histogram as the status has it."""
        return {"bounds": list(BOUNDS), "counts": list(self._counts), "sum": round(self._sum, 6)}


class EventCounts:
    """The events of one kind."""

    __slots__ = ("_answered", "_errors", "_late", "_near", "_seconds", "_waiting")

    def __init__(self) -> None:
        self._answered = self._errors = self._late = self._near = 0
        self._seconds, self._waiting = Histogram(), Histogram()

    def add(self, seconds: float, waiting: float, allowed: float | None, *, has_failed: bool, is_late: bool) -> None:
        """Count one event.

        :param seconds: from its arrival to its answer.
        :param waiting: from its arrival until a handler began.
        :param allowed: the seconds that it had; None without a deadline.
        """
        self._answered += 1
        self._errors += has_failed
        self._late += is_late
        self._near += allowed is not None and seconds > allowed / 2
        self._seconds.add(seconds)
        self._waiting.add(waiting)

    def to_value(self) -> dict[str, Any]:
        """Return the counts as the status has them."""
        return {
            "answered": self._answered,
            "errors": self._errors,
            "late": self._late,
            "nearDeadline": self._near,
            "seconds": self._seconds.to_value(),
            "waiting": self._waiting.to_value(),
        }


class PluginCounts:
    """The runs of one plugin."""

    __slots__ = ("_last", "_last_error", "_runs", "_seconds")

    def __init__(self) -> None:
        self._runs: dict[str, dict[str, int]] = {}
        self._seconds = Histogram()
        self._last: str | None = None
        self._last_error: dict[str, Any] | None = None

    def add(self, exchange: PodExchange, outcome: str, seconds: float, error: str) -> None:
        """Count one run.

        :param error: the plugin's error, "" without one.
        """
        by_outcome = self._runs.setdefault(exchange.state, dict.fromkeys(OUTCOMES, 0))
        by_outcome[outcome] += 1
        self._seconds.add(seconds)
        self._last = outcome
        if error:
            self._last_error = {
                "time": exchange.time,
                "state": exchange.state,
                "pod": exchange.pod,
                "container": exchange.container or None,
                "error": bounded(escape(error), MAX_ERROR),
            }

    def to_value(self) -> dict[str, Any]:
        """Return the counts as the status has them."""
        runs = {state: dict(by_outcome) for state, by_outcome in self._runs.items()}
        error = None if self._last_error is None else dict(self._last_error)
        return {"runs": runs, "seconds": self._seconds.to_value(), "last": self._last, "lastError": error}
