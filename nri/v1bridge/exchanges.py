"""The last exchanges with pods: what was asked of the plugins of an event, and what they answered."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from nri.errors import bounded, escape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nri.client import Step
    from nri.types.v1 import Request

MOST, MAX_BYTES = 4096, 4 * 1024 * 1024
"""PodExchanges that are kept, and bytes of their texts together; the oldest are dropped."""

MAX_TEXT = 4096
"""Bytes of a request or a result that are kept."""

OVERHEAD = 600
"""Bytes that an exchange and a part of it are counted with beside their texts: what Python's objects take."""


class Part:
    """One plugin's part of an exchange."""

    __slots__ = ("binary", "error", "outcome", "plugin", "request", "result", "seconds", "source")

    def __init__(self, step: Step) -> None:
        self.plugin, self.source = step.plugin.type, step.plugin.source
        self.binary, self.seconds, self.outcome = step.binary, step.seconds, step.outcome
        self.request, self.result = step.request[:MAX_TEXT], step.stdout[:MAX_TEXT]
        self.error = "" if step.error is None else bounded(step.error.reason, MAX_TEXT)

    def size(self) -> int:
        """Return about the bytes that it takes."""
        return OVERHEAD + len(self.request) + len(self.result) + len(self.error)

    def to_value(self) -> dict[str, Any]:
        """Return it as an answer of the status socket has it."""
        return {
            "plugin": self.plugin,
            "binary": self.binary or None,
            "seconds": round(self.seconds, 6),
            "outcome": self.outcome,
            "request": self.request.decode("utf-8", "replace"),
            "result": self.result.decode("utf-8", "replace") if self.result else None,
            "error": self.error or None,
        }


class PodExchange:
    """One event's chain.

    :param name: ``NAMESPACE/POD[/CONTAINER]``.
    :param time: seconds since 1970, at its end.
    :param seconds: what all of its plugins took.
    :param error: what the runtime is answered, "" without an error.
    """

    __slots__ = ("container", "error", "event", "id", "late", "parts", "pod", "seconds", "state", "time")

    def __init__(
        self, name: str, request: Request, event: str, steps: Sequence[Step], time: float, seconds: float, error: str
    ) -> None:
        namespace, _, rest = name.partition("/")
        pod, _, container = rest.partition("/")
        self.pod, self.container = f"{namespace}/{pod}", container or None
        self.state, self.event, self.id, self.late = str(request.state), event, request.id, request.late
        self.time, self.seconds, self.error = time, seconds, error
        self.parts = [Part(step) for step in steps]

    def size(self) -> int:
        """Return about the bytes that it takes."""
        return OVERHEAD + len(self.error) + sum([part.size() for part in self.parts])

    def to_value(self) -> dict[str, Any]:
        """Return it as an answer of the status socket has it."""
        return {
            "time": round(self.time, 3),
            "state": self.state,
            "event": self.event or None,
            "id": escape(self.id),
            "container": self.container,
            "late": self.late,
            "seconds": round(self.seconds, 6),
            "error": self.error or None,
            "plugins": [part.to_value() for part in self.parts],
        }


class PodExchanges:
    """The last exchanges, bounded in number and bytes. One thread at a time may use it."""

    def __init__(self, most: int = MOST, max_bytes: int = MAX_BYTES) -> None:
        self._most, self._max_bytes = most, max_bytes
        self._kept: deque[PodExchange] = deque()
        self._bytes = 0
        self.forgotten = 0

    def __iter__(self) -> Iterator[PodExchange]:
        return iter(self._kept)

    def add(self, exchange: PodExchange) -> None:
        """Keep an exchange; drop the oldest as far as there is no room."""
        self._kept.append(exchange)
        self._bytes += exchange.size()
        while len(self._kept) > self._most or (self._bytes > self._max_bytes and len(self._kept) > 1):
            self._bytes -= self._kept.popleft().size()
            self.forgotten += 1
