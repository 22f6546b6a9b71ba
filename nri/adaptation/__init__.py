"""The other end of NRI v2: a small embedded runtime, for ``nri simulate``, for demonstrations and for tests.

    from nri import adaptation

    with adaptation.Runtime(plugin_dir="/opt/nri/plugins") as runtime:
        runtime.run_pod_sandbox(pod)
        created = runtime.create_container(pod, container)
        print(created.adjustment, created.updates)

It treats its plugins as containerd and CRI-O do: :class:`Runtime` finds, launches and connects them
(:mod:`.discover`, :mod:`.launch`, :mod:`.listen`, :mod:`.peer`), tells them what there is (:mod:`.sync`) and then
event after event, and puts together what they ask for (:mod:`.merge`). It runs no containers: pods and containers are
what its caller says they are; :mod:`.lifecycle` makes some up, :mod:`.play` takes them through their lives,
:mod:`.record` keeps such a life in a file.
"""

from nri.adaptation.errors import AdaptationError, ConflictError, EventError
from nri.adaptation.plugin_connection import Exchange
from nri.adaptation.runtime import Outcome, Runtime

__all__ = ["AdaptationError", "ConflictError", "EventError", "Exchange", "Outcome", "Runtime"]
