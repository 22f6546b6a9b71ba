"""The options of a runtime, and the calls of plugins that its observer sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from google.protobuf.message import Message

from nri.errors import NRIError
from nri.v2 import api
from nri.v2.api.events import Version
from nri.v2.ttrpc import DeadlineError, StatusError


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One call of a plugin and its result: either ``response`` or ``error`` is None."""

    event: str
    """Name of the method, also where a ``StateChange`` carried the event."""
    plugin: str
    request: Message
    response: Message | None = None
    error: NRIError | None = None
    seconds: float

    @property
    def cut_off(self) -> bool:
        """True when the error made the runtime close the connection: it is not the plugin's answer."""
        answered = isinstance(self.error, StatusError) and not isinstance(self.error, DeadlineError)
        return self.error is not None and not answered


@dataclass(frozen=True, kw_only=True)
class RuntimeOptions:
    """The options that :class:`nri.adaptation.Runtime` explains, with their default values filled in."""

    name: str
    version: str
    nri_version: Version
    request_timeout: float
    registration_timeout: float
    on_exchange: Callable[[Exchange], None]
    plugin_dir: str | None
    plugins: tuple[tuple[str, str, str], ...]
    config_dir: str | None
    on_output: Callable[[str, str], None] | None

    @property
    def rpc(self) -> bool:
        """True when every event has a method of its own; False when most come as StateChange (up to NRI 0.11)."""
        return self.nri_version >= (0, 12)

    def configure(self, config: str) -> api.ConfigureRequest:
        """Return the request that configures a plugin."""
        request = api.ConfigureRequest(config=config, runtime_name=self.name, runtime_version=self.version)
        if self.nri_version >= (0, 7):
            request.registration_timeout = int(self.registration_timeout * 1000)
            request.request_timeout = int(self.request_timeout * 1000)
        if self.nri_version >= (0, 12):
            request.NRI_version = "v{}.{}.0".format(*self.nri_version)
        return request
