"""The host's side of prefork: a pool of plugin servers and their workers."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def in_background(function: Callable[..., object], *arguments: object, name: str = "prefork") -> bool:
    """Call ``function`` in a daemon thread of this name; return whether a thread could be started."""
    try:
        threading.Thread(target=function, args=arguments, name=name, daemon=True).start()
    except RuntimeError:
        return False
    return True
