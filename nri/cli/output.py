"""Prints the commands' output: tables for people, JSON for programs. Text of plugins is escaped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import click

from nri.errors import escape


def print_json(value: object) -> None:
    """Print ``value`` as indented JSON."""
    click.echo(json.dumps(value, indent=2))


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print aligned columns; print nothing if there are no rows."""
    lines = [[escape(cell) for cell in row] for row in rows]
    if not lines:
        return
    widths = [max(len(line[column]) for line in [list(header), *lines]) for column in range(len(header))]
    for number, line in enumerate([list(header), *lines]):
        text = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        click.secho(text, bold=number == 0)
