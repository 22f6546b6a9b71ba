"""The conf in ``TYPE --help``: a line for each key, made of its JSON Schema."""

from __future__ import annotations

from nri.types import gojson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def lines_of(schema: Any) -> list[str]:
    """Return the lines about the keys that a schema declares; none if it declares none."""
    if isinstance(schema, dict):
        properties = schema.get("properties")
    else:
        properties = None
    if not isinstance(properties, dict) or not properties:
        return []
    required = schema.get("required") or ()
    return [
        "",
        "conf:",
        *[_line(key, subschema, key in required) for key, subschema in properties.items()],
    ]


def _line(key: str, schema: Any, is_required: bool) -> str:
    if not isinstance(schema, dict):
        return f"  {key}"
    said = [*_kind(schema), *_bounds(schema)]
    if is_required:
        said.append("required")
    elif schema.get("default") not in (None, {}):
        said.append(f"default {gojson.dumps(schema['default']).decode()}")
    description = schema.get("description", "")
    return f"  {key}: {description}".rstrip(": ") + (f" ({', '.join(said)})" if said else "")


def _kind(schema: dict[str, Any]) -> list[str]:
    if "enum" in schema:
        return [" or ".join([str(word) for word in schema["enum"] if word is not None])]
    if "const" in schema:
        return [str(schema["const"])]
    kinds = schema.get("type")
    if isinstance(kinds, str):
        names = [kinds]
    else:
        names = [kind for kind in kinds or () if kind != "null"]
    return [" or ".join(names)] if names else []


def _bounds(schema: dict[str, Any]) -> list[str]:
    names = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most"}
    return [f"{words} {schema[name]}" for name, words in names.items() if name in schema]
