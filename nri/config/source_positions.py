"""The positions of all values and keys in a JSON text, and the keys that are given twice.

A JSON decoder returns values without their positions, and a person who corrects a file needs the line. This module
reads a text that a decoder has accepted, in one pass and without recursion, and keeps the positions.
"""

from __future__ import annotations

import bisect
import json
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from nri.types import DecodeError, gojson

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TOKEN = re.compile(r'[\[\]{},:]|"[^"\\]*(?:\\.[^"\\]*)*"|[^\s\[\]{},:"]+', re.DOTALL)


class Position(NamedTuple):
    """A position in a text: line and column, both from 1, the column in characters."""

    line: int
    column: int


class Duplicate(NamedTuple):
    """A key that its object has twice."""

    path: tuple[str | int, ...]
    position: Position
    first: Position
    """The position of the key when it was given first."""


_NO_CHILDREN: dict[str | int, _Node] = {}


class _Node:
    """A value: where it and its key begin, and the values in it."""

    __slots__ = ("children", "is_object", "key_at", "name", "parent", "value_at")

    def __init__(self, token: str, value_at: int, parent: _Node | None, name: str | int, key_at: int) -> None:
        self.parent = parent
        self.name = name
        self.key_at = key_at
        """-1 for a value without a key."""
        self.value_at = value_at
        self.is_object = token.startswith("{")
        self.children: dict[str | int, _Node] = {} if token in ("{", "[") else _NO_CHILDREN

    def path(self) -> tuple[str | int, ...]:
        path: list[str | int] = []
        node = self
        while node.parent is not None:
            path.append(node.name)
            node = node.parent
        return tuple(reversed(path))


class SourcePositions:
    """The positions in a JSON text. If a key is given several times, its last position counts, like its last value.

    :param limit: the number of duplicates that are kept.
    """

    def __init__(self, text: str, limit: int = sys.maxsize) -> None:
        self._limit = limit
        self._line_starts = [0, *[match.end() for match in re.finditer("\n", text)]]
        self.duplicates: list[Duplicate] = []
        self._root = self._read(text)

    def value(self, path: Sequence[str | int]) -> Position:
        """Return where the value at *path* begins; if there is none, where the nearest value around it begins."""
        return self._position(self._find(path).value_at)

    def key(self, path: Sequence[str | int]) -> Position:
        """Return where the key of the value at *path* begins; if it has no key, where the value begins."""
        node = self._find(path)
        return self._position(node.key_at if node.key_at >= 0 else node.value_at)

    def _find(self, path: Sequence[str | int]) -> _Node:
        node = self._root
        for part in path:
            inner = node.children.get(part)
            if inner is None:
                break
            node = inner
        return node

    def _position(self, at: int) -> Position:
        line = bisect.bisect_right(self._line_starts, at)
        return Position(line, at - self._line_starts[line - 1] + 1)

    def _read(self, text: str) -> _Node:
        root = _Node("", 0, None, "", -1)
        around: _Node | None = None  # the innermost open object or array
        key: tuple[str, int] | None = None
        for token, at in _tokens(text):
            if around is not None and token in ("]", "}"):
                around = around.parent
            elif around is not None and around.is_object and key is None:
                key = json.loads(token), at
            else:
                node = self._add(around, key, token, at)
                key = None
                if node.parent is None:
                    root = node
                if token in ("[", "{"):
                    around = node
        return root

    def _add(self, around: _Node | None, key: tuple[str, int] | None, token: str, at: int) -> _Node:
        if around is None:
            return _Node(token, at, None, "", -1)
        name, key_at = key if key is not None else (len(around.children), -1)
        node = _Node(token, at, around, name, key_at)
        if name in around.children and len(self.duplicates) < self._limit:
            first = self._position(around.children[name].key_at)
            self.duplicates.append(Duplicate(node.path(), self._position(key_at), first))
        around.children[name] = node
        return node


def refused(text: str) -> Position:
    """Return where the number or the depth is for which :mod:`nri.types.gojson` refused a text without a position."""
    depth = 0
    for token, at in _tokens(text):
        depth += (token in ("[", "{")) - (token in ("]", "}"))
        if depth > gojson.MAX_DEPTH or (token[0] in "-0123456789NI" and not _fits(token)):
            return Position(*gojson.position(text, at))
    return Position(1, 1)


def _fits(number: str) -> bool:
    try:
        gojson.loads(number)
    except DecodeError as error:
        return error.line > 0  # an error of another kind, which has a position
    return True


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    """Yield brackets, braces and values; separators are not needed in a text that is known to be JSON."""
    for match in _TOKEN.finditer(text):
        if match[0] not in (",", ":"):
            yield match[0], match.start()
