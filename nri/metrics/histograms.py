"""Histograms of the status document, which count each value once, as Prometheus counts them: cumulatively."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Buckets(NamedTuple):
    """A histogram: the bounds in seconds, how many values are at most each of them, and all values' count and sum."""

    bounds: tuple[float, ...]
    up_to: tuple[int, ...]
    count: int
    sum: float

    def at_most(self, bound: float) -> int:
        """Return how many values are known to be at most ``bound``."""
        known = 0
        for own, count in zip(self.bounds, self.up_to, strict=True):
            if own > bound:
                break
            known = count
        return known


def read(histogram: Mapping[str, Any]) -> Buckets:
    """Return a histogram of the status document: ``bounds``, ``counts`` with one more for larger values, ``sum``."""
    total, up_to = 0, []
    for count in histogram["counts"]:
        total += int(count)
        up_to.append(total)
    bounds = tuple(float(bound) for bound in histogram["bounds"])
    return Buckets(bounds, tuple(up_to[: len(bounds)]), total, float(histogram["sum"]))


def add(histograms: Iterable[Buckets]) -> Buckets:
    """Return the histogram of all values; its bounds are those of all histograms."""
    parts = list(histograms)
    bounds = tuple(sorted({bound for part in parts for bound in part.bounds}))
    up_to = tuple(sum(part.at_most(bound) for part in parts) for bound in bounds)
    return Buckets(bounds, up_to, sum(part.count for part in parts), sum(part.sum for part in parts))
