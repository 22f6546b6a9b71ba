"""Lines of stderr, however they are cut."""

import pytest

from nri.process.conversation import MAX_LINE, Lines, readable
from tests.support.cutting import every_way

TOO_LONG = "(the rest of its stderr is too long, and is left out)"


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
        lines = Lines(found.append, 10_000)
        for part in parts:
            lines.feed(part)
        lines.finish()
        assert (found, lines.tail()) == (logged, tail)


def test_long_line_is_cut() -> None:
    found: list[str] = []
    lines = Lines(found.append, 1_000_000)
    for part in (b"x" * 300_000, b"y\nnext\n", b"z" * MAX_LINE + b"end"):
        lines.feed(part)
    lines.finish()
    assert found == ["x" * MAX_LINE, "next", "z" * MAX_LINE]
    assert lines.tail() == "z" * (MAX_LINE - 3) + "end"


def test_log_is_limited_in_bytes_plus_64_for_each_line() -> None:
    found: list[str] = []
    lines = Lines(found.append, 100)
    lines.feed(b"x" * 35 + b"\n")
    assert found == ["x" * 35]
    lines.feed(b"begun")
    lines.feed(b"more\n")
    lines.finish()
    assert found == ["x" * 35, TOO_LONG]
    assert lines.tail().endswith("x | begunmore")


def test_text_is_readable_on_a_terminal() -> None:
    assert readable("grün\x07\t\udcff\r".encode("utf-8", "surrogateescape")) == "grün\\x07 \\xff"
    assert readable(b"\x1b[2J\x1b]0;title\x07 \0\x7f") == "\\x1b[2J\\x1b]0;title\\x07 \\x00\\x7f"
    assert readable("\x9b31m \u202e\u2028".encode()) == "\\x9b31m \\u202e\\u2028"
