"""The bridge: a v2 plugin whose handlers run the chain of v0.1 plugins.

Time: a runtime that has no answer within its timeout drops the plugin for good, and goes on without it. So the chain
gets what is left of the request's deadline less a margin; a plugin that is not done by then is killed, and the answer
is an error (the container does not start) or not, as its ``failurePolicy`` says.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from typing import TYPE_CHECKING, TypeVar

from nri import api, stub
from nri.cgroups.paths import expand
from nri.client import ChainError, Client, PluginError, find
from nri.config import DEFAULT_CONF_FILE
from nri.config.entries import ConfigList
from nri.errors import NRIError, bounded, escape
from nri.prefork.pool.background import in_background
from nri.prefork.pool.pool import Pool
from nri.process import children, launch
from nri.ttrpc import Code, StatusError
from nri.types.gojson import shorten
from nri.types.v1 import State
from nri.v1bridge import preload, requests
from nri.v1bridge.configuration import Configuration
from nri.v1bridge.logs import answer_line, event_line, exchange_line, plugin_line
from nri.v1bridge.pods import Pods

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nri.client import Exchange
    from nri.config.entries import PluginEntry
    from nri.process.subreaper import Subreaper
    from nri.stub import RuntimeInfo
    from nri.ttrpc import Call
    from nri.types.v1 import Request
    from nri.v1bridge.options import BridgeOptions

MARGIN = 0.1
"""Seconds before a request's deadline at which the chain's own is: for killing a plugin, and for the answer's way."""

PRELOAD_AFTER = 1.0
"""Seconds after which modules are loaded ahead if the runtime has not synchronized with the bridge by then."""

MAX_ERROR = 4096
"""Bytes of an error for the runtime; a plugin may write a megabyte."""

CONTAINERD_CONF_FILE = DEFAULT_CONF_FILE
"""The file whose plugins containerd 2.x still runs itself, for pod sandboxes."""

Identified = TypeVar("Identified", api.PodSandbox, api.Container)
log = logging.getLogger("nri.v1bridge")


