"""A v2 plugin that runs v0.1 plugins: a runtime's events become requests, and results become responses.

| v2 event | v0.1 state | sent to |
| --- | --- | --- |
| RunPodSandbox, StartContainer | ``create`` | every plugin |
| StopPodSandbox, StopContainer | ``delete`` | every plugin |
| CreateContainer | ``setup`` | plugins that list it in ``states`` |
| PostUpdateContainer, PostUpdatePodSandbox | ``update`` | plugins that list it in ``states`` |

The bridge guarantees: invalid bridge options or an invalid host configuration never stop a pod; a plugin that does
not end is killed before the runtime's timeout for the bridge; the bridge remembers the facts about a pod that later
events omit.
"""

from nri.v1bridge.bridge import Bridge
from nri.v1bridge.options import BridgeOptions
from nri.v1bridge.serving import serve

__all__ = ["Bridge", "BridgeOptions", "serve"]
