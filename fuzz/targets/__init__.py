"""The targets, by name."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def names() -> list[str]:
    """All targets, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> ModuleType:
    """The target of that name; LookupError for one that is not among :func:`names`."""
    if name not in names():
        raise LookupError(f"found {name!r}, expected one of {', '.join(names())}")
    return importlib.import_module(f"{__name__}.{name}")


def split(data: bytes, choices: int) -> tuple[int, bytes]:
    """A number below ``choices``, which the first byte says, and the rest; 0 for no bytes at all."""
    return (data[0] % choices if data else 0), data[1:]
