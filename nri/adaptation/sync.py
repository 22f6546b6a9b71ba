"""Synchronize: what there is, in as few messages as fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.api import Container, PodSandbox, SynchronizeRequest
from nri.ttrpc import MAX_DATA

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_PART = MAX_DATA - 1024
"""Bytes of the longest part: a message, less what is around it."""

_AROUND = 6  # bytes of an element's tag and length in a part


def parts(
    pods: Iterable[PodSandbox], containers: Iterable[Container], limit: int = MAX_PART
) -> Iterator[SynchronizeRequest]:
    """The requests, pods first, in order; ``more`` is set on all but the last. At least one, if it is empty.

    One pod or container that is longer than the limit is a part of its own; that it can't be sent, the sender finds.
    """
    part, size = SynchronizeRequest(), 0
    items: list[PodSandbox | Container] = [*pods, *containers]
    for item in items:
        length = item.ByteSize() + _AROUND
        if size and size + length > limit:
            part.more = True
            yield part
            part, size = SynchronizeRequest(), 0
        if isinstance(item, PodSandbox):
            part.pods.append(item)
        else:
            part.containers.append(item)
        size += length
    yield part
