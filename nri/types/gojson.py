"""JSON as Go's ``encoding/json`` reads and writes it, for programs whose start-up time counts.

``import json`` loads ``re``, which takes a quarter of a plugin's start-up time. The scanner and the encoder are C
functions in ``_json``; this module calls them directly, and falls back to ``json`` if an interpreter lacks them.

Like Go, and unlike ``json.loads``: ``NaN`` and ``Infinity`` are refused; bytes that are not UTF-8 and lone
surrogates become U+FFFD, but for values that are only passed on. Stricter than Go: nesting is limited to
``MAX_DEPTH``, so that every document that was read can be written again at any depth of the caller's stack, and a
number must fit a double.
"""

from __future__ import annotations

import sys

from nri.types import DecodeError, EncodeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    PairsHook = Callable[[list[tuple[str, object]]], object]
    Scanner = Callable[[str, int], tuple[object, int]]

MAX_DEPTH = 256
"""The deepest nesting of objects and arrays that is accepted (Go: 10000; a real request has 5)."""

_WHITESPACE = " \t\n\r"


def _parse_constant(name: str) -> NoReturn:
    raise DecodeError(f"found {name}, which is not JSON; expected a number")


def _parse_float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise DecodeError(
            f"the number {shorten(text)} is out of range; expected one that fits a double"
        )
    return number


class _Context:
    """The attributes of a ``JSONDecoder`` that the scanner reads."""

    strict = True
    object_hook = None
    object_pairs_hook: PairsHook | None = None
    parse_float = staticmethod(_parse_float)
    parse_int = int
    parse_constant = staticmethod(_parse_constant)


def _refuse(value: object) -> NoReturn:
    raise EncodeError(f"cannot write a {type(value).__name__} as JSON: {shorten(repr(value))}")


def _make_codec() -> tuple[Callable[[_Context], Scanner], Callable[[object, bool], str]]:
    try:
        from _json import encode_basestring_ascii, make_encoder, make_scanner

        def encode(value: object, in_order: bool) -> str:
            # A new encoder each time: its first argument holds the containers it is inside of, to find cycles.
            return "".join(
                make_encoder(
                    {}, _refuse, encode_basestring_ascii, None, ":", ",", in_order, False, False
                )(value, 0)
            )

        encode([], False)
        make_scanner(_Context())  # type: ignore[arg-type]
    except (ImportError, TypeError):  # not CPython, or one whose private functions have changed
        import json

        def make_decoder(context: _Context) -> Scanner:
            decoder = json.JSONDecoder(
                parse_float=_parse_float,
                parse_constant=_parse_constant,
                object_pairs_hook=context.object_pairs_hook,
            )
            return decoder.scan_once  # type: ignore[attr-defined, no-any-return]

        def encode_in_python(value: object, in_order: bool) -> str:
            encoder = json.JSONEncoder(
                allow_nan=False, separators=(",", ":"), default=_refuse, sort_keys=in_order
            )
            return encoder.encode(value)

        return make_decoder, encode_in_python
    return make_scanner, encode  # type: ignore[return-value]


_make_scanner, _encode = _make_codec()
_scan = _make_scanner(_Context())


def loads(
    document: bytes | bytearray | memoryview | str,
    twice: list[str] | None = None,
    *,
    keeps_lone: bool = False,
) -> object:
    """Return the value of a JSON document: dict, list, str, int, float, bool or None.

    :param twice: gets the keys that an object has twice; without it the last one counts, as for Go.
    :param keeps_lone: keep lone surrogates, as Go passes them on in what it does not decode (``json.RawMessage``).
    :raises DecodeError: with the line and column where the document is not JSON.
    """
    if not isinstance(document, str):
        text = str(document, "utf-8", "replace")
    else:
        text = without_lone(document)
    scan = _scan if twice is None else _scanner_noting(twice)
    value = _scanned(text, scan)
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise _too_deep()
    if not keeps_lone and may_have_lone(text):
        try:
            value = _mend(value)
        except RecursionError:  # the caller is deep in its own stack
            raise _too_deep() from None
    return value


def _scanned(text: str, scan: Scanner) -> object:
    """Return the value of a text.

    :raises DecodeError: it is not JSON.
    """
    try:
        return _whole(text, scan)
    except DecodeError:
        raise
    except StopIteration as stop:
        at = stop.value
        raise _error_at(text, at, f"found {_glimpse(text, at)}, expected a value") from None
    except RecursionError:
        raise _too_deep() from None
    except SystemError:
        # Up to CPython 3.11 the scanner can raise its syntax error only if json.decoder is loaded.
        if "json.decoder" in sys.modules:
            raise
        import json.decoder  # noqa: F401

        return _scanned(text, scan)
    except ValueError as error:
        raise _syntax_error(text, error) from None


