"""The faults in a value and the JSON Schema of a rule of ``nri.types.table``."""

from __future__ import annotations

from itertools import islice

from nri.types import DecodeError
from nri.types.gojson import describe, shorten
from nri.types.table import NOTE_PREFIX, Map, Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from nri.types.table import Rule

    Schema = dict[str, Any]
    Path = tuple[str | int, ...]
    Faults = Iterator[tuple[Path, str, bool]]

_NOTES = {f"^{NOTE_PREFIX}": {"title": "The operator's own notes; no program reads them"}}

_SAYS_NOTHING = {
    "minLength": 0,
    "minItems": 0,
    "minProperties": 0,
    "uniqueItems": False,
    "required": [],
}
"""Values of keywords that are those of a missing keyword; of any keyword, None is."""


def refusal(rule: Rule, value: object, where: str, limit: int) -> DecodeError:
    """Return the error for a value that *rule* does not accept: its first faults."""
    listed = []
    for path, wrong, _ in islice(faults(rule, value), limit):
        listed.append(f"{where}{path_text(path, '.')}: {wrong}")

    return DecodeError("; ".join(listed))


def why(rule: Rule, value: object) -> str:
    """Return the fault in *value*, which is not accepted, as a whole, with the right values."""
    if rule.is_of_kind(value):
        said = rule.explain(value)
        if said:
            return said
    expected = rule.expected
    near = nearest(value, filter(_is_text, rule.keywords.get("enum", ())))
    if near:
        expected += f"; did you mean {near}?"
    return f"found {describe(value)}, expected {expected}"


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def faults(rule: Rule, value: object, path: Path = ()) -> Faults:
    """Yield each fault in *value*: its path, a description, and whether the key is wrong, not its value.

    :param path: of *value*.
    """
    if rule.accepts(value):
        return
    rule = _meant(rule, value)
    if isinstance(value, dict) and isinstance(rule, Table | Map):
        yield from _faults_of_object(rule, value, path)
    elif isinstance(value, list) and rule.kind is list:
        yield from _faults_of_items(rule, value, path)
    else:
        yield path, why(rule, value), False


def _meant(rule: Rule, value: object) -> Rule:
    """Return the alternative of a rule that a value was meant for; the rule itself where there is none."""
    if rule.kind is object:
        for part in rule.parts:
            if part.is_of_kind(value):
                return part
    return rule


def _faults_of_object(rule: Table | Map, value: dict[str, Any], path: Path) -> Faults:
    if len(value) < rule.least:
        yield path, f"found {len(value)} keys, expected at least {rule.least}", False
    elif isinstance(rule, Table):
        yield from _faults_of_keys(rule, value, path)
    else:
        yield from _faults_of_names(rule, value, path)


