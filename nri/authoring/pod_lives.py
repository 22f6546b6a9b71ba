"""Try a plugin through the lives of pods, in the embedded runtime.

The bridge connects to the runtime as on a node, and runs the chain with the plugin as its only entry. Only the last
step differs: the plugin is called in this process.
"""

from __future__ import annotations

import contextlib
import json
import socket
import tempfile
import threading
from typing import TYPE_CHECKING, Any

from nri.adaptation import EventError, Runtime
from nri.adaptation.lifecycle import PodTemplate
from nri.adaptation.recording import Replayer
from nri.authoring.in_process import InThisProcess, TryError
from nri.cgroups.paths import expand
from nri.v1bridge import Bridge, BridgeOptions
from nri.v2 import stub
from nri.v2.api import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from nri import skel
    from nri.adaptation import Outcome
    from nri.adaptation.lifecycle import LifecycleEvent
    from nri.authoring.in_process import Asked, Cgroups

REGISTERED = 10.0
"""Seconds that the bridge has to register with the embedded runtime; it is in the same process."""


def lives(
    pods: int, containers: int, annotations: dict[str, str], labels: dict[str, str], *, top: str
) -> list[LifecycleEvent]:
    """Return the events of made-up pods' lives, with cgroups below *top*."""
    template = PodTemplate(annotations=annotations, labels=labels, cgroup_parent=f"{top}/kubepods/burstable")
    return list(template.lives(pods, containers))


@contextlib.contextmanager
def bridged(
    plugin: skel.Plugin, conf: Any, states: Sequence[str], cgroups: Cgroups, on_asked: Callable[[Asked], None]
) -> Iterator[Runtime]:
    """A runtime with the bridge, whose host configuration has this plugin alone."""
    with tempfile.TemporaryDirectory(prefix="nri-run-") as place:
        entry = {"type": plugin.type, "states": list(states), **({} if conf is None else {"conf": conf})}
        with open(f"{place}/10.conf", "w", encoding="utf-8") as file:
            json.dump({"version": "0.1", "plugins": [entry]}, file)
        options = BridgeOptions(
            conf_dir=place,
            conf_file=f"{place}/none",
            record_file=f"{place}/record",
            resident=False,
            late_create=False,
            check_owner=False,  # the configuration is our own
        )
        ours, theirs = socket.socketpair()
        bridge = Bridge(options, invoker=InThisProcess(plugin, cgroups, on_asked))
        runner = stub.Runner(bridge, name="v1bridge", index="10", sock=theirs)
        thread = threading.Thread(target=runner.run, name="bridge")
        with Runtime(request_timeout=3600) as runtime:
            thread.start()
            try:
                runtime.attach(ours)
                if not runtime.wait_for(1, REGISTERED):
                    raise TryError("the bridge did not register with the embedded runtime")
                yield runtime
            finally:
                runtime.close()
                thread.join()
                bridge.close()


def live(
    runtime: Runtime,
    lives: Iterable[LifecycleEvent],
    cgroups: Cgroups,
    on_event: Callable[[LifecycleEvent, Outcome | None, EventError | None], None],
) -> int:
    """Send the events of pods' lives, with the cgroups that they need; return how many failed."""
    events = list(lives)
    for event in events:
        if event.event == Event.RUN_POD_SANDBOX:
            cgroups.make(expand(event.pod.linux.cgroups_path))
        elif event.container is not None and event.event == Event.CREATE_CONTAINER:
            cgroups.make(expand(event.container.linux.cgroups_path))
    replayer = Replayer(runtime, on_event)
    replayer.replay(events)
    return replayer.failed
