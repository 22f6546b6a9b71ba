"""The error of a plugin."""

from __future__ import annotations

from nri.errors import NRIError, escape


class PluginError(NRIError):
    """A plugin failed: it was not found, could not be run, took too long, or reported an error.

    ``str()`` is ``TYPE: REASON``. Control characters in both are escaped, so the text is one line.
    """

    def __init__(self, plugin: str, reason: str) -> None:
        self.plugin = escape(plugin)
        """The plugin's type."""
        self.reason = escape(reason)
        super().__init__(f"{self.plugin}: {self.reason}")
