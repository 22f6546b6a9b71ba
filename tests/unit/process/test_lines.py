"""Lines of stderr, however they are cut."""

from __future__ import annotations

import pytest

from nri.process.lines import MAX_LINE, Lines, readable
from tests.support.cutting import every_way


@pytest.mark.parametrize(
    ("data", "logged", "tail"),
    [
        (b"", [], ""),
        (b"one\ntwo\n", ["one", "two"], "one | two"),
        (b"one\n\ntwo", ["one", "", "two"], "one |  | two"),
        (b"a\r\nb\tc\n", ["a", "b c"], "a\\r | b c"),
        (b"\xff\x1b[2J", ["\\xff\\x1b[2J"], "\\xff\\x1b[2J"),
    ],
)
def test_lines_are_logged_however_they_are_cut(data: bytes, logged: list[str], tail: str) -> None:
    for parts in every_way(data):
        found: list[str] = []
        lines = Lines(10_000, found.append)
        for part in parts:
            lines.feed(part)
        lines.finish()
        assert (found, lines.tail()) == (logged, tail)


def test_a_line_is_logged_when_it_is_complete() -> None:
    found: list[str] = []
    lines = Lines(10_000, found.append)
    lines.feed(b"one\ntw")
    assert found == ["one"]
    lines.feed(b"o\n")
    assert found == ["one", "two"]


def test_what_is_too_long_is_cut() -> None:
    found: list[str] = []
    lines = Lines(100, found.append)
    lines.feed(b"x" * 101)
    lines.feed(b"more\n")
    lines.finish()
    assert found == ["(the rest of its stderr is too long, and is left out)"]
    assert lines.tail().endswith("xmore")


def test_the_tail_is_bounded() -> None:
    lines = Lines(10, lambda _line: None)
    lines.feed(b"x" * MAX_LINE + b"end")
    assert len(lines.tail()) == MAX_LINE


def test_text_is_readable_on_a_terminal() -> None:
    assert readable("grün\x07\t\udcff\r".encode("utf-8", "surrogateescape")) == "grün\\x07 \\xff"