def _whole(text: str, scan: Scanner) -> object:
    """Return the value of a text that has one, with white space around it at most.

    :raises DecodeError: it is empty, or goes on. Else what the scanner raises.
    """
    start = len(text) - len(text.lstrip(_WHITESPACE))
    if start == len(text):
        raise DecodeError("the document is empty, expected JSON")
    value, end = scan(text, start)
    rest = text[end:].lstrip(_WHITESPACE)
    if rest:
        at = len(text) - len(rest)
        raise _error_at(
            text, at, f"found {_glimpse(text, at)} after the document, expected its end"
        )
    return value


def _scanner_noting(twice: list[str]) -> Scanner:
    """Return a scanner that notes the keys which an object has twice."""

    def members(pairs: list[tuple[str, object]]) -> dict[str, object]:
        value = dict(pairs)
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                twice.append(key)
            seen.add(key)
        return value

    context = _Context()
    context.object_pairs_hook = members
    return _make_scanner(context)


def may_have_lone(text: str) -> bool:
    """Return False if a JSON document has no escaped surrogate, and so no lone one."""
    return "\\ud" in text or "\\uD" in text


def without_lone(text: str) -> str:
    """Return a text with U+FFFD in place of lone surrogates."""
    return text if text.isascii() else _mend_text(text)


def dumps(value: object, *, in_order: bool = False) -> bytes:
    """Return ``value`` as compact JSON, in ASCII.

    :param in_order: with the keys of each object in their order.
    :raises EncodeError: for a value that JSON does not have.
    """
    try:
        return _encode(value, in_order).encode("ascii")
    except EncodeError:
        raise
    except RecursionError:
        raise EncodeError(
            f"nested too deep to write; expected at most {MAX_DEPTH} levels"
        ) from None
    except (ValueError, TypeError) as error:
        raise EncodeError(f"cannot be written as JSON: {error}") from None


def describe(value: object) -> str:
    """Return the JSON type of ``value`` for an error message, with the value itself, shortened, if it is a scalar."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "the boolean true" if value else "the boolean false"
    if isinstance(value, str):
        return f"the string {shorten(repr(value))}"
    if isinstance(value, int | float):
        return f"the number {shorten(_number(value))}"
    if isinstance(value, list | tuple):
        return "an array"
    if isinstance(value, dict):
        return "an object"
    return f"a {type(value).__name__}"


def shorten(text: str, limit: int = 60) -> str:
    """Return ``text``, without its middle if it is longer than ``limit`` characters, for a message."""
    if len(text) <= limit:
        return text
    return f"{text[: limit - 20]}…{text[-16:]} ({len(text)} characters)"


def _number(value: float) -> str:
    try:
        return repr(value)
    except ValueError:  # more digits than the interpreter's limit
        return "of thousands of digits"


def _too_deep() -> DecodeError:
    return DecodeError(
        f"the document is nested too deep; expected at most {MAX_DEPTH} levels of objects and arrays"
    )


def _syntax_error(text: str, error: ValueError) -> DecodeError:
    at = getattr(error, "pos", None)
    if at is None:  # the limit of digits of int()
        return DecodeError("a number has too many digits; expected one that fits 64 bits")
    expected = str(getattr(error, "msg", error))
    return _error_at(text, at, f"{expected[:1].lower()}{expected[1:]}, found {_glimpse(text, at)}")


def _error_at(text: str, at: int, reason: str) -> DecodeError:
    line, column = position(text, at)
    return DecodeError(reason, line=line, column=column)


def position(text: str, at: int) -> tuple[int, int]:
    """Return the line and column of the character ``text[at]``, both from 1, the column in characters."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def _glimpse(text: str, at: int) -> str:
    if at < len(text):
        return shorten(repr(text[at : at + 12]))
    return "the end of the document"


def _depth(value: object) -> int:
    depth = 0
    level = [value]
    while containers := [outer for outer in level if isinstance(outer, dict | list)]:
        level = []
        for outer in containers:
            level += outer.values() if isinstance(outer, dict) else outer
        depth += 1
    return depth


def _mend(value: object) -> object:
    if isinstance(value, str):
        return without_lone(value)
    if isinstance(value, list):
        return [_mend(item) for item in value]
    if isinstance(value, dict):
        return {_mend(key): _mend(item) for key, item in value.items()}
    return value


def _mend_text(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
