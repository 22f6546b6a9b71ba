"""The faults of a configuration file that is not valid, each with its place.

The search ends at a limit.
"""

from __future__ import annotations

import bisect
import codecs
import itertools
import json
import re
from typing import TYPE_CHECKING, NamedTuple

from nri.config.entries import HOST_CONFIG
from nri.config.faults import DOCUMENT, MAX_FAULTS, Fault
from nri.types import DecodeError, gojson
from nri.types.table import NOTE_PREFIX
from nri.types.table_explained import faults as faults_of
from nri.types.table_explained import path_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    Path = tuple[str | int, ...]
    Position = tuple[int, int]  # line and column, both from 1, the column in characters


def diagnose(file: str, document: bytes, limit: int = MAX_FAULTS) -> tuple[Fault, ...]:
    """Return the faults of a configuration file that is not valid, from its top: at least one, at most *limit*.

    If the file is not UTF-8 or not JSON, that is its last fault: any other would be a guess.
    """
    faults: list[Fault] = []
    if document.startswith(codecs.BOM_UTF8):
        document = document.removeprefix(codecs.BOM_UTF8)
        message = (
            "found a byte order mark (U+FEFF) at the start of the file, expected UTF-8 without one"
        )
        faults.append(Fault(file=file, message=message))
    try:
        text = document.decode()
        value = gojson.loads(text)
    except UnicodeDecodeError as error:
        before = document[: error.start].decode()
        line, column = gojson.position(before, len(before))
        message = (
            f"found the byte 0x{document[error.start]:02x}, which is not UTF-8, expected a file "
            "in UTF-8"
        )
        return (*faults, Fault(file=file, line=line, column=column, message=message))
    except DecodeError as error:
        return (*faults, _not_json(file, text, error))
    positions = SourcePositions(text)
    for path, (line, column), first in positions.duplicates[:limit]:
        at = "line {} column {}".format(*first)
        message = f"the key is given again, expected it once; it was given first at {at}"
        faults.append(
            Fault(file=file, line=line, column=column, path=path_text(path), message=message)
        )
    findings = itertools.islice(faults_of(HOST_CONFIG, value), limit)
    for path, wrong, at_key in findings:
        faults.append(positions.fault(file, path, wrong, at_key))
    return tuple(sorted(faults, key=lambda fault: (fault.line, fault.column))[:limit])


def _not_json(file: str, text: str, error: DecodeError) -> Fault:
    if not text.strip(" \t\r\n"):
        minimal = '{"version": "0.1", "plugins": [{"type": "NAME"}]}'
        return Fault(file=file, message=f"found an empty file, expected at least {minimal}")
    line, column = (error.line, error.column) if error.line else _refused(text)
    return Fault(
        file=file, line=line, column=column, message=error.reason + _hint(text, line, column)
    )


def _hint(text: str, line: int, column: int) -> str:
    """Return a hint on a syntax error, if the text at its place is valid in other formats."""
    lines = text.split("\n")
    before = lines[line - 1][: column - 1]
    after = lines[line - 1][column - 1 :]
    if after.startswith(("//", "/*", "#")):
        return f'; JSON has no comments, notes go under a key that begins with "{NOTE_PREFIX}"'
    if after.startswith("'"):
        return '; JSON has strings in "double quotes" only'
    so_far = "\n".join([*lines[: line - 1], before]).rstrip()
    if after.startswith(("}", "]")) and so_far.endswith(","):
        return "; JSON has no comma after the last item"
    return ""


# The positions of all values and keys in a JSON text, and the keys that are given twice. A decoder returns values
# without them; this reads a text that a decoder has accepted, in one pass and without recursion.

_TOKEN = re.compile(r'[\[\]{}]|"[^"\\]*(?:\\.[^"\\]*)*"|[^\s\[\]{},:"]+', re.DOTALL)
"""Brackets, braces and values; separators are not needed in a text that is known to be JSON."""


class _Node(NamedTuple):
    """A value: where it and its key, if it has one, begin, and the values in it."""

    value_at: int
    key_at: int
    is_object: bool
    children: dict[str | int, _Node]


class SourcePositions:
    """The positions in a JSON text. If a key is given several times, its last position counts, like its last value.

    :param text: if it is empty, all positions are those of its start.
    """

    def __init__(self, text: str) -> None:
        self._line_starts = [0, *[match.end() for match in re.finditer("\n", text)]]
        self._around = _Node(0, 0, False, {})  # an array whose only item is the document
        self.duplicates: list[tuple[Path, Position, Position]] = []
        """The keys that their object has again: the path, the position, and the position when it was given first."""
        self._read(text)

    def value(self, path: Path) -> Position:
        """Return the position of the value at *path*, or of the nearest value around it if it does not exist."""
        return self._position(self._find(path).value_at)

    def key(self, path: Path) -> Position:
        """Return the position of the key of the value at *path*; for a value without a key, the value's position."""
        return self._position(self._find(path).key_at)

    def fault(self, file: str, path: Path, message: str, at_key: bool = False) -> Fault:
        """Return a fault of the value at *path*, or of its key."""
        line, column = self.key(path) if at_key else self.value(path)
        return Fault(
            file=file, line=line, column=column, path=path_text(path) or DOCUMENT, message=message
        )

    def _find(self, path: Path) -> _Node:
        node = self._around
        for part in (0, *path):
            if part not in node.children:
                break
            node = node.children[part]
        return node

    def _position(self, at: int) -> Position:
        line = bisect.bisect_right(self._line_starts, at)
        return line, at - self._line_starts[line - 1] + 1

    def _read(self, text: str) -> None:
        opened = [self._around]
        path: list[str | int] = []
        key = ""
        key_at = -1
        for token, at in _tokens(text):
            around = opened[-1]
            if token in ("]", "}"):
                opened.pop()
                path.pop()
            elif around.is_object and key_at < 0:
                key = json.loads(token)
                key_at = at
            else:
                name: str | int = key
                if not around.is_object:
                    name = len(around.children)
                    key_at = at
                is_open = token in ("[", "{")
                node = _Node(at, key_at, token.startswith("{"), {})
                if name in around.children:
                    first = self._position(around.children[name].key_at)
                    self.duplicates.append(((*path[1:], name), self._position(key_at), first))
                around.children[name] = node
                key_at = -1
                if is_open:
                    opened.append(node)
                    path.append(name)


def _refused(text: str) -> Position:
    """Return the position of the number or nesting that ``nri.types.gojson`` refused without a position."""
    depth = 0
    for token, at in _tokens(text):
        depth += (token in ("[", "{")) - (token in ("]", "}"))
        is_refused = token[0] in "-0123456789NI" and not _fits(token)
        if is_refused or depth > gojson.MAX_DEPTH:
            return gojson.position(text, at)
    return 1, 1


def _fits(number: str) -> bool:
    try:
        gojson.loads(number)
    except DecodeError as error:
        return error.line > 0  # an error of another kind, which has a position
    return True


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    return ((match[0], match.start()) for match in _TOKEN.finditer(text))
