"""The last exchanges with pods: what was asked of the plugins of an event, and what they answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

from nri.errors import bounded, escape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.client import Step
    from nri.types.v1 import Request

MOST = 256
"""Exchanges that are kept; the oldest are dropped."""

MAX_TEXT = 2048
"""Bytes of a request, a result or an error that are kept."""


def split_name(name: str) -> tuple[str, str]:
    """Return ``NAMESPACE/POD`` and the container, "" for the sandbox, of ``NAMESPACE/POD[/CONTAINER]``."""
    namespace, _, rest = name.partition("/")
    pod, _, container = rest.partition("/")
    return f"{namespace}/{pod}", container


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
        pod, container = split_name(name)
        about = str(request.state), event, request.id, request.late
        parts = tuple([PluginPart.of(step) for step in steps])
        return cls(pod, container, *about, time, seconds, error, parts)

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
