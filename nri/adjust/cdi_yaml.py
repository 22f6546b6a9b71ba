"""YAML of CDI specifications as the values of JSON.

A CDI specification has few numbers and flags, and their keys are known. All other plain scalars are strings here, as
they become in Go, which knows the type of each field: ``name: 0`` and ``name: 1:2`` are names. Anchors, aliases, tags
and merge keys, which no specification needs, are refused; so a short file cannot stand for a large value.
"""

from __future__ import annotations

from nri.types import DecodeError
from nri.types.gojson import MAX_DEPTH, shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

NUMBERS = frozenset(("major", "minor", "fileMode", "uid", "gid", "timeout", "additionalGids"))
"""The keys whose values are integers, or arrays of integers."""

FLAGS = frozenset(("enableMonitoring",))
"""The keys whose values are true or false."""

_WORDS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULLS = ("", "~", "null", "Null", "NULL")


def loads(document: bytes) -> object:
    """Return the value of a YAML document: dict, list, str, int, bool or None.

    :raises DecodeError: with the line and column where it is not YAML, or is refused.
    """
    import yaml

    try:
        text = document.decode()
    except UnicodeDecodeError as error:
        raise DecodeError(f"the byte {error.start} is not UTF-8, expected text in UTF-8") from None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Builder().build(yaml.parse(text, loader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "is not YAML"
        raise DecodeError(
            str(reason), line=mark.line + 1 if mark else 0, column=mark.column + 1 if mark else 0
        ) from None


class _Builder:
    """Makes a value of the events of a parser, without recursion."""

    def __init__(self) -> None:
        self.open: list[tuple[dict[str, Any] | list[Any], str]] = []  # each with the key that it is the value of
        self.key: str | None = None  # a key whose value has not come yet
        self.documents = 0
        self.value: object = None

    def build(self, events: Iterator[Any]) -> object:
        """Return the value of the only document."""
        for event in events:
            name = type(event).__name__
            if name == "DocumentStartEvent":
                self.documents += 1
                if self.documents > 1:
                    raise _refusal(event, "found a second document, expected one")
            elif name in ("MappingStartEvent", "SequenceStartEvent"):
                self._start(event, {} if name == "MappingStartEvent" else [])
            elif name in ("MappingEndEvent", "SequenceEndEvent"):
                self.open.pop()
            elif name == "ScalarEvent":
                self._scalar(event)
            elif name == "AliasEvent":
                raise _refusal(event, f"found the alias *{shorten(event.anchor)}, expected the value itself")
        if not self.documents:
            raise DecodeError("the document is empty, expected YAML")
        return self.value

    def _start(self, event: Any, container: dict[str, Any] | list[Any]) -> None:
        _refuse_extras(event)
        if len(self.open) == MAX_DEPTH:
            raise _refusal(event, f"nested too deep; expected at most {MAX_DEPTH} levels")
        if self._awaits_key():
            raise _refusal(event, "found a collection as a key, expected a string")
        key = self.key or (self.open[-1][1] if self.open else "")
        self._put(container)
        self.open.append((container, key))

    def _scalar(self, event: Any) -> None:
        _refuse_extras(event)
        text = str(event.value)
        if self._awaits_key():
            if text in self.open[-1][0]:
                raise _refusal(event, f"found the key {shorten(repr(text))} again, expected it once")
            self.key = text
            return
        of = self.key or (self.open[-1][1] if self.open else "")
        self._put(_plain(text, of) if event.implicit[0] else text)

    def _awaits_key(self) -> bool:
        return bool(self.open) and isinstance(self.open[-1][0], dict) and self.key is None

    def _put(self, value: object) -> None:
        if not self.open:
            self.value = value
            return
        container = self.open[-1][0]
        if isinstance(container, list):
            container.append(value)
        elif self.key is not None:
            container[self.key] = value
            self.key = None


def _refuse_extras(event: Any) -> None:
    if event.anchor is not None:
        raise _refusal(event, f"found the anchor &{shorten(event.anchor)}, expected a value without one")
    if event.tag is not None and event.tag != "!":
        raise _refusal(event, f"found the tag {shorten(repr(event.tag))}, expected a value without one")


def _plain(text: str, key: str) -> object:
    """Return the value of a scalar without quotes."""
    if text in _NULLS:
        return None
    if key in FLAGS:
        return _WORDS.get(text, text)
    return _integer(text) if key in NUMBERS else text


def _integer(text: str) -> object:
    """Return the integer that a text stands for; the text itself if it is none."""
    digits = text.removeprefix("-")
    is_octal = digits.startswith("0") and digits.isdecimal() and len(digits) > 1
    try:
        return int(text, 8 if is_octal else 0)
    except ValueError:
        return text


def _refusal(event: Any, reason: str) -> DecodeError:
    mark = event.start_mark
    return DecodeError(reason, line=mark.line + 1, column=mark.column + 1)
