"""A node with the bridge: a made-up host whose v0.1 plugins keep their requests, and the events of a runtime."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nri.v1bridge import Bridge, BridgeOptions
from nri.v2 import api
from nri.v2.stub import RuntimeInfo
from nri.v2.ttrpc import Call
from nri.v2.ttrpc.ttrpc_pb2 import Request
from tests.support.host import plugin
from tests.support.pods import container, pod
from tests.support.waiting import SOON

if TYPE_CHECKING:
    from nri.config.entries import PluginEntry
    from tests.support.host import Host


def call(seconds: float = SOON) -> Call:
    """A call with a deadline in seconds; 0 for none."""
    return Call(1, Request(method="Test", timeout_nano=int(seconds * 1e9)))


def bridge_options(host: Host, **changes: Any) -> BridgeOptions:
    """BridgeOptions that keep the bridge on this host."""
    places = {
        "conf_dir": str(host.conf),
        "conf_file": f"{host.root}/conf.json",
        "bin_dirs": (str(host.bin),),
    }
    places["record_dir"] = f"{host.root}/v1bridge.record"
    return BridgeOptions(**{**places, "timeout": SOON, **changes})


class Node:
    """The bridge on a host; tests call its handlers as a session does."""

    def __init__(self, host: Host, **changes: Any) -> None:
        self.host = host
        self.bridge = Bridge(bridge_options(host, **changes))
        host.closing.append(self.close)
        self._kept = host.root / "kept"

    def close(self) -> None:
        """End it with its worker, which would write into the log of other tests."""
        self.bridge.chains.stop(for_good=True)
        self.bridge.close()

    def keeper(self, type_: str = "keeper", *do: list[Any], **options: Any) -> PluginEntry:
        """An installed plugin that keeps its requests, and then takes these steps."""
        self.host.install(type_)
        return plugin(type_, ["keep", str(self._kept)], *do, **options)

    @property
    def kept(self) -> list[dict[str, Any]]:
        """The requests, in order."""
        return (
            [json.loads(line) for line in self._kept.read_text().splitlines()]
            if self._kept.exists()
            else []
        )

    @property
    def steps(self) -> list[tuple[str, str]]:
        """State and id of each."""
        return [(request["state"], request["id"]) for request in self.kept]

    def runtime(self, name: str = "containerd", version: str = "1.7.24") -> None:
        self.bridge.configure("", RuntimeInfo(name=name, version=version))

    # The events, of the pod and the container above unless arguments differ

    def run_pod(self, seconds: float = SOON, **changes: Any) -> None:
        self.bridge.run_pod_sandbox(api.RunPodSandboxRequest(pod=pod(**changes)), call(seconds))

    def stop_pod(self, seconds: float = SOON, **changes: Any) -> None:
        self.bridge.stop_pod_sandbox(api.StopPodSandboxRequest(pod=pod(**changes)), call(seconds))

    def remove_pod(self, **changes: Any) -> None:
        self.bridge.remove_pod_sandbox(api.RemovePodSandboxRequest(pod=pod(**changes)), call())

    def create(self, seconds: float = SOON, **changes: Any) -> str:
        """Returns the container's new cgroupsPath; "" to keep the runtime's."""
        request = api.CreateContainerRequest(pod=pod(), container=container(pid=0, **changes))
        response = self.bridge.create_container(request, call(seconds))
        if response is None:
            return ""
        expected = api.CreateContainerResponse()
        expected.adjust.linux.cgroups_path = response.adjust.linux.cgroups_path
        assert response == expected
        return response.adjust.linux.cgroups_path

    def start(self, seconds: float = SOON, **changes: Any) -> None:
        self.bridge.start_container(
            api.StartContainerRequest(pod=pod(), container=container(**changes)), call(seconds)
        )

    def update(self, seconds: float = SOON, **changes: Any) -> None:
        request = api.PostUpdateContainerRequest(pod=pod(), container=container(**changes))
        self.bridge.post_update_container(request, call(seconds))

    def stop(self, seconds: float = SOON, **changes: Any) -> None:
        self.bridge.stop_container(
            api.StopContainerRequest(pod=pod(), container=container(**changes)), call(seconds)
        )

    def live(self) -> None:
        """A pod's whole life, with one container."""
        self.run_pod()
        self.create()
        self.start()
        self.update()
        self.stop()
        self.stop_pod()
        self.remove_pod()
