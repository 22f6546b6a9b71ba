"""The number of series follows from the table, and is what a node of that size has."""

import pytest

from nri.metrics import series
from tests.support import status_documents as documents
from tests.support.exposition import of


@pytest.mark.parametrize(("plugins", "states", "events"), [(1, 1, 1), (3, 2, 8)])
def test_a_node_of_that_size_has_as_many_series(plugins: int, states: int, events: int) -> None:
    document = documents.degraded()
    failed = document["plugins"][0]
    document["plugins"] = [
        {**failed, "type": f"plugin{number}", "states": [f"state{state}" for state in range(states)], "runs": {}}
        for number in range(plugins)
    ]
    document["events"] = [documents.event(f"Event{number}") for number in range(events)]

    assert len(documents.BOUNDS) == series.BOUNDS
    expected = series.series(plugins=plugins, states=states, events=events)
    assert len(of(document)) == expected - series.OF_A_TARGET


def test_a_node_that_is_well_has_no_more() -> None:
    assert len(of(documents.healthy())) <= series.series(plugins=2, states=2, events=3) - series.OF_A_TARGET
