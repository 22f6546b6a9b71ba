"""System calls that fail, as one module of the project sees them; all others go on with the real ones."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

ERRORS = [
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EAGAIN,
    errno.ENOSPC,
    errno.EIO,
    errno.EINTR,
]


def name_of(number: object) -> str | None:
    """How a test's id names it."""
    return errno.errorcode.get(number) if isinstance(number, int) else None


class Failing:
    """A module, such as ``os``, of which one function fails: its call number ``nth``, from 0, and those after it.

    ``failed`` counts the failures; a test that expects some must see some.
    """

    def __init__(self, module: ModuleType, function: str, number: int, *, nth: int = 0, times: int = 1) -> None:
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
