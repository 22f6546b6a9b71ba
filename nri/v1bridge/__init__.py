"""A v2 plugin that runs plugins of v0.1: the events of a runtime become requests, results become responses.

| v2 event | v0.1 state | sent to |
| --- | --- | --- |
| RunPodSandbox, StartContainer | ``create`` | every plugin |
| StopPodSandbox, StopContainer | ``delete`` | every plugin |
| CreateContainer | ``setup`` | plugins that list it in ``states`` |
| PostUpdateContainer | ``update`` | plugins that list it in ``states`` |

What the bridge promises: an invalid configuration, its own or the plugins', never stops a pod; a plugin that does not
end is killed before the runtime loses patience with the bridge; what an event does not tell about a pod, the bridge
remembers.
"""

from nri.v1bridge.bridge import Bridge
from nri.v1bridge.options import BridgeOptions, OptionsError
from nri.v1bridge.serving import serve

__all__ = ["Bridge", "BridgeOptions", "OptionsError", "serve"]
