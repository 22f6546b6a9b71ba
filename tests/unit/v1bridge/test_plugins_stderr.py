"""What plugins write to stderr: so many lines of each in a minute, and the number of the others."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from nri.client import Client
from nri.config.entries import ConfigList
from nri.v1bridge import log as module
from nri.v1bridge.log import INTERVAL, LINES, EventLog
from tests.unit.v1bridge.log_lines import CONTAINER, Log, fields, request, step


class Clock:
    def __init__(self) -> None:
        self.now = 1.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(
        module, "time", SimpleNamespace(monotonic=clock.monotonic, strftime=time.strftime, gmtime=time.gmtime)
    )
    return clock


@pytest.fixture
def events(clock: Clock, log: Log) -> EventLog:
    log.set_up()
    return EventLog()


def run(events: EventLog, lines: int, plugin: str = "konfine") -> None:
    """An event whose plugin writes so many lines and fails."""
    made = events.begin(request(), CONTAINER, Client(ConfigList()), None)
    for number in range(lines):
        made.says(plugin, f"line {number}")
    made.step(step(plugin=plugin, error="no"))
    made.end(0.1, "no")


def said(log: Log) -> list[Any]:
    """The number of lines of plugins, then what was left out."""
    left_out = [dict(fields(line)) for line in log.lines if " left out " in line]
    return [log.text.count(" says "), *[(pairs["plugin"], int(pairs["lines"])) for pairs in left_out]]


def test_lines_beyond_the_limit_a_minute_are_counted(events: EventLog, log: Log, clock: Clock) -> None:
    for _ in range(5):
        run(events, LINES // 2)
    assert said(log) == [LINES]
    clock.now += INTERVAL
    run(events, 1)
    assert said(log) == [LINES + 1, ("konfine", 3 * (LINES // 2))]
    assert log.text.count(" failed ") == 6


def test_lines_left_out_are_reported_without_another_line(events: EventLog, log: Log, clock: Clock) -> None:
    run(events, LINES + 2)
    run(events, LINES, plugin="clearcfs")  # each has its own, and this one has no more
    events.report()
    assert said(log) == [2 * LINES]
    clock.now += INTERVAL
    events.report()
    assert said(log) == [2 * LINES, ("konfine", 2)]
    run(events, LINES + 1)
    events.report(is_last=True)
    assert said(log) == [3 * LINES, ("konfine", 2), ("konfine", 1)]
