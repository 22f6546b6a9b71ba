"""Wait for a condition, never for a time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sized

SOON = 60.0
"""Seconds that are more than enough for a short operation, and much less than a hang."""


def wait_until(condition: Callable[[], object], seconds: float = SOON) -> bool:
    """Wait until ``condition`` holds; return whether it held in time."""
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.005)
    return True


def until(condition: Callable[[], Any], what: str = "the condition") -> Any:
    """Wait until ``condition`` holds, and return its value; fail when it does not hold in time."""
    end = time.monotonic() + SOON
    while not (value := condition()):
        assert time.monotonic() < end, f"{what} was never met"
        time.sleep(0.002)
    return value


def until_there_are(count: int, items: Sized) -> None:
    """Wait until ``items`` has that many elements."""
    until(lambda: len(items) == count, f"a length of {count}")
