"""What can go wrong with a plugin, and with a chain of them."""

from __future__ import annotations

from nri.errors import NRIError, escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.types.v1 import Result


class PluginError(NRIError):
    """One plugin failed: it was not found, could not be run, took too long, or said so itself.

    ``str()`` is ``TYPE: what happened``; ``plugin`` is the type, ``reason`` the rest, fit for one line whatever the
    plugin said.
    """

    def __init__(self, plugin: str, reason: str) -> None:
        self.plugin = escape(plugin)
        self.reason = escape(reason)
        super().__init__(f"{self.plugin}: {self.reason}")


class ChainError(NRIError):
    """A chain failed. ``errors`` has one error of a plugin, for ``delete`` all of them.

    ``results`` are those of the plugins that succeeded: what they did stays done.
    """

    def __init__(self, errors: Sequence[PluginError], results: Sequence[Result]) -> None:
        super().__init__("; ".join([f"plugin {error}" for error in errors]))
        self.errors = tuple(errors)
        self.results = tuple(results)
