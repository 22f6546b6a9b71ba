"""Errors between a runtime and its plugins."""

from nri.errors import NRIError


class AdaptationError(NRIError):
    """A plugin could not be started or connected, or the runtime could not be set up or was used wrongly."""


class EventError(NRIError):
    """A plugin made an event, such as ``StartContainer``, fail: it answered with an error or something impossible.

    :param text: the text of the error, if it names event and plugin in words of its own.
    """

    def __init__(self, event: str, plugin: str, message: str, text: str = "") -> None:
        super().__init__(text or f"{event}: plugin {plugin}: {message}")
        self.event = event
        self.plugin = plugin
        self.message = message

    def text_with_event(self) -> str:
        """Return the text for a log: it names the event in any case."""
        text = str(self)
        if text.startswith(f"{self.event}: "):
            return text
        return f"{self.event}: {text}"


class ConflictError(EventError):
    """Two plugins set the same thing, or one plugin set it twice, so the event fails. The text is NRI's own.

    :param words: the field as NRI names it, with the key of an entry: ``CPUQuota``, ``Env PATH``.
    :ivar field: the path of the field, with the key of an entry: ``linux.resources.cpu.quota``, ``env PATH``.
    :ivar plugins: the plugin that had set or removed it, and the later one.
    """

    def __init__(self, event: str, words: str, field: str, first: str, second: str) -> None:
        text = f'plugins "{second}" and "{first}" both tried to set {words}'
        super().__init__(event, second, text, text)
        self.field = field
        self.plugins = (first, second)
