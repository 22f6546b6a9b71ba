"""A plugin's stderr: however it is cut into pieces, the log has the same lines. Each line is printable and bounded,
and so are the number of lines and the tail in an error. Up to the limit only the ends of long lines are lost.
"""

from __future__ import annotations

from unittest import mock

from fuzz.cutting import ways
from nri.process import conversation
from nri.process.conversation import Lines, readable

LONGEST = 40
"""The maximum size of a line in bytes while this runs."""

ENOUGH = 1 << 20
SCARCE = 300


def check(data: bytes) -> None:
    """Read the bytes after the first, cut in several ways."""
    with mock.patch.object(conversation, "MAX_LINE", LONGEST):
        stream, cuts = ways(data)
        *whole, rest = stream.split(b"\n")
        expected = [readable(line[:LONGEST]) for line in [*whole, *([rest] if rest else [])]]
        for pieces in cuts:
            assert _take(pieces, ENOUGH) == (
                expected,
                readable(stream[-LONGEST:].strip().replace(b"\n", b" | ")),
            )
            few, tail = _take(pieces, SCARCE)
            # One piece may have any number of lines: the first ones are kept, and the rest is reported.
            assert few == expected or few[-1].startswith("(the rest of its stderr is too long")
            assert few == expected or few[:-1] == expected[: len(few) - 1]
            assert all(line.isprintable() and len(line) <= 10 * LONGEST for line in [*few, tail])


def _take(pieces: list[bytes], limit: int) -> tuple[list[str], str]:
    lines: list[str] = []
    taker = Lines(lines.append, limit)
    for piece in pieces:
        taker.feed(piece)
    taker.finish()
    return lines, taker.tail()


SEEDS = (
    b"\x00one\ntwo\n",
    b"\x35no newline",
    b"\x11" + b"x" * 100 + b"\nafter\n",
    b"\x12\x1b[2J\x00\xff\xc3\xa9\r\n\ttab\n\n\n",
    b"\x7f" + b"line\n" * 30,
    b"",
)
