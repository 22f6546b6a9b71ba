"""System calls that fail for one module of the project; all others use the real calls."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def name_of(number: object) -> str | None:
    """Return the name for a test's id."""
    return errno.errorcode.get(number) if isinstance(number, int) else None


class Failing:
    """A module, such as ``os``, with one function that fails, from its call number ``nth`` (0 is the first) on.

    ``failed`` counts the failures; a test that expects some must see some.
    """

    def __init__(
        self, module: ModuleType, function: str, number: int, *, nth: int = 0, times: int = 1
    ) -> None:
        self._module = module
        self._number = number
        self._left = nth
        self._times = times
        self.failed = 0
        real: Callable[..., Any] = getattr(module, function)

        def call(*arguments: Any, **options: Any) -> Any:
            if self._left > 0:
                self._left -= 1
            elif self.failed < self._times:
                self.failed += 1
                raise OSError(number, os.strerror(number))
            return real(*arguments, **options)

        setattr(self, function, call)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)
