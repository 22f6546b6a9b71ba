"""Turns the errors of jsonschema into messages for people, with the value that was found and the expected one.

One mistake is one finding: a misspelt key is not also reported as missing, and a value of the wrong type not also as
a value that is not allowed.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from jsonschema.exceptions import best_match

from nri.config.faults import MAX_FAULTS
from nri.types import gojson
from nri.types.table_explained import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Error = Any  # a jsonschema ValidationError; by its stubs each attribute may be unset
    Path = tuple[str | int, ...]

_TYPES = {
    "array": "an array",
    "boolean": "true or false",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}


class Finding(NamedTuple):
    """A mistake in a value."""

    path: Path
    message: str
    at_key: bool = False
    """True if the key at ``path`` is wrong, not its value."""
    meant: Path | None = None
    """For a key that is probably misspelt: the path with the right key."""


def explain(errors: Iterable[Error], limit: int = MAX_FAULTS) -> list[Finding]:
    """Return the findings for a validator's errors, each once, at most *limit*."""
    looked_at = itertools.islice(errors, 4 * limit)  # one mistake may cause several errors
    found: dict[tuple[Path, str], Finding] = {}
    mistyped: set[Path] = set()
    missing: dict[Path, Finding] = {}
    for error in sorted(looked_at, key=lambda error: error.validator != "type"):
        path = tuple(error.absolute_path)
        if error.validator == "type":
            mistyped.add(path)
        elif path in mistyped:
            continue
        for finding in itertools.islice(_EXPLANATIONS.get(str(error.validator), _other)(error), limit):
            if error.validator == "required":
                missing[finding.path] = finding
            else:
                found[finding.path, finding.message] = finding
    meant = {finding.meant for finding in found.values()}
    return [*found.values(), *(finding for path, finding in missing.items() if path not in meant)][:limit]


def _value(error: Error) -> Iterator[Finding]:
    if error.validator == "pattern":
        yield _found(error, _expectation(error.schema))
    else:
        wanted = error.validator_value
        expected = _types(wanted) if error.validator == "type" else _BOUNDS[error.validator].format(wanted)
        yield _found(error, expected + _titled(error.schema))


def _allowed(error: Error) -> Iterator[Finding]:
    values = error.validator_value if error.validator == "enum" else [error.validator_value]
    near = nearest(error.instance, [value for value in values if isinstance(value, str) and len(values) > 1])
    hint = f"; did you mean {_json(near)}?" if near is not None else ""
    yield _found(error, f"{_one_of(values)}{_titled(error.schema)}{hint}")


def _unknown_keys(error: Error) -> Iterator[Finding]:
    known = list(error.schema.get("properties", {}))
    patterns = list(error.schema.get("patternProperties", {}))
    expected = ", ".join([*known, *map(_matching, patterns)])
    path = tuple(error.absolute_path)
    for key in error.instance:
        if key in known or any(re.search(pattern, key) for pattern in patterns):
            continue
        if (near := nearest(key, known)) is not None:
            yield Finding((*path, key), f"unknown key, did you mean {near}?", True, (*path, near))
        else:
            yield Finding((*path, key), f"unknown key{', expected one of ' if expected else ''}{expected}", True)


def _missing_keys(error: Error) -> Iterator[Finding]:
    properties = error.schema.get("properties", {})
    for key in error.validator_value:
        if key not in error.instance:
            yield Finding((*error.absolute_path, key), f"missing, expected {_expectation(properties.get(key, {}))}")


def _repeated(error: Error) -> Iterator[Finding]:
    for index, item in enumerate(error.instance):
        if item in error.instance[:index]:
            yield Finding((*error.absolute_path, index), f"found {gojson.describe(item)} again, expected it once")


def _length(error: Error) -> Iterator[Finding]:
    unit, limit = _LENGTHS[error.validator]
    message = f"found {len(error.instance)} {unit}, expected {limit} {error.validator_value}{_titled(error.schema)}"
    yield Finding(tuple(error.absolute_path), message)


def _alternatives(error: Error) -> Iterator[Finding]:
    if error.context and all(inner.validator == "type" and not inner.relative_path for inner in error.context):
        yield _found(error, _types(*(inner.validator_value for inner in error.context)) + _titled(error.schema))
    elif (best := best_match([error])) is None or best is error:
        yield from _other(error)
    else:
        yield from _EXPLANATIONS.get(str(best.validator), _other)(best)


def _other(error: Error) -> Iterator[Finding]:
    yield Finding(tuple(error.absolute_path), gojson.shorten(error.message, 300) + _titled(error.schema))


_BOUNDS = {
    "exclusiveMaximum": "a number less than {}",
    "exclusiveMinimum": "a number greater than {}",
    "maximum": "a number that is at most {}",
    "minimum": "a number that is at least {}",
    "multipleOf": "a multiple of {}",
}
_LENGTHS = {
    f"{end}{what}": (unit, limit)
    for end, limit in (("max", "at most"), ("min", "at least"))
    for what, unit in (("Items", "items"), ("Length", "characters"), ("Properties", "keys"))
}
_EXPLANATIONS: dict[str, Callable[[Error], Iterator[Finding]]] = {
    "additionalProperties": _unknown_keys,
    "anyOf": _alternatives,
    "const": _allowed,
    "enum": _allowed,
    "oneOf": _alternatives,
    "pattern": _value,
    "required": _missing_keys,
    "type": _value,
    "uniqueItems": _repeated,
    **dict.fromkeys(_BOUNDS, _value),
    **dict.fromkeys(_LENGTHS, _length),
}


def _found(error: Error, expected: str) -> Finding:
    return Finding(tuple(error.absolute_path), f"found {gojson.describe(error.instance)}, expected {expected}")


def _expectation(schema: Any) -> str:
    """Return a description of the values that a schema allows."""
    if not isinstance(schema, dict):
        return "a value"
    if "const" in schema or "enum" in schema:
        return _one_of([schema["const"]] if "const" in schema else schema["enum"]) + _titled(schema)
    if "pattern" in schema:
        return _title(schema) or f"a string that matches {schema['pattern']}"
    kind = schema.get("type")
    return _TYPES.get(kind if isinstance(kind, str) else "", "a value") + _titled(schema)


def _types(*wanted: str | list[str]) -> str:
    """Return a description of the types that some schemas allow; null is left out where it stands for a default."""
    listed = [name for each in wanted for name in (each if isinstance(each, list) else [each])]
    names = [name for name in listed if name != "null"] or ["null"]
    return " or ".join(dict.fromkeys([_TYPES.get(name, name) for name in names]))


def _one_of(values: list[Any]) -> str:
    return ("one of " if len(values) > 1 else "") + ", ".join(map(_json, values))


def _title(schema: Any) -> str:
    """Return a schema's title as part of a sentence: in lower case, unless it begins with an abbreviation."""
    title = schema.get("title", "") if isinstance(schema, dict) else ""
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


def _titled(schema: Any) -> str:
    return f" ({title})" if (title := _title(schema)) else ""


def _matching(pattern: str) -> str:
    prefix = re.fullmatch(r"\^([\w-]+)", pattern)
    return f"a key that begins with {_json(prefix[1])}" if prefix else f"a key that matches {pattern}"


def _json(value: Any) -> str:
    return gojson.shorten(gojson.dumps(value).decode())
