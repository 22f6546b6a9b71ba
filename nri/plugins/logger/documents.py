"""Documents of a log as text: bounded values, in JSON on one line or in YAML.

Most of what is logged was written by a pod. Whatever is in it, a document has a bounded size, and a value cannot look
like the end of its document: strings are quoted as in JSON, in ASCII, in both formats.
"""

from __future__ import annotations

from nri.types import gojson
from nri.types.gojson import shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_STRING, MAX_ITEMS, MAX_DEPTH = 1024, 256, 16
"""Characters of a string, items of an array or object, and levels of a document, at most."""

_LEFT_OUT = "…"
_NOT_STRINGS = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")


def render(document: dict[str, Any], format_: str, limit: int) -> bytes:
    """Return a document as JSON on a line of its own, or as a document of YAML, of about *limit* bytes at most."""
    bounded = _Bounded(limit).value(document, 0)
    if format_ == "yaml":
        return b"---\n" + "".join(_yaml(bounded, "")).encode()
    return _json(bounded) + b"\n"


def _json(value: Any) -> bytes:
    return gojson.dumps(value).replace(b"\x7f", b"\\u007f")


class _Bounded:
    """Copies a value until a number of bytes is used up; what is left out is marked."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    def value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if not isinstance(value, dict | list | tuple):
            self._left -= 20
            return self._text(str(value)) if isinstance(value, int | float) and abs(value) > 2**64 else value
        if depth == MAX_DEPTH or self._left <= 0:
            return _LEFT_OUT
        self._left -= 2
        return self._object(value, depth) if isinstance(value, dict) else self._array(value, depth)

    def _text(self, value: str) -> str:
        if self._left <= 0:
            return _LEFT_OUT
        shown = shorten(value, MAX_STRING)
        size = len(gojson.dumps(shown))
        if size > self._left:
            shown = shorten(shown, max(self._left // 6, 40))
            size = self._left
        self._left -= size + 1
        return shown

    def _object(self, value: dict[str, Any], depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, item in value.items():
            if len(found) == MAX_ITEMS or self._left <= 0:
                found[_LEFT_OUT] = f"{len(value) - len(found)} more"
                break
            found[self._text(_short_key(str(key)))] = self.value(item, depth + 1)
        return found

    def _array(self, value: Any, depth: int) -> list[Any]:
        found: list[Any] = []
        for item in value:
            if len(found) == MAX_ITEMS or self._left <= 0:
                found.append(f"{_LEFT_OUT} {len(value) - len(found)} more")
                break
            found.append(self.value(item, depth + 1))
        return found


def _yaml(value: Any, indent: str) -> list[str]:
    """Return the lines of a value in YAML's block style."""
    lines = []
    entries = value.items() if isinstance(value, dict) else [(None, item) for item in value]
    for key, item in entries:
        head = f"{indent}-" if key is None else f"{indent}{_key(key)}:"
        if isinstance(item, dict | list) and item:
            lines += [f"{head}\n", *_yaml(item, f"{indent}  ")]
        else:
            lines.append(f"{head} {_json(item).decode()}\n")
    return lines


def _short_key(key: str) -> str:
    """Return a key for which readers of YAML need not look further than 1024 bytes; those of Kubernetes are short."""
    return key if len(gojson.dumps(key)) <= MAX_STRING - 8 else shorten(key, 80)


def _key(key: str) -> str:
    """Return a key plain if every reader of YAML takes it for a string, else quoted."""
    is_plain = key.isascii() and key.isalpha() and key.lower() not in _NOT_STRINGS
    return key if is_plain else _json(key).decode()
