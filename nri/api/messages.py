"""Copies of protobuf messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from google.protobuf.message import Message

M = TypeVar("M", bound="Message")


def copy_of(message: M) -> M:
    """Return a copy of ``message``."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy
