"""How many series a node has, from the table: for those who size a Prometheus."""

from __future__ import annotations

from nri.metrics.table import HISTOGRAM, TABLE

BOUNDS = 12
"""The bounds of each histogram of the bridge."""

OF_A_HISTOGRAM = BOUNDS + 3
"""Series of a histogram: a bucket for each bound, one for all values, the sum and the count."""

OF_A_TARGET = 5
"""Series that Prometheus adds for each target: ``up`` and four about the scrape."""


def series(*, plugins: int, states: int, events: int) -> int:
    """Return the number of series of a node, the most that there can be.

    :param plugins: entries of the host configuration, each with a type or a file of its own.
    :param states: how many states each of them is run for; 2 by default, create and delete.
    :param events: kinds of events in the status document.
    """
    things = {"node": 1, "plugin": plugins, "state": plugins * states, "event": events}
    return (
        1
        + OF_A_TARGET
        + sum(things[row.per] * row.times * (OF_A_HISTOGRAM if row.kind == HISTOGRAM else 1) for row in TABLE)
    )
