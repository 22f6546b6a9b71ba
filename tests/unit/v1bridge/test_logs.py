"""The lines of the bridge's log: their fields, and texts that try to forge them."""

import re
from types import SimpleNamespace
from typing import Any

import pytest

from nri.client import Client, Step
from nri.config.entries import ConfigList
from nri.v1bridge import runs as module
from nri.v1bridge.runs import INTERVAL, LINES, EventLog, Run
from tests.unit.v1bridge.log_lines import CONTAINER, STAMP, Log, event, fields, request, says, step


@pytest.mark.parametrize(
    ("steps", "options", "line"),
    [
        (
            [step(plugin="clearcfs", seconds=0.05), step(metadata={"cpus": "1-3", "note": "a b"})],
            {},
            (
                'info answered state=create {} plugins="clearcfs ok 50.0ms, konfine ok 12.3ms" '
                'konfine.cpus=1-3 konfine.note="a b"'
            ),
        ),
        (
            [step(error="a", policy="ignore"), step(plugin="after")],
            {},
            'error ignored state=create {} plugins="konfine ignored 12.3ms, after ok 12.3ms" error="konfine: a"',
        ),
        (
            [step(error="killed: no result after 2 s"), step(plugin="b", error="c")],
            {"error": "nri v0.1: …"},
            (
                'error failed state=create {} plugins="konfine killed 12.3ms, b error 12.3ms" '
                'error="konfine: killed: no result after 2 s; b: c"'
            ),
        ),
        (
            [step(error="refused: no CPU")],
            {"error": "nri v0.1: …"},
            'warning refused state=create {} plugins="konfine refused 12.3ms" error="konfine: no CPU"',
        ),
        (
            [step(error="refused: no CPU", policy="ignore"), step(plugin="b", error="c")],
            {"error": "nri v0.1: …"},
            (
                'error failed state=create {} plugins="konfine refused 12.3ms, b error 12.3ms" '
                'error="konfine: no CPU; b: c"'
            ),
        ),
        ([], {"error": "ValueError: x"}, 'error failed state=create {} error="ValueError: x"'),
    ],
    ids=["ok", "ignored", "failed", "refused", "both", "unexpected"],
)
def test_event_is_one_line_with_the_part_of_each_plugin(
    log: Log, steps: list[Step], options: dict[str, Any], line: str
) -> None:
    log.set_up()
    event(*steps, **options)
    stamp, _, text = log.text.rstrip("\n").partition(" ")
    assert re.fullmatch(STAMP, stamp)
    assert text == line.format("container=default/web/app id=1f92344f3c93 ms=98.7")
    event(step(), name="default/web", about=request(sandbox=True))
    assert log.lines[1].partition(" ")[2] == (
        'info answered state=create pod=default/web id=1f92344f3c93 ms=98.7 plugins="konfine ok 12.3ms"'
    )


def test_an_event_without_plugins_is_a_line_at_debug_only(log: Log) -> None:
    log.set_up()
    event()
    assert log.text == ""
    log.set_up(log_level="debug")
    event()
    assert [line.partition(" ")[2] for line in log.lines] == [
        "debug event state=create container=default/web/app id=1f92344f3c93 chain=none ms_left=2000",
        "debug answered state=create container=default/web/app id=1f92344f3c93 ms=98.7",
    ]


EVIL = [
    "a\r\n2026-01-01T00:00:00.000Z info ok",
    "\x1b[2J\x1b]0;title\x07\x00",
    "\x85\u2028\u2029\udc80",
    'x" level="error',
    "x plugin=other error=none",
    "",
    "=",
]


@pytest.mark.parametrize("evil", EVIL, ids=ascii)
def test_no_text_leaves_its_field(log: Log, evil: str) -> None:
    log.set_up()
    event(step(metadata={evil: "1", "k": evil}), name=f"default/{evil}/app")
    about = request(sandbox=True, id=f"{evil}-id")
    event(step(error=f"x{evil}"), name="default/web", about=about, error=evil or "e")
    says(evil, f"default/{evil}/app")
    lines = log.text.split("\n")
    assert lines.pop() == ""
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)
    ok, failed, said = map(fields, lines)
    assert [key for key, _ in ok[:5]] == ["state", "container", "id", "ms", "plugins"]
    assert [key.partition(".")[0] for key, _ in ok[5:]] == ["konfine", "konfine"]
    assert [key for key, _ in failed] == ["state", "pod", "id", "ms", "plugins", "error"]
    assert [key for key, _ in said] == ["state", "container", "id", "plugin", "line"]
    assert said[3] == ("plugin", "konfine")
    assert ok[4] == ("plugins", "konfine ok 12.3ms")


OWN = ["time", "level", "message", "state", "pod", "container", "id", "plugin", "plugins", "ms"]
OWN += ["error", "traceback", "metadata"]


def test_metadata_replace_none_of_the_bridges_own_keys(log: Log) -> None:
    log.set_up()
    event(step(metadata=dict.fromkeys(OWN, "forged")))
    assert [key for key, value in fields(log.lines[0]) if value == "forged"] == [
        f"konfine.{key}" for key in OWN
    ]


def test_long_texts_of_plugins_become_a_short_line(log: Log) -> None:
    log.set_up()
    huge = "\x01" * 30_000
    event(step(metadata={huge: huge, "a": huge}))
    event(*[step(metadata=dict.fromkeys(map(str, range(1000)), huge)) for _ in range(10)])
    event(step(error=huge), error=huge)
    event(*[step(error=huge) for _ in range(10)], error=huge)
    event(error=huge)
    says(huge)
    assert len(log.lines) == 6
    assert max(map(len, log.lines)) < 100_000
    assert "(120000 characters)" in log.lines[2]  # each as \\x01


# What plugins write to stderr: so many lines of each in a minute, and the number of the others


class Clock:
    def __init__(self) -> None:
        self.now = 1.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


@pytest.fixture
def events(clock: Clock, log: Log) -> EventLog:
    log.set_up()
    return EventLog()


def run(events: EventLog, lines: int, plugin: str = "konfine") -> None:
    """An event whose plugin writes so many lines and fails."""
    made = Run(Client(ConfigList()), request(), CONTAINER)
    made.said += [(plugin, f"line {number}") for number in range(lines)]
    events.step(made, step(plugin=plugin, error="no"))
    made.error = "no"
    events.end(made)


def said(log: Log) -> list[Any]:
    """The number of lines of plugins, then what was left out."""
    left_out = [dict(fields(line)) for line in log.lines if " left out " in line]
    return [
        log.text.count(" says "),
        *[(pairs["plugin"], int(pairs["lines"])) for pairs in left_out],
    ]


def test_lines_beyond_the_limit_a_minute_are_counted(
    events: EventLog, log: Log, clock: Clock
) -> None:
    for _ in range(5):
        run(events, LINES // 2)
    assert said(log) == [LINES]
    clock.now += INTERVAL
    run(events, 1)
    assert said(log) == [LINES + 1, ("konfine", 3 * (LINES // 2))]
    assert log.text.count(" failed ") == 6


def test_lines_left_out_are_reported_without_another_line(
    events: EventLog, log: Log, clock: Clock
) -> None:
    run(events, LINES + 2)
    run(events, LINES, plugin="clearcfs")  # each has its own, and this one has no more
    events.report()
    assert said(log) == [2 * LINES]
    clock.now += INTERVAL
    events.report()
    assert said(log) == [2 * LINES, ("konfine", 2)]
    run(events, LINES + 1)
    events.report(0.0)
    assert said(log) == [3 * LINES, ("konfine", 2), ("konfine", 1)]
