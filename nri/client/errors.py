"""The errors of a plugin, and of a chain of plugins."""

from __future__ import annotations

from nri.errors import NRIError, escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.client.chain import Step


class PluginError(NRIError):
    """A plugin failed: it was not found, could not be run, took too long, or reported an error.

    ``str()`` is ``TYPE: REASON``. Control characters in both are escaped, so the text is one line.
    """

    def __init__(self, plugin: str, reason: str) -> None:
        self.plugin = escape(plugin)
        """The plugin's type."""
        self.reason = escape(reason)
        super().__init__(f"{self.plugin}: {self.reason}")


class ChainError(NRIError):
    """A chain failed."""

    def __init__(self, errors: Sequence[PluginError], steps: Sequence[Step]) -> None:
        super().__init__("; ".join([f"plugin {error}" for error in errors]))
        self.errors = tuple(errors)
        """The errors that are not ignored: one, or for ``delete`` any number."""
        self.steps = tuple(steps)
        """All steps, also those that succeeded: what these plugins did stays done."""
