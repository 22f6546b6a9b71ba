"""The bridge: a v2 plugin whose handlers run the chain of v0.1 plugins.

A runtime that gets no response within its timeout drops a plugin for good, and goes on without it. So the chain has
the remaining time of the request, less a margin. A plugin that is not done by then is killed; the response is an
error (the container does not start), unless the plugin's ``failurePolicy`` is ``ignore``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from nri.adjust import Changes
from nri.client import Invoker
from nri.config.entries import types_of
from nri.errors import escape
from nri.places import beside
from nri.process.subreaper import Subreaper
from nri.types.v1 import State
from nri.v1bridge import requests
from nri.v1bridge.chains import Chains
from nri.v1bridge.counts import Counts
from nri.v1bridge.options import BridgeOptions
from nri.v1bridge.runs import EventLog
from nri.v1bridge.status import CONNECTED, CONNECTING, Status, StatusSocket
from nri.v2 import api, stub
from nri.v2.api import events
from nri.v2.api.runtimes import SENDS_ALONE, numbers
from nri.v2.stub import RuntimeInfo
from nri.v2.stub.plugin import handlers
from nri.v2.ttrpc import Call, Code, StatusError

OF_EVENTS = (State.SETUP, State.CREATE, State.RESIZE, State.UPDATE, State.DELETE)
"""The states for which runtimes have events."""

PLUGINS_WITHIN = 0.3
"""Seconds that the residents have to be ready before the bridge reports to the runtime that it is ready."""

Identified = TypeVar("Identified", api.PodSandbox, api.Container)
log = logging.getLogger("nri.v1bridge")


class Bridge(stub.V2Plugin):
    """Runs the v0.1 plugins of a node.

    :param adopt: makes options from the text that a runtime sends; without it, ``options`` are final.
    :param subreaper: ends the processes that plugins leave behind; only for a process whose children are all plugins.
    :param launched: a runtime launched the bridge, and may not synchronize it.
    :param invoker: runs the plugins; by default they are executables, found and run as the options say.
    :param event_log: the log of the events; a subclass may show each chain, and each plugin that has run.
    :param is_alone: waits at most so many seconds for the end of another bridge of the node; returns whether there is
        none.
    :param follows: run ``update`` for containers that the runtime changes because a plugin asked for it; False for a
        simulation, which shows one event at a time.
    :ivar chains: runs the chains.
    :ivar status: what the status socket answers.
    """

    # CRI-O starts a container all the same, and what has ended must be given back.
    late_events = True
    optional_events = frozenset({api.Event.UPDATE_POD_SANDBOX, api.Event.POST_UPDATE_POD_SANDBOX})

    def __init__(  # noqa: PLR0913 - optional, by name
        self,
        options: BridgeOptions,
        adopt: Callable[[str], BridgeOptions] | None = None,
        subreaper: Subreaper | None = None,
        *,
        launched: bool = False,
        invoker: Invoker | None = None,
        is_alone: Callable[[float], bool] = lambda within: True,
        event_log: EventLog | None = None,
        follows: bool = True,
    ) -> None:
        self._adopt = adopt
        self._launched = launched
        self._follows = follows
        self._counts = Counts([events.BY_EVENT[event].rpc for event in handlers(self)])
        self.chains = Chains(
            options, self._counts, subreaper, invoker, is_alone, event_log or EventLog()
        )
        self.status = Status(self.chains, self._counts)
        self._status_socket = StatusSocket(self.status.answer)
        self.pods = requests.Pods()
        self._abilities = requests.BridgeAbilities("this runtime", (0, 2))
        self._is_synchronized = False
        self._runtime = ""

    def configure(self, config: str, runtime: RuntimeInfo) -> None:
        """Take the options and the runtime's identity. Refuse nothing: see ``BridgeOptions.read``."""
        if self._adopt is not None:
            self.chains.use(self._adopt(config))
        elif config.strip():
            log.warning("ignoring the options that the runtime hands over: those of --config apply")
        runs_pods = runtime.name == "containerd" and numbers(runtime.version) >= (2, 0, 0)
        self._abilities = requests.abilities(runtime)
        self.status.configured(runtime)
        log.info("serving %s %s", escape(runtime.name), escape(runtime.version))
        if self._launched:
            self.status.is_in(CONNECTED)
            self.open_status()
        within = min(PLUGINS_WITHIN, (runtime.request_timeout or PLUGINS_WITHIN * 4) / 4)
        self._runtime = runtime.name
        self.chains.configure(
            runtime_runs_pods=runs_pods, refuses_starts=not self._is_crio, within=within
        )

    @property
    def _is_crio(self) -> bool:
        return self._runtime == "cri-o"

    def synchronize(
        self, pods: Sequence[api.PodSandbox], containers: Sequence[api.Container]
    ) -> Sequence[api.ContainerUpdate] | None:
        """Remember the existing pods, and find those that started while no bridge was connected."""
        self.pods.replace(pods)
        self.status.synchronized()
        log.info("synchronized: %d pods, %d containers", len(pods), len(containers))
        self._warn_of_states()
        self.chains.synchronize(pods, containers)
        self._is_synchronized = True
        return None

    def _warn_of_states(self) -> None:
        """Warn of entries that want states for which this runtime has no event."""
        sent = SENDS_ALONE.get(self._runtime, OF_EVENTS)
        client = self.chains.client()
        for state in sorted({*OF_EVENTS}.difference(sent)):
            types = ", ".join(types_of(client.chain(state)))
            if types:
                about = (
                    "%s has no event for %s, so these plugins are not run for it: %s; use "
                    "nri-runc there"
                )
                log.warning(about, escape(self._runtime), state, escape(types))

    def idle(self) -> None:
        """Begin with the late creates after a synchronization: the runtime does not wait for them. Tidy up."""
        if self._is_synchronized:
            self._is_synchronized = False
            self.status.is_in(CONNECTED)
            self.chains.start()
        self.chains.idle()

    def disconnected(self) -> None:
        """Begin no more late creates."""
        self._is_synchronized = False
        self.chains.stop()
        self.chains.idle()
        self.status.is_in(CONNECTING)

    def run_pod_sandbox(self, request: api.RunPodSandboxRequest, call: Call) -> None:
        """Run ``create`` for the sandbox."""
        pod = _identified(request.pod, "pod")
        self.pods.remember(pod)
        self._run_sandbox(pod, State.CREATE, call)

    def update_pod_sandbox(self, request: api.UpdatePodSandboxRequest, call: Call) -> None:
        """Run ``resize`` for the sandbox. Remember the new resources, which the later event lacks."""
        pod = self.pods.complete(_identified(request.pod, "pod"))
        if request.HasField("linux_resources"):
            self.pods.resize(pod, request.linux_resources)
            pod = requests.with_resources(pod, request.linux_resources)
        self._run_sandbox(pod, State.RESIZE, call, Changes(self._abilities))

    def post_update_pod_sandbox(self, request: api.PostUpdatePodSandboxRequest, call: Call) -> None:
        """Run ``update`` for the sandbox, with the new resources of the pod."""
        self._run_sandbox(self.pods.resized(_identified(request.pod, "pod")), State.UPDATE, call)

    def stop_pod_sandbox(self, request: api.StopPodSandboxRequest, call: Call) -> None:
        """Run ``delete`` for the sandbox.

        CRI-O returns an error before it marks the pod as stopped, and so at every try. A failure is logged and
        counted in any case, so it gets none.
        """
        pod = self.pods.complete(_identified(request.pod, "pod"))
        try:
            self._run_sandbox(pod, State.DELETE, call)
        except StatusError:
            if not self._is_crio:
                raise

    def remove_pod_sandbox(self, request: api.RemovePodSandboxRequest, call: Call) -> None:
        """Forget the pod: no event about it follows."""
        self.pods.forget(_identified(request.pod, "pod"))

    def create_container(
        self, request: api.CreateContainerRequest, call: Call
    ) -> api.CreateContainerResponse | None:
        """Run ``setup``; the response has the changes that the plugins ask for."""
        pod = request.pod
        container = request.container
        changes = Changes(
            self._abilities, lambda: requests.config_of(self.pods.complete(pod), container)
        )
        self._run_container(pod, container, State.SETUP, call, changes)
        if "cdiDevices" in changes.adjust:
            self.chains.note_devices(container)
        self._follow(changes, container.id)
        return requests.create_response(changes) if changes else None

    def start_container(self, request: api.StartContainerRequest, call: Call) -> None:
        """Run ``create`` for the container."""
        self.chains.prove(request.pod.id)
        self._run_container(request.pod, request.container, State.CREATE, call)

    def update_container(
        self, request: api.UpdateContainerRequest, call: Call
    ) -> api.UpdateContainerResponse:
        """Run ``resize``, with the requested resources."""
        container = api.Container()
        container.CopyFrom(request.container)
        container.linux.resources.CopyFrom(request.linux_resources)
        changes = Changes(self._abilities)
        self._run_container(request.pod, container, State.RESIZE, call, changes)
        self._follow(changes, container.id)
        return api.UpdateContainerResponse(update=requests.updates(changes))

    def post_update_container(self, request: api.PostUpdateContainerRequest, call: Call) -> None:
        """Run ``update``. The runtime has written the new limits, so it does not overwrite a plugin's changes."""
        self._run_container(request.pod, request.container, State.UPDATE, call)

    def stop_container(
        self, request: api.StopContainerRequest, call: Call
    ) -> api.StopContainerResponse:
        """Run ``delete`` for the container."""
        changes = Changes(self._abilities)
        self._run_container(request.pod, request.container, State.DELETE, call, changes)
        self._follow(changes, request.container.id)
        return api.StopContainerResponse(update=requests.updates(changes))

    def answered(self, call: Call) -> None:
        """Count the event, and look after the status socket."""
        self._counts.answered(call)
        self._status_socket.renew()

    def open_status(self) -> None:
        """Answer at the status socket, in a thread of its own."""
        self._status_socket.open(beside(self.chains.options.record_dir, ".sock"))

    def close(self) -> None:
        """End the residents, and answer no more: no event follows."""
        self._status_socket.close()
        self.chains.close()

    def _follow(self, changes: Changes, id_: str) -> None:
        """Have an ``update`` follow for the other containers that the answer changes.

        :param id_: the event's container, for which the runtime sends an event of its own.
        """
        others = {**changes.updates}
        others.pop(id_, None)
        if self._follows:
            self.chains.rewrites(others)

    def _run_sandbox(
        self, pod: api.PodSandbox, state: State, call: Call, changes: Changes | None = None
    ) -> None:
        self.chains.run(requests.Subject(pod), state, call, changes)

    def _run_container(
        self,
        pod: api.PodSandbox,
        container: api.Container,
        state: State,
        call: Call,
        changes: Changes | None = None,
    ) -> None:
        pod = self.pods.complete(_identified(pod, "pod"))
        self.chains.run(
            requests.Subject(pod, _identified(container, "container")), state, call, changes
        )


def _identified(message: Identified, kind: str) -> Identified:
    if not message.id:
        log.warning("event without a %s", kind)
        raise StatusError(
            Code.INVALID_ARGUMENT, f"found no {kind} in the event, expected one with an id"
        )
    return message