def path_text(path: Iterable[str | int], root: str = "") -> str:
    """Return the keys and indices of a path as one text, such as ``plugins[0].type``.

    :param root: "." for a path below a name that stands before it.
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.replace("-", "_").replace("$", "_").isidentifier() and len(part) <= 60:
            text += f".{part}"
        else:
            text += f"[{shorten(repr(part))}]"
    return text if root else text.removeprefix(".")


def nearest(word: object, candidates: Iterable[str]) -> str | None:
    """Return the candidate that *word* probably misspells, or None."""
    if not isinstance(word, str) or len(word) > 100:
        return None
    folded = {candidate.lower(): candidate for candidate in candidates}
    if not folded:
        return None
    import difflib

    for near in difflib.get_close_matches(word.lower().replace("_", ""), folded, n=1, cutoff=0.6):
        return folded[near]
    return None


def schema(rule: Rule) -> Schema:
    """Return the rule as a JSON Schema (2020-12)."""
    keywords = dict(rule.keywords)
    if isinstance(rule, Table):
        keywords |= _schema_of_table(rule)
    elif isinstance(rule, Map):
        keywords |= _schema_of_map(rule)
    elif rule.kind is list:
        keywords["items"] = schema(rule.parts[0])
    elif rule.parts:
        keywords["anyOf"] = [schema(part) for part in rule.parts]
    return _telling(keywords)


def _schema_of_table(table: Table) -> Schema:
    properties = {}
    for name, key in table.keys.items():
        own = key.named | schema(key.rule) | key.named | {"default": key.default}
        properties[name] = _telling(own)
        if name in table.nullable:
            properties[name] = _or_null(properties[name])
    return {
        "type": "object",
        "required": table.required,
        "properties": properties,
        "patternProperties": _NOTES if NOTE_PREFIX in table.others else None,
        "additionalProperties": False,
    }


def _keys(table: Table) -> str:
    if table.keys:
        return f"one of {', '.join(table.keys)}"
    return "none"


def _faults_of_keys(table: Table, value: dict[str, Any], path: Path) -> Faults:
    meant = set()
    for name in value:
        if name in table.keys or name.startswith(table.others):
            continue
        near = nearest(name, table.keys)
        meant.add(near)
        hint = f"did you mean {near}?" if near else f"expected {_keys(table)}"
        yield (*path, name), f"unknown key, {hint}", True
    for name, key in table.keys.items():
        if name in value and not (value[name] is None and name in table.nullable):
            yield from faults(key.rule, value[name], (*path, name))
        elif key.required and name not in meant:
            yield (*path, name), f"missing, expected {key.rule.expected}", False


def _faults_of_names(rule: Map, value: dict[str, Any], path: Path) -> Faults:
    for key, item in value.items():
        if not rule.accepts_key(key):
            yield path, f"found the key {shorten(repr(key))}, expected {rule.names.expected}", False
        elif not rule.accepts_item(key, item):
            if rule.removable and key.startswith("-"):
                wrong = f"found {describe(item)}, expected null: a key that begins with '-' removes"
                yield (*path, key), wrong, False
            else:
                yield from faults(rule.item, item, (*path, key))


def _schema_of_map(rule: Map) -> Schema:
    item = schema(rule.item)
    if not rule.removable:
        return {"type": "object", "propertyNames": schema(rule.names), "additionalProperties": item}
    names = schema(rule.names)
    return {
        "type": "object",
        "propertyNames": {"if": {"pattern": "^-"}, "then": _behind_a_dash(names), "else": names},
        "patternProperties": {"^-": {"type": "null"}},
        "additionalProperties": {"anyOf": [item, {"type": "null"}]},
    }


def _behind_a_dash(names: Schema) -> Schema:
    """Return the schema of strings that are a dash and then what a schema accepts."""
    longer = {key: names[key] + 1 for key in ("minLength", "maxLength") if key in names}
    pattern = names.get("pattern", "^").removeprefix("^")
    return names | longer | {"pattern": f"^-{pattern}"}


def _faults_of_items(rule: Rule, value: list[Any], path: Path) -> Faults:
    least = rule.keywords["minItems"]
    if len(value) < least:
        yield path, f"found {len(value)} items, expected at least {least}", False
        return
    item = rule.parts[0]
    is_unique = rule.keywords["uniqueItems"]
    seen = set()
    for index, element in enumerate(value):
        if not item.accepts(element):
            yield from faults(item, element, (*path, index))
        elif is_unique:
            if element in seen:
                yield (*path, index), f"found {describe(element)} again, expected it once", False
            seen.add(element)


def _or_null(keywords: Schema) -> Schema:
    """Return a schema that accepts null, too."""
    if "type" in keywords:
        return keywords | {"type": [keywords["type"], "null"]}
    if "anyOf" in keywords:
        return keywords | {"anyOf": [*keywords["anyOf"], {"type": "null"}]}
    if "enum" in keywords:
        return keywords | {"enum": [*keywords["enum"], None]}
    return keywords


def _telling(keywords: Schema) -> Schema:
    """Return the keywords of a schema without those that say nothing."""
    return {name: value for name, value in keywords.items() if value != _SAYS_NOTHING.get(name)}
