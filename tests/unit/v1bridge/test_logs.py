"""The lines of the bridge's log: their fields, and texts that try to forge them."""

from __future__ import annotations

import json
import logging
import re

import pytest

from nri.errors import escape
from nri.v1bridge import logs
from tests.unit.v1bridge.log_lines import CONTAINER, STAMP, Log, request, step


def test_a_line_has_state_container_plugin_time_and_outcome(log: Log) -> None:
    log.set_up()
    logs.step_line(CONTAINER, request(), step(metadata={"cpus": "1-3", "note": "a b"}))
    logs.step_line(CONTAINER, request("delete"), step(error="no CPU is left"))
    logs.step_line("default/web", request(sandbox=True), step())
    ok, failed, pod = [line.partition(" ") for line in log.lines]
    assert all(re.fullmatch(STAMP, stamp) for stamp, _, _ in (ok, failed, pod))
    assert ok[2] == (
        "info ok state=create container=default/web/app id=1f92344f3c93 plugin=konfine ms=12.3 "
        'metadata.cpus=1-3 metadata.note="a b"'
    )
    assert failed[2] == (
        "error failed state=delete container=default/web/app id=1f92344f3c93 plugin=konfine ms=12.3 "
        'error="no CPU is left"'
    )
    assert pod[2] == "info ok state=create pod=default/web id=1f92344f3c93 plugin=konfine ms=12.3"


def test_in_json_a_line_is_an_object(log: Log) -> None:
    log.set_up(log_format="json")
    logs.step_line(CONTAINER, request(), step(metadata={"cpus": "1-3"}))
    logs.step_line("default/web", request("delete", sandbox=True), step(error="no"))
    logs.plugin_line(CONTAINER, request(), "konfine", "cpuset is busy")
    ok, failed, says = log.objects
    assert all(re.fullmatch(STAMP, value.pop("time")) for value in (ok, failed, says))
    assert ok == {
        "level": "info",
        "message": "ok",
        "state": "create",
        "container": CONTAINER,
        "id": "1f92344f3c93",
        "plugin": "konfine",
        "ms": 12.3,
        "metadata": {"cpus": "1-3"},
    }
    assert (failed["level"], failed["message"], failed["pod"], failed["error"]) == (
        "error",
        "failed",
        "default/web",
        "no",
    )
    assert (says["level"], says["message"], says["plugin"], says["line"]) == (
        "warning",
        "says",
        "konfine",
        "cpuset is busy",
    )


def test_a_plugins_line_differs_from_the_bridges_own(log: Log) -> None:
    log.set_up()
    logs.plugin_line(CONTAINER, request(), "konfine", "ok state=create container=other/web/app plugin=clearcfs")
    (line,) = log.lines
    assert line.partition(" ")[2] == (
        "warning says state=create container=default/web/app plugin=konfine "
        'line="ok state=create container=other/web/app plugin=clearcfs"'
    )


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("debug", ["d", "i", "w", "e"]),
        ("info", ["i", "w", "e"]),
        ("warning", ["w", "e"]),
        ("error", ["e"]),
    ],
)
def test_lines_below_the_level_are_left_out(log: Log, level: str, expected: list[str]) -> None:
    log.set_up(log_level=level)
    logger = logging.getLogger("nri.stub")
    for text, each in (("d", 10), ("i", 20), ("w", 30), ("e", 40)):
        logger.log(each, text)
    assert [line.split()[-1] for line in log.lines] == expected


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_traceback_stays_in_its_line(log: Log, log_format: str) -> None:
    log.set_up(log_format=log_format)
    try:
        raise ValueError("a\nb")
    except ValueError:
        logging.getLogger("nri.ttrpc").exception("it failed")
    (line,) = log.lines
    assert "it failed" in line
    assert "ValueError" in line


