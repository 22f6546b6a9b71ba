"""Errors between a runtime and its plugins."""

from nri.errors import NRIError


class AdaptationError(NRIError):
    """A plugin could not be started or connected, or the runtime could not be set up."""


class EventError(NRIError):
    """A plugin made an event, such as ``StartContainer``, fail: it answered with an error in time."""

    def __init__(self, event: str, plugin: str, message: str) -> None:
        super().__init__(f"{event}: plugin {plugin}: {message}")
        self.event, self.plugin, self.message = event, plugin, message


class ConflictError(EventError):
    """Two plugins set the same thing, so the event fails.

    :ivar field: the path of the field, with the key of an entry: ``linux.resources.cpu.quota``, ``env PATH``.
    :ivar plugins: the plugin that had set it, and the later one.
    """

    def __init__(self, event: str, field: str, first: str, second: str, container: str) -> None:
        super().__init__(event, second, f"{first} and {second} both set {field} of container {container}")
        self.field, self.plugins = field, (first, second)
