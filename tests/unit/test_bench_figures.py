"""The figures of the benchmark: what it makes of durations, the verdict on a row, and the CPUs that it pins to."""

from __future__ import annotations

import os
import threading

import pytest

from bench import cpus
from bench.durations import ROUNDS, compared, each_of_rounds, percentile_99
from bench.report import Row, lines


@pytest.mark.parametrize(("count", "expected"), [(1, 0.0), (99, 98.0), (100, 99.0), (1000, 990.0)])
def test_the_99th_percentile_is_of_the_sorted_durations(count: int, expected: float) -> None:
    assert percentile_99([float(each) for each in reversed(range(count))]) == expected


def test_a_noisy_round_does_not_change_what_an_event_of_a_series_takes() -> None:
    quiet, noisy = [1.0, 3.0] * (ROUNDS - 1), [500.0, 900.0]
    assert each_of_rounds(quiet + noisy) == each_of_rounds(noisy + quiet) == 2.0


def test_fewer_durations_than_rounds_have_a_figure() -> None:
    assert each_of_rounds([1.0, 2.0, 3.0]) == 2.0


def test_two_lists_are_compared_by_the_same_figure() -> None:
    row = compared("an event", [1.0, 2.0, 30.0], [4.0, 5.0, 60.0], "another", goal=0.45)
    assert (row.figure, row.reference, row.verdict) == (2.0, 5.0, "holds")
    worst = compared("an event", [1.0, 2.0, 30.0], [4.0, 5.0, 60.0], "another", goal=0.45, by=max)
    assert (worst.figure, worst.reference, worst.verdict) == (30.0, 60.0, "MISSED")


def test_a_row_without_a_goal_has_a_ratio_and_no_verdict() -> None:
    row = Row(name="a", figure=1.0, unit="ms", reference=4.0, of="b")
    assert lines("Title", [row])[2:] == ["| a | 1 ms | 4 (b) | 0.25 |  |  |"]


def test_what_is_started_while_pinned_stays_on_these_cpus_and_the_caller_does_not() -> None:
    before = os.sched_getaffinity(0)
    one = [min(before)]
    found = []
    is_over = threading.Event()

    def note() -> None:
        assert is_over.wait(10)
        found.append(os.sched_getaffinity(0))

    thread = threading.Thread(target=note)
    with cpus.pinned(one):
        thread.start()
    is_over.set()
    thread.join()
    assert (found, os.sched_getaffinity(0)) == ([set(one)], before)


def test_two_cpus_are_two_that_may_be_used() -> None:
    allowed = cpus.available()
    two = cpus.two()
    assert set(two) <= set(allowed)
    assert len(set(two)) == len(two) == min(2, len(allowed))