class Bridge(stub.V2Plugin):
    """Runs the v0.1 plugins of a node.

    :param adopt: makes settings of the text that a runtime hands over; without it, ``settings`` are those that count.
    :param orphans: ends what plugins leave behind; for a process that has no children but plugins.
    """

    def __init__(
        self,
        settings: BridgeOptions,
        adopt: Callable[[str], BridgeOptions] | None = None,
        orphans: Subreaper | None = None,
    ) -> None:
        self._adopt = adopt
        self._settings = settings
        self._configuration = Configuration(settings.conf_dir, settings.conf_file)
        self._helpers = Pool() if settings.prefork else None
        self._orphans = orphans
        self._served: ConfigList | None = None
        self._seen: ConfigList | None = None  # what the log has, for debugging
        self._pods = Pods()
        self._synchronized = threading.Event()
        self._runtime_runs_pods = False
        self._busy = 0
        self._counting = threading.Lock()
        self._idle = threading.Condition(self._counting)

    def configure(self, config: str, runtime: RuntimeInfo) -> None:
        """Take the settings, and note who the runtime is. Nothing is refused: see :meth:`BridgeOptions.read`."""
        if self._adopt is not None:
            self._use(self._adopt(config))
        elif config.strip():
            log.warning("the runtime hands over settings, which do not count beside those of the command line")
        major = re.match(r"v?([0-9]{1,4})\.", runtime.version)
        self._runtime_runs_pods = runtime.name == "containerd" and major is not None and int(major[1]) >= 2
        log.info("serving %s %s", escape(runtime.name), escape(runtime.version))
        plugins = self._current().plugins  # so that the log says at the start what is configured
        if self._helpers is not None:
            in_background(self._prepare, plugins, self._helpers)
        in_background(self._preload)

    def synchronize(
        self, pods: Sequence[api.PodSandbox], containers: Sequence[api.Container]
    ) -> Sequence[api.ContainerUpdate] | None:
        """Remember the pods that there are. Nothing is run for them: their plugins ran when they started."""
        self._pods.replace(pods)
        log.info("synchronized: %d pods, %d containers", len(pods), len(containers))
        self._configuration.explain()
        self._synchronized.set()
        return None

    def run_pod_sandbox(self, request: api.RunPodSandboxRequest, call: Call) -> None:
        """``create`` for the sandbox."""
        pod = _identified(request.pod, "pod")
        self._pods.remember(pod)
        self._run(requests.of_pod(pod, State.CREATE), pod, call, sandbox=True)

    def stop_pod_sandbox(self, request: api.StopPodSandboxRequest, call: Call) -> None:
        """``delete`` for the sandbox."""
        pod = self._pods.complete(_identified(request.pod, "pod"))
        self._run(requests.of_pod(pod, State.DELETE), pod, call, sandbox=True)

    def remove_pod_sandbox(self, request: api.RemovePodSandboxRequest, call: Call) -> None:
        """Nothing is left to be told about the pod."""
        self._pods.forget(_identified(request.pod, "pod"))

    def create_container(self, request: api.CreateContainerRequest, call: Call) -> api.CreateContainerResponse | None:
        """``setup``; a result's cgroupsPath becomes the container's."""
        exchanges = self._run_container(request.pod, request.container, State.SETUP, call)
        path = ""
        for exchange in exchanges:  # the last word counts: it has seen the others'
            if exchange.result is not None and exchange.result.cgroups_path:
                path = self._accepted(exchange.plugin, exchange.result.cgroups_path) or path
        if not path:
            return None
        response = api.CreateContainerResponse()
        response.adjust.linux.cgroups_path = path
        return response

    def start_container(self, request: api.StartContainerRequest, call: Call) -> None:
        """``create`` for the container."""
        self._run_container(request.pod, request.container, State.CREATE, call)

    def post_update_container(self, request: api.PostUpdateContainerRequest, call: Call) -> None:
        """``update``: the runtime has written the new limits, so what a plugin changes now stays."""
        self._run_container(request.pod, request.container, State.UPDATE, call)

    def stop_container(self, request: api.StopContainerRequest, call: Call) -> None:
        """``delete`` for the container."""
        self._run_container(request.pod, request.container, State.DELETE, call)

    def wait_until_idle(self, timeout: float) -> bool:
        """Wait until no chain is running, and the log says what is wrong in the configuration.

        At most ``timeout`` seconds; returns whether no chain is running.
        """
        until = time.monotonic() + timeout
        with self._idle:
            is_idle = self._idle.wait_for(lambda: self._busy == 0, timeout)
        self._configuration.explain()
        self._configuration.is_explained(max(0.0, until - time.monotonic()))
        return is_idle

    def _prepare(self, plugins: Sequence[PluginEntry], helpers: Pool) -> None:
        """Start the plugins ahead that can be, so that the first pod does not wait for that."""
        settings = self._settings
        for plugin in plugins:
            try:
                path = find(plugin.type, settings.bin_dirs, check_owner=settings.check_owner)
            except PluginError:
                continue  # as the first request will say
            helpers.prepare(path, plugin.type)

    def _preload(self) -> None:
        """Load what may be needed, when the registration is done: containerd 1.7 synchronizes no launched plugin."""
        self._synchronized.wait(PRELOAD_AFTER)
        preload.load()

    def _current(self) -> ConfigList:
        """The configuration as it is now; its plugins are those that are kept ready."""
        started = time.monotonic()
        configuration = self._configuration.current(check_owner=self._settings.check_owner)
        if log.isEnabledFor(logging.DEBUG):
            what = "is as before" if configuration is self._seen else "was read"
            log.debug("the configuration %s (%.1f ms)", what, (time.monotonic() - started) * 1000)
            self._seen = configuration
        if self._helpers is not None and configuration is not self._served:
            self._served = configuration
            self._helpers.keep([(plugin.type, plugin.prefork) for plugin in configuration.plugins])
        return configuration

    def _tidy(self) -> None:
        """What need not be done before the runtime has its answer."""
        self._configuration.explain()
        helpers = self._helpers
        if helpers is not None:
            helpers.tidy()
        children.reap_late()
        if self._orphans is not None and self._orphans.may_have_orphans():
            with self._counting:
                if self._busy == 0:
                    self._orphans.end_orphans()

    def _use(self, settings: BridgeOptions) -> None:
        known = self._settings
        if (settings.conf_dir, settings.conf_file) != (known.conf_dir, known.conf_file):
            self._configuration = Configuration(settings.conf_dir, settings.conf_file)
        # Else it stays, with its last valid one: a runtime configures us again whenever it was restarted.
        self._settings = settings
        if settings.prefork and self._helpers is None:
            self._helpers = Pool()
        elif self._helpers is not None and not settings.prefork:
            self._helpers.close()
            self._helpers = None

    def _accepted(self, plugin: PluginEntry, path: str) -> str:
        """The path, when a container's cgroup can be there; "" when it can't and that fault is passed over.

        A runtime would take a relative path from the cgroup that it is in itself.
        """
        try:
            expand(path)
            if not path.startswith("/") and ":" not in path:
                raise NRIError(f"cgroupsPath {shorten(repr(path))} is relative, expected one that begins with '/'")
        except NRIError as error:
            what = _for_the_runtime(f"nri v0.1: plugin {plugin.type}: {error}")
            if (plugin.failure_policy or self._settings.failure_policy) == "ignore":
                log.error("%s; it is passed over (failurePolicy: ignore)", what)
                return ""
            log.error("%s", what)
            raise StatusError(Code.FAILED_PRECONDITION, what) from None
        return path

    def _run_container(
        self, pod: api.PodSandbox, container: api.Container, state: State, call: Call
    ) -> list[Exchange]:
        pod = self._pods.complete(_identified(pod, "pod"))
        _identified(container, "container")
        name = f"{pod.namespace}/{pod.name}/{container.name}"
        return self._run(requests.of_container(pod, container, state), pod, call, name=name)

    def _run(
        self, request: Request, pod: api.PodSandbox, call: Call, *, sandbox: bool = False, name: str = ""
    ) -> list[Exchange]:
        name = name or f"{pod.namespace}/{pod.name}"
        settings = self._settings
        exchanges: list[Exchange] = []

        def show(exchange: Exchange) -> None:
            exchange_line(name, request, exchange)
            exchanges.append(exchange)

        configuration = self._current()
        if sandbox and self._runtime_runs_pods:
            others = [plugin for plugin in configuration.plugins if plugin.source != CONTAINERD_CONF_FILE]
            configuration = ConfigList(version=configuration.version, plugins=others)
        client = Client(
            configuration,
            bin_dirs=settings.bin_dirs,
            timeout=settings.plugin_timeout,
            failure_policy=settings.failure_policy,
            check_owner=settings.check_owner,
            log=lambda plugin, line: plugin_line(name, request, plugin, line),
            on_exchange=show,
            run=launch.launch if self._helpers is None else self._helpers.launch,
        )
        with self._counting:
            self._busy += 1
        call.afterwards.append(self._tidy)
        started = time.monotonic()
        refused = ""
        try:
            deadline = None if call.deadline is None else call.deadline - MARGIN
            event_line(name, request, client.chain(request.state), deadline and deadline - started)
            client.invoke(request, request.state, deadline=deadline)
        except ChainError as error:
            refused = _for_the_runtime(f"nri v0.1: {error}")
            raise StatusError(Code.ABORTED, refused) from None
        finally:
            answer_line(name, request, time.monotonic() - started, refused)
            with self._counting:
                self._busy -= 1
                if self._busy == 0:
                    self._idle.notify_all()
        return exchanges


def _for_the_runtime(text: str) -> str:
    """Return an error as the runtime gets it, and shows it to the owner of the pod: one line of bounded length."""
    return bounded(escape(text), MAX_ERROR)


def _identified(message: Identified, what: str) -> Identified:
    if not message.id:
        log.warning("an event without a %s", what)
        raise StatusError(Code.INVALID_ARGUMENT, f"found no {what} in the event, expected one with an id")
    return message
