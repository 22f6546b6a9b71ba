"""Work in threads of its own, where the system may have no thread left."""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def in_background(function: Callable[[], object], name: str) -> str:
    """Call a function in a daemon thread of this name; return "", or the reason why no thread can be started."""
    try:
        threading.Thread(target=function, name=name, daemon=True).start()
    except RuntimeError as error:
        return f"a thread cannot be started: {error}"
    return ""
