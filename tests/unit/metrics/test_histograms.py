"""Histograms: from counts of single buckets to cumulative ones, and their sum."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.metrics import histograms
from nri.metrics.histograms import Buckets

VALUES = st.lists(st.floats(0, 10), max_size=30)
BOUNDS = st.lists(st.floats(0.001, 9), max_size=6, unique=True).map(sorted)


def document(bounds: list[float], values: list[float]) -> dict[str, object]:
    """The histogram of these values as the bridge writes it."""
    edges = [float("-inf"), *bounds, float("inf")]
    counts = [sum(low < value <= high for value in values) for low, high in pairwise(edges)]
    return {"bounds": bounds, "counts": counts, "sum": sum(values)}


@given(BOUNDS, VALUES)
def test_each_bound_has_all_values_up_to_it(bounds: list[float], values: list[float]) -> None:
    found = histograms.read(document(bounds, values))

    assert found.up_to == tuple((bound, sum(value <= bound for value in values)) for bound in bounds)
    assert (found.number, found.sum) == (len(values), sum(values))


@given(BOUNDS, VALUES, VALUES)
def test_histograms_with_the_same_bounds_add_up(bounds: list[float], some: list[float], others: list[float]) -> None:
    both = histograms.add(histograms.read(document(bounds, values)) for values in (some, others))

    assert (both.up_to, both.number) == histograms.read(document(bounds, some + others))[:2]
    assert both.sum == pytest.approx(sum(some + others))


def test_a_bound_that_one_histogram_lacks_counts_what_is_known_to_be_below_it() -> None:
    fine, coarse = Buckets(((0.1, 4), (0.2, 6)), 7, 2.0), Buckets(((0.2, 3),), 3, 0.5)

    assert histograms.add([fine, coarse]) == Buckets(((0.1, 4), (0.2, 9)), 10, 2.5)
