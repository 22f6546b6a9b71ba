"""Histograms of the status document, which count each value once, as Prometheus counts them: cumulatively."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Buckets(NamedTuple):
    """A histogram: bounds in seconds, each with the number of values up to it; number and sum of all values."""

    up_to: tuple[tuple[float, int], ...]
    number: int
    sum: float

    def at_most(self, bound: float) -> int:
        """Return how many values are known to be at most ``bound``."""
        known = 0
        for own, count in self.up_to:
            if own > bound:
                break
            known = count
        return known


def read(histogram: Mapping[str, Any]) -> Buckets:
    """Return a histogram of the status document: ``bounds``, ``counts`` with one more for larger values, ``sum``."""
    counts = list(itertools.accumulate(histogram["counts"]))
    bounds = [float(bound) for bound in histogram["bounds"]]
    return Buckets(tuple(zip(bounds, counts[:-1], strict=True)), counts[-1], float(histogram["sum"]))


def add(histograms: Iterable[Buckets]) -> Buckets:
    """Return the histogram of all values; its bounds are those of all histograms."""
    parts = list(histograms)
    bounds = sorted({bound for part in parts for bound, _ in part.up_to})
    up_to = tuple((bound, sum(part.at_most(bound) for part in parts)) for bound in bounds)
    return Buckets(up_to, sum(part.number for part in parts), sum(part.sum for part in parts))
