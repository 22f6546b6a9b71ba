"""What plugins write to stderr again and again: once in the log, then counted, within bounds."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from nri.client import Client
from nri.config.entries import ConfigList
from nri.v1bridge import repeats
from nri.v1bridge.event_log import EventLines, EventLog
from nri.v1bridge.repeats import Repeats
from tests.unit.v1bridge.log_lines import CONTAINER, Log, request, step

TRACEBACK = ["Traceback (most recent call last):", '  File "p.py", line 1', "ValueError: no"]


class Clock:
    def __init__(self) -> None:
        self.now = 1.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(repeats.Repeats.__init__, "__defaults__", (clock,))
    return clock


@pytest.fixture
def events(clock: Clock, log: Log) -> EventLog:
    log.set_up(log_format="json")
    return EventLog()


def run(events: EventLog, lines: list[str], *, plugin: str = "konfine", error: str = "no") -> EventLines:
    """An event whose plugin writes these lines and fails."""
    made = events.begin(request(), CONTAINER, Client(ConfigList()), None)
    for line in lines:
        made.says(plugin, line)
    made.step(step(plugin=plugin, error=error))
    made.end(0.1, error)
    return made


def said(log: Log) -> list[Any]:
    """The lines, and the counts, of plugins."""
    found = [value for value in log.objects if value["message"].startswith("says")]
    return [
        (value["plugin"], value["times"], value["line"]) if "times" in value else value["line"] for value in found
    ]


def test_a_text_is_logged_once_and_each_failure_in_any_case(events: EventLog, log: Log) -> None:
    for _ in range(38):
        run(events, TRACEBACK)
    run(events, TRACEBACK, plugin="other")
    assert said(log) == TRACEBACK * 2
    assert [value["plugins"][0]["error"] for value in log.objects if value["message"] == "failed"] == ["no"] * 39
    events.finish()
    assert said(log)[6:] == [("konfine", 37, "ValueError: no")]
    events.finish()
    assert len(said(log)) == 7


def test_the_count_is_before_the_next_new_text_of_the_plugin(events: EventLog, log: Log) -> None:
    for lines in (["a"], ["a"], ["b"], ["a"], ["b"], ["c"]):
        run(events, lines)
    run(events, ["d"], plugin="other")
    assert said(log) == ["a", ("konfine", 1, "a"), "b", ("konfine", 1, "a"), ("konfine", 1, "b"), "c", "d"]
    for _ in range(2):
        run(events, ["x" * 100_000])
    events.finish()
    assert len(said(log)[-1][2]) < 300  # the last line is bounded


def test_the_count_comes_with_the_first_event_after_an_interval(events: EventLog, log: Log, clock: Clock) -> None:
    for _ in range(5):
        run(events, ["a"])
    clock.now += repeats.INTERVAL - 1
    events.write()
    assert said(log) == ["a"]
    clock.now += 1
    events.write()
    events.write()
    assert said(log) == ["a", ("konfine", 4, "a")]
    run(events, ["a"])
    clock.now += repeats.INTERVAL
    events.write()
    assert said(log)[2:] == [("konfine", 1, "a")]


def test_a_text_that_was_logged_long_ago_is_logged_again(events: EventLog, log: Log, clock: Clock) -> None:
    run(events, TRACEBACK)
    clock.now += repeats.AGAIN - 1
    run(events, TRACEBACK)
    clock.now += 1
    run(events, TRACEBACK)
    assert said(log) == [*TRACEBACK, ("konfine", 1, "ValueError: no"), *TRACEBACK]


def test_lines_of_two_runs_of_an_event_are_two_texts(events: EventLog, log: Log) -> None:
    for _ in range(3):
        lines = events.begin(request(), CONTAINER, Client(ConfigList()), None)
        for text in ("a", "b"):
            lines.says("konfine", text)
            lines.step(step())
        lines.end(0.1, "")
    events.finish()
    assert said(log) == ["a", "b", ("konfine", 2, "a"), ("konfine", 2, "b")]


def test_texts_beyond_the_bound_are_forgotten_with_their_count(events: EventLog, log: Log) -> None:
    run(events, ["first"])
    run(events, ["first"])
    for number in range(repeats.MAX_TEXTS):
        run(events, [str(number)], plugin="other")
    assert ("konfine", 1, "first") in said(log)
    run(events, ["first"])
    assert said(log)[-1] == "first"


def test_memory_does_not_grow_with_the_texts() -> None:
    made = Repeats()
    tracemalloc.start()
    try:
        for number in range(2 * repeats.MAX_TEXTS):
            made.add("p", [str(number), "x" * 20_000], lambda line: line[:256])
        assert tracemalloc.get_traced_memory()[0] < 2000 * repeats.MAX_TEXTS
    finally:
        tracemalloc.stop()
