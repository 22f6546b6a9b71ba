"""Puts several documents of changes together: a later one wins, entry by entry."""

from __future__ import annotations

from nri.adjust.claims import is_removal, name_of
from nri.adjust.fields import ADDED, LIST, MAP, REMOVAL, put, walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.adjust.fields import AdjustField


def merge(target: dict[str, Any], document: dict[str, Any]) -> None:
    """Add *document* to *target*, both an ``adjust`` or ``{"linux": {"resources": …}}``.

    Removals stay: the runtime has to know them.
    """
    before = {field.name: value for field, value in walk(target)}
    for field, value in walk(document):
        if field.kind == REMOVAL:
            if value:  # FIELDS has it before the other fields of its object
                _remove_object(target, field)
        elif field.name == "args" and value == [""]:
            target.pop("args", None)
        else:
            put(target, field, _together(field, before.get(field.name), value))


def _remove_object(target: dict[str, Any], field: AdjustField) -> None:
    *above, name, flag = field.path
    for key in above:
        target = target.setdefault(key, {})
    target[name] = {flag: True}


def _together(field: AdjustField, known: Any, value: Any) -> Any:
    if field.name == "args":
        return value[1:] if value[0] == "" else value
    if known is None:
        return value
    if field.kind == MAP:
        return _merge_map(known, value)
    if field.kind == LIST:
        mentioned = {name_of(item, field) for item in value}
        return [item for item in known if name_of(item, field) not in mentioned] + list(value)
    return [*known, *value] if field.kind == ADDED else value


def _merge_map(known: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    mentioned = {_entry(key, item) for key, item in value.items()}
    return {key: item for key, item in known.items() if _entry(key, item) not in mentioned} | value


def _entry(key: str, item: object) -> str:
    return key.removeprefix("-") if item is None else key


def split(items: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the elements of a list that set something, and those that remove."""
    return [item for item in items if not is_removal(item)], [item for item in items if is_removal(item)]
