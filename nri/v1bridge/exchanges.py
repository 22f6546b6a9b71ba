"""The last exchanges with pods: what was asked of the plugins of an event, and what they answered.

Requests are long and like each other, so several exchanges together are kept compressed.
"""

from __future__ import annotations

import marshal
import zlib
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from nri.errors import bounded, escape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.client import Step
    from nri.types.v1 import Request

MOST, MAX_BYTES = 4096, 2 * 1024 * 1024
"""Exchanges that are kept, and bytes that they take, compressed; the oldest are dropped."""

TOGETHER = 8
"""Exchanges that are compressed together."""

MAX_TEXT = 4096
"""Bytes of a request, a result or an error that are kept."""

OVERHEAD = 500
"""Bytes that a group of exchanges is counted with beside its content."""


class PluginPart(NamedTuple):
    """One plugin's part of an exchange."""

    plugin: str
    source: str
    binary: str
    seconds: float
    outcome: str
    request: bytes
    result: bytes
    error: str

    @classmethod
    def of(cls, step: Step) -> Self:
        """Return the part of a step."""
        error = "" if step.error is None else bounded(step.error.reason, MAX_TEXT)
        texts = step.request[:MAX_TEXT], step.stdout[:MAX_TEXT], error
        return cls(step.plugin.type, step.plugin.source, step.binary, step.seconds, step.outcome, *texts)

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


class PodExchange(NamedTuple):
    """One event's chain."""

    pod: str  # NAMESPACE/POD
    container: str  # "" for the sandbox
    state: str
    event: str  # of the runtime; "" for a late create
    id: str
    late: bool
    time: float  # of its end, in seconds since 1970
    seconds: float  # that all of its plugins took
    error: str  # what the runtime is answered
    parts: tuple[PluginPart, ...]

    @classmethod
    def of(
        cls, name: str, request: Request, event: str, steps: Sequence[Step], time: float, seconds: float, error: str
    ) -> Self:
        """Return the exchange of a chain.

        :param name: ``NAMESPACE/POD[/CONTAINER]``.
        """
        namespace, _, rest = name.partition("/")
        pod, _, container = rest.partition("/")
        about = str(request.state), event, request.id, request.late
        parts = tuple([PluginPart.of(step) for step in steps])
        return cls(f"{namespace}/{pod}", container, *about, time, seconds, error, parts)

    def to_value(self) -> dict[str, Any]:
        """Return it as an answer of the status socket has it."""
        return {
            "time": round(self.time, 3),
            "state": self.state,
            "event": self.event or None,
            "id": escape(self.id),
            "container": self.container or None,
            "late": self.late,
            "seconds": round(self.seconds, 6),
            "error": self.error or None,
            "plugins": [part.to_value() for part in self.parts],
        }


class Group(NamedTuple):
    """Some exchanges, compressed."""

    pods: frozenset[str]
    number: int
    data: bytes

    @classmethod
    def of(cls, exchanges: Sequence[PodExchange]) -> Self:
        """Return the group of these exchanges."""
        # marshal knows tuples alone, none of their subclasses.
        plain = [(*each[:-1], [tuple(part) for part in each.parts]) for each in exchanges]
        pods = frozenset([each.pod for each in exchanges])
        return cls(pods, len(exchanges), zlib.compress(marshal.dumps(plain), 1))

    def exchanges(self) -> list[PodExchange]:
        """Return the exchanges."""
        plain: list[tuple[Any, ...]] = marshal.loads(zlib.decompress(self.data))  # noqa: S302 - our own data
        return [PodExchange._make((*each[:-1], tuple(map(PluginPart._make, each[-1])))) for each in plain]

    @property
    def size(self) -> int:
        """About the bytes that it takes."""
        return OVERHEAD + len(self.data) + sum([len(pod) for pod in self.pods])


class PodExchanges:
    """The last exchanges, bounded in number and bytes. One thread at a time may use it."""

    def __init__(self, most: int = MOST, max_bytes: int = MAX_BYTES) -> None:
        self._most, self._max_bytes = most, max_bytes
        self._groups: deque[Group] = deque()
        self._latest: list[PodExchange] = []  # not yet a group
        self._number = self._bytes = 0  # of the groups
        self.forgotten = 0

    def add(self, exchange: PodExchange) -> None:
        """Keep an exchange; drop the oldest as far as there is no room."""
        self._latest.append(exchange)
        if len(self._latest) < TOGETHER:
            return
        group = Group.of(self._latest)
        self._latest = []
        self._groups.append(group)
        self._number += group.number
        self._bytes += group.size
        while self._number > self._most or self._bytes > self._max_bytes:
            oldest = self._groups.popleft()
            self._number -= oldest.number
            self._bytes -= oldest.size
            self.forgotten += oldest.number

    def kept(self) -> tuple[list[Group], list[PodExchange]]:
        """Return the groups, and the exchanges after them."""
        return list(self._groups), list(self._latest)
