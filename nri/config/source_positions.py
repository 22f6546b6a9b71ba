"""Where things stand in a JSON text: the position of each value and key, and the keys that are given twice.

A JSON decoder says what a document means and forgets where it stood; a person who is to mend a file wants the line.
This goes over a text that a decoder has read already, in one pass, without recursion, and keeps the places.
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
    """A place in a text, both from 1, the column in characters."""

    line: int
    column: int


class Duplicate(NamedTuple):
    """A key that its object has already."""

    path: tuple[str | int, ...]
    position: Position
    first: Position
    """Where the key was given the first time."""


_NO_CHILDREN: dict[str | int, _Node] = {}


class _Node:
    """A value: where it and its key begin, and what is in it."""

    __slots__ = ("children", "is_object", "key_at", "name", "parent", "value_at")

    def __init__(self, token: str, value_at: int, parent: _Node | None, name: str | int, key_at: int) -> None:
        self.parent = parent
        self.name = name
        self.key_at = key_at
        """-1 where it has none."""
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
    """The places in a text that is JSON. Of a key that is given several times the last counts, as in its value.

    :param limit: duplicates that are kept, at most.
    """

    def __init__(self, text: str, limit: int = sys.maxsize) -> None:
        self._limit = limit
        self._line_starts = [0, *[match.end() for match in re.finditer("\n", text)]]
        self.duplicates: list[Duplicate] = []
        self._root = self._read(text)

    def value(self, path: Sequence[str | int]) -> Position:
        """Where the value at ``path`` begins; of the nearest value around it where there is none."""
        return self._position(self._find(path).value_at)

    def key(self, path: Sequence[str | int]) -> Position:
        """Where the key of the value at ``path`` begins; the value itself where it has none."""
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
        around: _Node | None = None  # the object or array that is open
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
    """Where the number or the depth is for which :mod:`nri.types.gojson` refused a text without saying where."""
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
        return error.line > 0  # an error of another kind, which says where it is
    return True


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    """Brackets, braces, and values; separators tell nothing about a text that is known to be JSON."""
    for match in _TOKEN.finditer(text):
        if match[0] not in (",", ":"):
            yield match[0], match.start()
