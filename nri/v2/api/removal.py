"""The mark of a removal: in an adjustment, a minus in front of a key, name, path or type removes that entry.

Source: pkg/api/helpers.go of containerd/nri.
"""

from __future__ import annotations

MARK = "-"


def mark(key: str) -> str:
    """Return the key that removes ``key``."""
    return MARK + key


def is_marked(key: str) -> bool:
    """Return whether a key removes an entry."""
    return key.startswith(MARK)


def unmarked(key: str) -> str:
    """Return the key of the entry, for one with and for one without the mark."""
    return key.removeprefix(MARK)
