"""A compiled plugin is not run for the states that it says it does not act on."""

from __future__ import annotations

import json
from typing import Any

from nri.v2 import api
from tests.integration.v1bridge.bridge_process import BridgeProcess, start_container
from tests.support.cgroup_node import install_own, require
from tests.support.host import Host
from tests.support.pods import container, pod
from tests.support.status_asking import status_of
from tests.support.waiting import wait_until


def stop_container(runtime: Any) -> None:
    request = api.StopContainerRequest(pod=pod(), container=container())
    runtime.event(api.Event.STOP_CONTAINER, request)


def configure_setup(host: Host) -> None:
    """Configure a plugin that acts on ``setup`` alone."""
    install_own(host, "device-injector")
    entry = {"type": "device-injector", "states": ["setup"], "conf": {"allow": {"devices": ["shop"]}}}
    host.configure_text(json.dumps({"version": "0.1", "plugins": [entry]}))


def test_a_plugin_is_not_run_for_states_that_it_does_not_publish(host: Host, bridge: BridgeProcess) -> None:
    configure_setup(host)
    bridge.listen()
    bridge.outside()
    runtime = bridge.accept()
    runtime.start()

    def status() -> dict[str, Any]:
        return status_of(host.root / "v1bridge.sock")

    def setups() -> int:
        runs = status()["plugins"][0]["runs"]
        return int(runs["setup"]["ok"]) if "setup" in runs else 0

    def live() -> None:
        """Create, start and stop a container, and wait until all of that is counted."""
        before = setups()
        created = api.CreateContainerRequest(pod=pod(), container=container(pid=0))
        runtime.event(api.Event.CREATE_CONTAINER, created)
        start_container(runtime)
        stop_container(runtime)
        require(wait_until(lambda: setups() == before + 1), "the events are counted")

    def others() -> dict[str, Any]:
        """Return the runs for all states but ``setup``."""
        (plugin,) = status()["plugins"]
        return {state: runs for state, runs in plugin["runs"].items() if state != "setup"}

    live()
    require(wait_until(lambda: status()["plugins"][0]["resident"]["state"] == "ready"), "the plugin is loaded")
    before = others()
    for _ in range(5):
        live()
        assert others() == before
