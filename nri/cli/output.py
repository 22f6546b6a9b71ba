"""Prints the commands' output: JSON for programs, tables and lines of 80 columns for people. Text is escaped.

In a pipe no line is wrapped: a program reads a line for each row.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from nri.errors import escape

if TYPE_CHECKING:
    from nri.client import Step


def print_json(value: object) -> None:
    """Print ``value`` as indented JSON."""
    click.echo(json.dumps(value, indent=2))


def show(
    document: dict[str, Any], page: Callable[[dict[str, Any]], list[str]], *, as_json: bool
) -> None:
    """Print a document as JSON, or the lines of its page."""
    if as_json:
        print_json(document)
    else:
        click.echo("\n".join(page(document)))


WIDTH = 80
"""Columns of a page on a terminal."""

LABEL = 15
"""Columns of the words at the left of a page."""

MAX_TEXT = 4096
"""Characters of a text that are printed; a longer one takes textwrap a time that grows with its square."""

_GAP = "  "


def width() -> int:
    """Return the columns of a page: without a terminal, and without $COLUMNS, as many as it takes."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return WIDTH
    return sys.maxsize


def wrapped(text: str, first: str = "", then: str | None = None) -> list[str]:
    """Return ``text`` in lines that begin with ``first``, and after the first with ``then`` (by default as wide)."""
    then = " " * len(first) if then is None else then
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}… ({len(text)} characters)"
    lines = textwrap.wrap(
        escape(text), width(), initial_indent=first, subsequent_indent=then, break_on_hyphens=False
    )
    return lines or [first.rstrip()]


def labelled(label: str, *texts: str, columns: int = LABEL) -> list[str]:
    """Return texts, each in lines of its own, with a label at their left.

    :param columns: columns of the label.
    """
    lines: list[str] = []
    for text in texts:
        lines += wrapped(text, label.ljust(columns))
        label = ""  # beside the first line alone
    return lines


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print aligned columns of texts; print nothing if there are no rows."""
    lines = [header]
    for row in rows:
        lines.append(list(map(escape, row)))
    if len(lines) == 1:
        return
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = map(str.ljust, line, widths)
        click.secho(_GAP.join(cells).rstrip(), bold=line is header)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return aligned columns, numbers to the right. A first cell that is too long has a line of its own."""
    columns = zip(header, *rows, strict=True)
    widths = [max(map(len, column)) for column in columns][1:]
    room = width() - sum(widths) - len(_GAP) * len(widths)
    names = [escape(row[0][:MAX_TEXT]) for row in rows]
    first = max(len(header[0]), 1)
    for name in names:
        if len(name) <= room:
            first = max(first, len(name))
    lines = [_row(header[0].ljust(first), header[1:], widths)]
    for name, row in zip(names, rows, strict=True):
        if len(name) > first:
            lines += wrapped(name, "", _GAP)
            name = ""  # noqa: PLW2901 - it is printed
        lines.append(_row(name.ljust(first), row[1:], widths))
    return lines


def _row(name: str, cells: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join([name, *map(str.rjust, cells, widths)]).rstrip()


def failure(step: Step, reason: str) -> str:
    """Return what an error of a plugin counts as, with its reason, which says whether the plugin was killed."""
    how = {"killed": "error"}.get(step.outcome, step.outcome)
    return f"{how}: {reason}"


def counted(count: int, name: str) -> str:
    """Return a number of things, such as ``1 fault`` or ``2 faults``."""
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def assigned(values: Mapping[str, object]) -> str:
    """Return values as ``key=value key=value``."""
    return " ".join(map("{}={}".format, values.keys(), values.values()))


def number(value: int) -> str:
    """Return a count in at most seven characters."""
    if 0 <= value < 10**7:
        return str(value)
    return f"{min(abs(value), 10**99):.1e}"


def date(seconds: float) -> str:
    """Return a time in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def since(seconds: float, now: float) -> str:
    """Return a time with how long ago it is."""
    return f"{date(seconds)} ({duration(max(0.0, now - seconds))} ago)"


def duration(seconds: float) -> str:
    """Return a duration in its largest unit."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def quantile(histogram: dict[str, Any], share: float) -> str:
    """Return the bound that this share of the values does not exceed, as ``<= 2.5 ms``; ``-`` without values."""
    counts = histogram["counts"]
    bounds = histogram["bounds"]
    every = sum(counts)
    if not every:
        return "-"
    below = 0
    for bound, count in zip(bounds, counts, strict=False):
        below += count
        if below >= share * every:
            return f"<= {_bound(bound)}"
    return f"> {_bound(bounds[-1])}" if bounds else "-"


def _bound(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1000:.3g} ms"
