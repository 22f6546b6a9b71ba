"""The targets, by name."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def names() -> list[str]:
    """Return the names of all targets, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> ModuleType:
    """Return the target of this name.

    :raises LookupError: no target has this name.
    """
    if name not in names():
        raise LookupError(f"found {name!r}, expected one of {', '.join(names())}")
    return importlib.import_module(f"{__name__}.{name}")


def split(data: bytes, choices: int) -> tuple[int, bytes]:
    """Return a number below ``choices`` from the first byte, 0 without one, and the rest."""
    return (data[0] % choices if data else 0), data[1:]
