"""What a plugin is: a type, one method, and what it says about itself."""

from __future__ import annotations

from nri.errors import NRIError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.types.v1 import Request, Result


NO_INVOKE = "defines no method invoke(self, request)"


class Plugin:
    """The base of a plugin. A subclass sets ``type`` and defines :meth:`invoke`."""

    type: str = ""
    """The plugin's name: that of its executable, and of its entry in the host configuration."""
    version: str = ""
    """The plugin's own version, shown by ``TYPE version``."""
    description: str = ""
    """What it does, in a line or two, shown by ``TYPE --help``."""
    conf_schema: dict[str, Any] | None = None
    """A JSON Schema (2020-12) of its ``conf``, shown by ``TYPE schema`` and used by ``nri check``."""

    uses: tuple[str, ...] = ()
    """Modules that :meth:`invoke` imports when it needs them; a host that keeps the plugin ready has them loaded."""

    def invoke(self, request: Request) -> Result:
        """Do the plugin's work for one step of a container's life.

        ``request.state`` tells which; a state that means nothing to the plugin is answered with
        ``request.new_result(self.type)``. An exception becomes the result's ``error``, its class and its message, and
        its traceback goes to stderr; of an :class:`nri.errors.NRIError` it is the message only.
        """
        raise NRIError(f"class {type(self).__name__} {NO_INVOKE}")
