"""JSON: Python's ``json`` accepts every text that ``nri.types.gojson`` accepts, with the same value except for
repaired text (bytes that are not UTF-8, lone surrogates). ``json`` refuses every text that gojson refuses, except
where gojson's docstring names a difference. A refusal is a short DecodeError. An accepted value can be written, and
both read the same value again.
"""

from __future__ import annotations

import json
import math

from nri.types import DecodeError, gojson

JSON = True
STRICTER = ("which is not JSON", "is out of range", "nested too deep", "too many digits")
"""Words in the refusals that ``json`` does not have."""


def check(data: bytes) -> None:
    """Read the bytes with both."""
    text = data.decode("utf-8", "replace")
    try:
        value = gojson.loads(data)
    except DecodeError as error:
        assert len(str(error)) < 400, "an error carries the document"
        assert (error.line > 0) == (error.column > 0)
        assert any(word in error.reason for word in STRICTER) or _refused_by_json(text), (
            f"refused: {error}"
        )
        return
    assert _same(value, gojson.loads(text)), "bytes and text differ"
    assert _is_clean(value, gojson.MAX_DEPTH)
    if "\\u" not in text:
        assert _same(value, json.loads(text))
    written = gojson.dumps(value)
    assert written.isascii()
    assert _same(gojson.loads(written), value)
    assert _same(json.loads(written), value)


def _refused_by_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return True
    return False


def _same(one: object, other: object) -> bool:
    return one == other and repr(one) == repr(other)  # 1, 1.0 and true are equal, but not the same


def _is_clean(value: object, depth: int) -> bool:
    """Return whether the value has no lone surrogate, no NaN or infinity, and an allowed depth."""
    if isinstance(value, dict):
        return depth > 0 and all(
            _is_clean(key, depth) and _is_clean(item, depth - 1) for key, item in value.items()
        )
    if isinstance(value, list):
        return depth > 0 and all(_is_clean(item, depth - 1) for item in value)
    if isinstance(value, str):
        return not any("\ud800" <= sign <= "\udfff" for sign in value)
    return not isinstance(value, float) or math.isfinite(value)


SEEDS = (
    b'{"a": [1, -2.5e3, true, false, null, "x\\n\\u00e9"], "b": {"c": {}}}',
    b'  ["\\ud83d\\ude00", "\\ud800", "\\udc00\\ud800", "\xc3\xa9", "\xff"]\n',
    b'["\\uD800", "\\uDC00x", {"\\uDfff": "\\uD83D\\uDE00"}]',
    b"[NaN]",
    b"[1e400, -1e400]",
    b"[Infinity, -Infinity]",
    b"1" * 5000,
    b"[" * 256 + b"]" * 256,
    b"[" * 257 + b"]" * 257,
    b'{"a":' * 300 + b"1" + b"}" * 300,
    b'{"a": 1, "a": 2}',
    b"\xef\xbb\xbf{}",
    b"-0",
    b"-0.0",
    b"1E+2",
    b"",
)
WORDS = (
    b"\\u",
    b"\\ud800",
    b"\\udc00",
    b"e+",
    b"null",
    b"true",
    b"NaN",
    b"Infinity",
    b"{",
    b"}",
    b"[",
    b"]",
    b'":',
)
