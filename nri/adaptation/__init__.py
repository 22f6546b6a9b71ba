"""The runtime's end of NRI v2: a small embedded runtime, for ``nri simulate``, for demonstrations and for tests.

    from nri import adaptation

    with adaptation.Runtime(plugin_dir="/opt/nri/plugins") as runtime:
        runtime.run_pod_sandbox(pod)
        created = runtime.create_container(pod, container)
        print(created.adjustment, created.updates)

It treats its plugins as containerd and CRI-O do: ``Runtime`` finds, launches, admits and synchronizes them,
sends them events, and merges what they ask for (``.merging``). It runs no containers: its caller describes pods
and containers. ``.lifecycle`` makes some up.
"""

from nri.adaptation.errors import AdaptationError, ConflictError, EventError
from nri.adaptation.runtime import Exchange, Outcome, Runtime

__all__ = ["AdaptationError", "ConflictError", "EventError", "Exchange", "Outcome", "Runtime"]
