"""What became of the plugins of a chain."""

from __future__ import annotations

from nri.errors import NRIError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nri.client.invoker import PluginError
    from nri.config.entries import PluginEntry
    from nri.types.v1 import Result

OUTCOMES = ("ok", "error", "killed", "passedOver")
"""What became of a plugin's run. ``passedOver``: it failed, and its ``failurePolicy`` is ``ignore``."""


class Step:
    """One plugin's part of a chain. Either ``result`` or ``error`` is set.

    ``request`` is the JSON that was sent, ``binary`` the path of the executable, "" if none was found. ``is_ignored``
    says that the chain went on after the error.
    """

    __slots__ = ("binary", "error", "is_ignored", "plugin", "request", "result", "seconds", "stdout")

    def __init__(self, plugin: PluginEntry, request: bytes) -> None:
        self.plugin, self.request = plugin, request
        self.binary, self.stdout, self.seconds = "", b"", 0.0
        self.result: Result | None = None
        self.error: PluginError | None = None
        self.is_ignored = False

    @property
    def outcome(self) -> str:
        """One of :data:`OUTCOMES`."""
        if self.error is None:
            return "ok"
        if self.is_ignored:
            return "passedOver"
        return "killed" if self.error.killed else "error"


def results_of(steps: Iterable[Step]) -> list[Result]:
    """Return the results of the steps that succeeded, in order."""
    return [step.result for step in steps if step.result is not None]


class ChainError(NRIError):
    """A chain failed.

    ``errors`` are those that are not ignored: one, or for ``delete`` any number. ``steps`` are all, also those that
    succeeded: nothing undoes the work of their plugins.
    """

    def __init__(self, errors: Sequence[PluginError], steps: Sequence[Step]) -> None:
        super().__init__("; ".join([f"plugin {error}" for error in errors]))
        self.errors, self.steps = tuple(errors), tuple(steps)
