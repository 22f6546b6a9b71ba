"""The mark of a removal: in an adjustment, a minus in front of a key, name, path or type removes that entry.

Source: pkg/api/helpers.go of containerd/nri.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, MutableSequence
from typing import TypeVar

MARK = "-"

_Item = TypeVar("_Item")


def mark(key: str) -> str:
    """Return the key that removes ``key``."""
    return MARK + key


def is_marked(key: str) -> bool:
    """Return whether a key removes an entry."""
    return key.startswith(MARK)


def unmarked(key: str) -> str:
    """Return the key of the entry, for one with and for one without the mark."""
    return key.removeprefix(MARK)


def checked(key: str, what: str) -> str:
    """Return ``key``, which an author gives without the mark.

    :raises ValueError: when it is empty, or has the mark; ``what`` names it in the message.
    """
    if not key or is_marked(key):
        raise ValueError(f"{what}: found {key!r}, expected a text that is not empty and does not begin with {MARK!r}")
    return key


def drop(items: MutableSequence[_Item], key_of: Callable[[_Item], str], *keys: str) -> None:
    """Delete the items of a repeated field that have one of ``keys``."""
    for index in reversed(range(len(items))):
        if key_of(items[index]) in keys:
            del items[index]


def drop_keys(entries: MutableMapping[str, _Item], *keys: str) -> None:
    """Delete ``keys`` of a map field where they are present."""
    for key in keys:
        if key in entries:
            del entries[key]
