"""The difference of two OCI configurations in lines for people.

    + mounts[/data]: {"source": "/srv", "type": "bind", "options": ["rbind"]}
    - process.env[DEBUG]: "1"
    ~ process.args: ["sh"] -> ["sh", "-c", "x"]

The elements of some arrays are named by a key of theirs instead of their number; the order of these does not count.
A second element with the same name is shown as ``env[A #2]``.
"""

from __future__ import annotations

import json

from nri.errors import escape
from nri.types.gojson import shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MAX_VALUE = 160
"""Characters of a value that a line shows; the middle of a longer one is left out."""

_ELEMENTS = {
    ("mounts",): "destination",
    ("process", "rlimits"): "type",
    ("linux", "devices"): "path",
    ("linux", "namespaces"): "type",
    ("linux", "resources", "hugepageLimits"): "pageSize",
}
_ENV = ("process", "env")
_MISSING = object()


def diff(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return a line for each place that differs, in the order of the documents; "" if there is none.

    A line begins with ``+`` (new), ``-`` (removed) or ``~`` (changed). It has no control characters.
    """
    return "\n".join(_of_objects((), before, after))


def _of_values(path: tuple[str, ...], before: Any, after: Any) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _of_objects(path, before, after)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _of_arrays(path, before, after)
    elif _MISSING in (before, after) and _is_long(before if after is _MISSING else after):
        value = before if after is _MISSING else after
        nothing: Any = {} if isinstance(value, dict) else []
        yield from _of_values(path, *((nothing, value) if before is _MISSING else (value, nothing)))
    elif type(before) is not type(after) or before != after:
        yield _line(path, before, after)


def _of_objects(path: tuple[str, ...], before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    for key in [*before, *[key for key in after if key not in before]]:
        yield from _of_values((*path, key), before.get(key, _MISSING), after.get(key, _MISSING))


def _of_arrays(path: tuple[str, ...], before: list[Any], after: list[Any]) -> Iterator[str]:
    named = _by_name(path, before), _by_name(path, after)
    if named[0] is not None and named[1] is not None:
        yield from _of_objects(path, named[0], named[1])
        return
    shared = min(len(before), len(after))
    is_same = not any(any(_of_values(path, *pair)) for pair in zip(before, after, strict=False))
    if is_same and all(isinstance(item, dict) for item in [*before, *after]):
        for index in range(shared, max(len(before), len(after))):
            pair = [items[index] if index < len(items) else _MISSING for items in (before, after)]
            yield _line((*path, str(index)), *pair)
    elif not is_same or len(before) != len(after):
        yield _line(path, before, after)


def _by_name(path: tuple[str, ...], items: list[Any]) -> dict[str, Any] | None:
    """Return the elements by their names, without the names; None if they have none."""
    found: dict[str, Any] = {}
    key = _ELEMENTS.get(path, "")
    value: Any
    for item in items:
        if path == _ENV and isinstance(item, str):
            name, _, value = item.partition("=")
        elif key and isinstance(item, dict) and isinstance(item.get(key), str):
            name, value = item[key], {other: each for other, each in item.items() if other != key}
        else:
            return None
        number = 1
        label = name
        while label in found:
            number += 1
            label = f"{name} #{number}"
        found[label] = value
    return found if key or path == _ENV else None


def _is_long(value: Any) -> bool:
    return isinstance(value, dict | list) and bool(value) and len(_text(value)) > MAX_VALUE


def _line(path: tuple[str, ...], before: Any, after: Any) -> str:
    if before is _MISSING:
        return f"+ {_place(path)}: {_shown(after)}"
    if after is _MISSING:
        return f"- {_place(path)}: {_shown(before)}"
    return f"~ {_place(path)}: {_shown(before)} -> {_shown(after)}"


def _place(path: tuple[str, ...]) -> str:
    """Return a path as ``linux.resources``; elements and keys that are no plain words are in brackets."""
    place = ""
    for depth, part in enumerate(path):
        is_element = path[:depth] in _ELEMENTS or path[:depth] == _ENV
        if is_element or not part.isidentifier():
            place += f"[{part}]"
        else:
            place += f".{part}" if place else part
    return escape(place)


def _shown(value: Any) -> str:
    return shorten(escape(_text(value)), MAX_VALUE)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
