"""The conf in ``TYPE --help``: a line for each key, made of its JSON Schema."""

from __future__ import annotations

from nri.types import gojson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def lines_of(schema: Any) -> list[str]:
    """Return the lines about the keys that a schema declares; none if it declares none."""
    if not isinstance(schema, dict) or not schema.get("properties"):
        return []
    required = schema.get("required", ())
    lines = ["", "conf:"]
    for key, subschema in schema["properties"].items():
        lines.append(_line(key, subschema, key in required))
    return lines


def _line(key: str, schema: Any, is_required: bool) -> str:
    if not isinstance(schema, dict):
        return f"  {key}"
    said = [*_kind(schema), *_bounds(schema)]
    if is_required:
        said.append("required")
    elif schema.get("default") not in (None, {}):
        said.append(f"default {gojson.dumps(schema['default']).decode()}")
    line = f"  {key}: {schema.get('description', '')}".rstrip(": ")
    return f"{line} ({', '.join(said)})" if said else line


def _kind(schema: dict[str, Any]) -> list[str]:
    kinds: Any = []
    for keyword in ("type", "const", "enum"):
        kinds = schema.get(keyword, kinds)
    if not isinstance(kinds, list):
        kinds = [kinds]
    names = [str(kind) for kind in kinds if kind not in (None, "null")]
    return [" or ".join(names)] if names else []


def _bounds(schema: dict[str, Any]) -> list[str]:
    names = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most"}
    return [f"{words} {schema[name]}" for name, words in names.items() if name in schema]
