"""Kubernetes objects, made comparable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

UNORDERED = {"volumeMounts": "mountPath", "containers": "name", "volumes": "name"}
"""Lists whose order means nothing, each with the key that names an element. Init containers run in order."""


def comparable(objects: Iterable[dict[str, Any]]) -> dict[tuple[str, str], Any]:
    """Return the objects by kind and name, with unordered lists in one order."""
    in_order = [_sorted(each) for each in objects]
    named = {(each["kind"], each["metadata"]["name"]): each for each in in_order}
    assert len(named) == len(in_order), "two objects have one name"
    return named


def _sorted(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _sorted(item, name) for name, item in value.items()}
    if isinstance(value, list):
        items = [_sorted(item) for item in value]
        return sorted(items, key=lambda item: str(item[UNORDERED[key]])) if key in UNORDERED else items
    return value
