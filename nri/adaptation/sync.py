"""Synchronize: all pods and containers, in as few messages as possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.api import Container, PodSandbox, SynchronizeRequest
from nri.ttrpc import MAX_DATA

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_PART = MAX_DATA - 1024
"""Bytes of the longest part: a message frame without its envelope."""

_AROUND = 6  # bytes of an element's tag and length in a part


def parts(
    pods: Iterable[PodSandbox], containers: Iterable[Container], limit: int = MAX_PART
) -> Iterator[SynchronizeRequest]:
    """Yield the requests in order, pods first; ``more`` is set on all but the last. At least one, maybe empty.

    A pod or container that is longer than the limit is a part of its own, and the sender refuses to send it.
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