EVIL = [
    "a\nb",
    "a\r\n2026-01-01T00:00:00.000Z info ok",
    "\x1b[2J\x1b]0;title\x07",
    "\x00",
    "\x85\u2028\u2029",
    "\u202eabc",
    "\udc80",
    'x" level="error',
    "x plugin=other error=none",
    "\\n",
    "",
    "=",
    "ü€😀",
]


def fields(line: str) -> list[tuple[str, str]]:
    """A line's fields, as whoever reads the format would: KEY=VALUE, either of them quoted as in JSON."""
    word = r'(?:"(?:[^"\\]|\\.)*"|[^\s"=]+)'
    found = re.findall(rf"(?<= )([\w.]*?{word}|[\w.]+)=({word})(?= |$)", line)
    return [(key, json.loads(value) if value.startswith('"') else value) for key, value in found]


@pytest.mark.parametrize("evil", EVIL, ids=ascii)
def test_no_text_leaves_its_field(log: Log, evil: str) -> None:
    log.set_up()
    logs.step_line(f"default/{evil}/app", request(), step(metadata={evil: "1", "k": evil}))
    logs.step_line("default/web", request(sandbox=True, id=f"{evil}-id"), step(error=f"x{evil}"))
    logs.plugin_line(f"default/{evil}/app", request(), "konfine", evil)
    lines = log.path.read_text("utf-8").split("\n")
    assert lines.pop() == ""
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)
    ok, failed, says = map(fields, lines)
    assert [key for key, _ in ok[:5]] == ["state", "container", "id", "plugin", "ms"]
    assert [key.partition(".")[0] for key, _ in ok[5:]] == ["metadata", "metadata"]
    assert [key for key, _ in failed] == ["state", "pod", "id", "plugin", "ms", "error"]
    assert [key for key, _ in says] == ["state", "container", "plugin", "line"]
    assert ok[3] == failed[3] == says[2] == ("plugin", "konfine")


@pytest.mark.parametrize("evil", EVIL, ids=ascii)
def test_in_json_any_text_is_a_value(log: Log, evil: str) -> None:
    log.set_up(log_format="json")
    logs.step_line(f"default/{evil}", request(), step(metadata={evil: evil}))
    logs.step_line(f"default/{evil}", request(), step(error=f"x{evil}"))
    logs.plugin_line(f"default/{evil}", request(), "konfine", evil)
    ok, failed, says = log.objects
    assert all(line.isascii() for line in log.lines)
    assert ok["container"] == failed["container"] == says["container"] == f"default/{evil}"
    assert (ok["metadata"], failed["error"], says["line"]) == ({evil: evil}, escape(f"x{evil}"), evil)


OWN = [
    "time",
    "level",
    "message",
    "state",
    "pod",
    "container",
    "id",
    "plugin",
    "ms",
    "error",
    "traceback",
    "metadata",
]


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_metadata_replace_none_of_the_bridges_own_keys(log: Log, log_format: str) -> None:
    log.set_up(log_format=log_format)
    logs.step_line(CONTAINER, request(), step(metadata=dict.fromkeys(OWN, "forged")))
    if log_format == "json":
        (value,) = log.objects
        assert value.pop("metadata") == dict.fromkeys(OWN, "forged")
        assert "forged" not in str(value)
        assert "error" not in value
    else:
        assert [key for key, value in fields(log.lines[0]) if value == "forged"] == [f"metadata.{key}" for key in OWN]


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_megabytes_from_a_plugin_become_a_short_line(log: Log, log_format: str) -> None:
    log.set_up(log_format=log_format)
    huge = "\x01" * 1_000_000
    logs.step_line(CONTAINER, request(), step(metadata={huge: huge, "a": huge}))
    logs.step_line(CONTAINER, request(), step(metadata=dict.fromkeys(map(str, range(100_000)), "x")))
    logs.step_line(CONTAINER, request(), step(error=huge))
    logs.plugin_line(CONTAINER, request(), "konfine", huge)
    assert len(log.lines) == 4
    assert max(map(len, log.lines)) < 100_000
    assert "(4000000 characters)" in log.lines[2]  # each as \\x01
