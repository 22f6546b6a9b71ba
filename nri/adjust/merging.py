"""Puts several documents of changes together: a later one wins, entry by entry."""

from __future__ import annotations

from nri.adjust.claims import is_removal, name_of
from nri.adjust.fields import ADDED, LIST, MAP, put, walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.adjust.fields import AdjustField


def merge(target: dict[str, Any], document: dict[str, Any]) -> None:
    """Add *document* to *target*, both an ``adjust`` or ``{"linux": {"resources": …}}``.

    Removals stay: the runtime has to know them.
    """
    rdt = document.get("linux", {}).get("intelRdt", {})
    if rdt.get("remove"):
        target.setdefault("linux", {})["intelRdt"] = {"remove": True}
    before = {field.name: value for field, value in walk(target)}
    for field, value in walk(document):
        if field.name == "args" and value == [""]:
            target.pop("args", None)
        else:
            put(target, field, _together(field, before.get(field.name), value))


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
    mentioned = {key.removeprefix("-") for key in value}
    return {key: item for key, item in known.items() if key.removeprefix("-") not in mentioned} | value


def split(items: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the elements of a list that set something, and those that remove."""
    return [item for item in items if not is_removal(item)], [item for item in items if is_removal(item)]
