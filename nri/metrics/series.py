"""How many series a node has, from the table: for those who size a Prometheus."""

from __future__ import annotations

from nri.metrics.table import HISTOGRAM, TABLE

BOUNDS = 12
"""The bounds of each histogram of the bridge."""

OF_A_HISTOGRAM = BOUNDS + 3
"""Series of a histogram: a bucket for each bound, one for all values, the sum and the count."""

OF_A_TARGET = 5
"""Series that Prometheus adds for each target: ``up`` and four about the scrape."""

EVENTS = 10
"""Kinds of events that the bridge handles."""


def series(*, plugins: int, states: int = 2, events: int = EVENTS) -> int:
    """Return the number of series of a node, the most that there can be.

    :param plugins: entries of the host configuration, each with a type or a file of its own.
    :param states: how many states each of them is run for; without ``states`` in the entry create and delete.
    :param events: kinds of events that have come.
    """
    things = {"node": 1, "plugin": plugins, "state": plugins * states, "event": events}
    return (
        1
        + OF_A_TARGET
        + sum(things[row.per] * row.times * (OF_A_HISTOGRAM if row.kind == HISTOGRAM else 1) for row in TABLE)
    )
