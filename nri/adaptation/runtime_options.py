"""The options of a runtime that its plugins notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from nri import api
from nri.adaptation.exchange import Exchange
from nri.api.events import Version


@dataclass(frozen=True, kw_only=True)
class RuntimeOptions:
    """A runtime's description of itself, its timeouts in seconds, and its observer."""

    name: str
    version: str
    nri_version: Version
    rpc: bool
    """True when every event has a method of its own; False when most come as StateChange (up to NRI 0.11)."""
    request_timeout: float
    registration_timeout: float
    on_exchange: Callable[[Exchange], None] = field(default=lambda exchange: None)

    def configure(self, config: str) -> api.ConfigureRequest:
        """Return the request that configures a plugin."""
        request = api.ConfigureRequest(config=config, runtime_name=self.name, runtime_version=self.version)
        if self.nri_version >= (0, 7):
            request.registration_timeout = int(self.registration_timeout * 1000)
            request.request_timeout = int(self.request_timeout * 1000)
        if self.nri_version >= (0, 12):
            request.NRI_version = "v{}.{}.0".format(*self.nri_version)
        return request
