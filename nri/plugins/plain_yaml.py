"""YAML of strangers as JSON values: one document, without anchors, aliases, tags and keys that are given twice.

PyYAML turns the text into events, in C where it can; the values are made here. So nothing is ever expanded or
constructed, and nesting has a limit. Scalars mean what they mean to NRI's plugins (Go's YAML 1.1): ``0644`` is octal,
``yes`` is true, dates are strings.
"""

from __future__ import annotations

import re

import yaml

from nri.errors import escape
from nri.types import DecodeError
from nri.types.gojson import shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MAX_DEPTH = 16
"""The deepest nesting of lists and mappings; the documents of plugins have three."""

_MAX_NUMBER = 40  # characters of a number; 64 bits in binary have no use here

_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(
        ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True
    ),
    **dict.fromkeys(
        ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False
    ),
}
_INTEGER = re.compile(r"([-+]?)(?:0b([01]+)|0x([0-9a-fA-F]+)|0o?([0-7]+)|(0|[1-9][0-9]*))")
_BASES = {2: 2, 3: 16, 4: 8, 5: 10}  # by the group of _INTEGER
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load(text: str) -> Any:
    """Return the value of the only document of *text*; None if it is empty.

    :raises DecodeError: with line and column, if it is not YAML or has what is not accepted.
    """
    try:
        events = _Events(yaml.parse(text, Loader=LOADER))
        return events.document()
    except yaml.MarkedYAMLError as error:
        problem = shorten(escape(str(error.problem)), 100)
        raise _fault(error.problem_mark, f"is not YAML: {problem}") from None
    except (yaml.YAMLError, UnicodeError) as error:  # a character that YAML does not have
        reason, _, _ = str(error).partition("\n")
        raise DecodeError(f"is not YAML: {shorten(escape(reason), 100)}") from None


class _Events:
    """Makes values of events."""

    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events

    def document(self) -> Any:
        value = None
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _fault(event.start_mark, "found a second document, expected one")
                value = self._value(next(self._events), 0)
        return value

    def _value(self, event: Any, depth: int) -> Any:
        if event.anchor is not None:  # an alias has one, too
            raise _fault(
                event.start_mark, "found an anchor or alias (& or *), expected the value itself"
            )
        if event.tag is not None:
            raise _fault(
                event.start_mark,
                f"found the tag {shorten(repr(event.tag))}, expected a value without a tag",
            )
        if isinstance(event, yaml.ScalarEvent):
            if event.implicit[0]:
                return _resolve(event.value)
            return event.value
        if depth == MAX_DEPTH:
            raise _fault(event.start_mark, f"nested too deep; expected at most {MAX_DEPTH} levels")
        if isinstance(event, yaml.SequenceStartEvent):
            return [self._value(item, depth + 1) for item in self._until(yaml.SequenceEndEvent)]
        mapping: dict[str, Any] = {}
        for key in self._until(yaml.MappingEndEvent):
            self._value(key, depth + 1)  # has neither an anchor nor a tag
            if not isinstance(key, yaml.ScalarEvent):
                raise _fault(key.start_mark, "found a list or mapping as a key, expected a word")
            if key.value in mapping:
                raise _fault(
                    key.start_mark,
                    f"found the key {shorten(repr(key.value))} again, expected it once",
                )
            mapping[key.value] = self._value(next(self._events), depth + 1)
        return mapping

    def _until(self, end: type) -> Iterator[Any]:
        for event in self._events:
            if isinstance(event, end):
                return
            yield event


def _resolve(text: str) -> Any:
    """Return the value of a plain scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > _MAX_NUMBER:
        return text
    digits = text.replace("_", "")
    if match := _INTEGER.fullmatch(digits):
        group: Any = match.lastindex  # the alternative that has matched
        return int(match[1] + match[group], _BASES[group])
    if _FLOAT.fullmatch(digits):
        number = float(digits)
    else:
        number = float("inf")
    return text if abs(number) == float("inf") else number


def _fault(mark: Any, reason: str) -> DecodeError:
    return DecodeError(reason, line=mark.line + 1, column=mark.column + 1)
