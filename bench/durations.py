"""Durations of events, and the rows that compare two lists of them."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from bench.report import Row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROUNDS = 9
"""Number of turns for events back to back, so that a noisy moment affects all that are compared."""


def percentile_99(times: Sequence[float]) -> float:
    """Return the 99th percentile; the maximum of fewer than a hundred."""
    return sorted(times)[int(len(times) * 0.99)]


def each_of_rounds(times: Sequence[float]) -> float:
    """Return the median of the means of ``ROUNDS``: what an event takes in a series, its outliers included."""
    size = max(1, len(times) // ROUNDS)
    return statistics.median(
        statistics.mean(times[at : at + size]) for at in range(0, len(times), size)
    )


def compared(
    name: str,
    times: Sequence[float],
    beside: Sequence[float],
    of: str,
    goal: float | None = None,
    *,
    by: Callable[[Sequence[float]], float] = statistics.median,
    unit: str = "ms",
) -> Row:
    """Return the row for two lists of durations.

    :param by: makes one figure of a list.
    """
    return Row(name=name, figure=by(times), unit=unit, reference=by(beside), of=of, goal=goal)
