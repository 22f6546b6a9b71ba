"""A container that was created without a plugin's ``setup`` is not started without a word."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from nri.v2 import api
from nri.v2.ttrpc import StatusError
from tests.integration.cli.running import process
from tests.integration.v1bridge.bridge_process import BridgeProcess, start_container
from tests.support.host import Host
from tests.support.pods import container, pod
from tests.support.runtime import Runtime
from tests.support.status_asking import status_of
from tests.support.waiting import SOON, wait_until

CREATED, RUNNING = api.ContainerState.CONTAINER_CREATED, api.ContainerState.CONTAINER_RUNNING


def configure(bridge: BridgeProcess, **options: Any) -> None:
    """Configure a plugin that wants ``setup``."""
    bridge.host.configure(bridge.node.keeper(states=["setup"], **options))


def connected(bridge: BridgeProcess, *containers: api.Container) -> Runtime:
    """Start the bridge from outside; return its runtime, which has a pod and these containers."""
    bridge.outside()
    runtime = bridge.accept()
    runtime.configure()
    runtime.synchronize([pod()], containers)
    return runtime


def end(bridge: BridgeProcess, runtime: Runtime) -> None:
    """End the bridge as an upgrade does."""
    bridge.signal(signal.SIGTERM)
    assert bridge.wait() == 0, "the bridge ends"
    bridge.child = None
    runtime.close()


def create_container(runtime: Runtime) -> None:
    runtime.event(
        api.Event.CREATE_CONTAINER, api.CreateContainerRequest(pod=pod(), container=container(pid=0, state=CREATED))
    )


def start_error(runtime: Runtime) -> str:
    """Start the container; return the error, "" for none."""
    try:
        start_container(runtime)
    except StatusError as error:
        return str(error)
    return ""


def lines_without(bridge: BridgeProcess) -> list[str]:
    """Return the lines of ``nri status`` that say of the container that it runs without a plugin."""
    root = bridge.host.root
    wait_until(lambda: "default/web" in json.dumps(status_of(root / "v1bridge.sock")), SOON)
    page = process("status", "--socket", str(root / "v1bridge.sock")).stdout
    return [line for line in page.splitlines() if "default/web" in line and "without" in line]


@pytest.fixture
def listening(bridge: BridgeProcess) -> BridgeProcess:
    bridge.listen()
    return bridge


def test_a_container_that_was_created_before_the_bridge_connected_is_not_started(listening: BridgeProcess) -> None:
    configure(listening)
    runtime = connected(listening, container(state=CREATED))
    assert "keeper" in start_error(runtime)


def test_a_container_that_was_created_between_two_bridges_is_not_started(listening: BridgeProcess) -> None:
    configure(listening)
    end(listening, connected(listening))
    runtime = connected(listening, container(state=CREATED))
    assert "keeper" in start_error(runtime)


def test_a_launched_bridge_that_is_not_synchronized_refuses_to_start_what_it_did_not_set_up(
    bridge: BridgeProcess,
) -> None:
    """containerd up to 1.7.25 does not synchronize with a plugin that it launched."""
    configure(bridge)
    runtime = bridge.launch()
    runtime.configure(bridge.settings())
    assert "keeper" in start_error(runtime)


def test_a_container_whose_setup_is_no_longer_on_record_is_not_started(host: Host, listening: BridgeProcess) -> None:
    configure(listening)
    runtime = connected(listening)
    create_container(runtime)
    assert ("setup", "1f92") in listening.node.steps, f"{listening.node.steps} {listening.log}"
    end(listening, runtime)
    for file in host.root.glob("*.record*"):
        file.unlink()
    runtime = connected(listening, container(state=CREATED))
    assert "keeper" in start_error(runtime)


def test_status_lists_a_container_that_was_started_without_a_plugin_with_ignore(listening: BridgeProcess) -> None:
    configure(listening, failure_policy="ignore")
    runtime = connected(listening, container(state=CREATED))
    assert start_error(runtime) == "", "the container starts"
    assert lines_without(listening)


def test_status_lists_a_container_that_runs_without_its_setup_plugin(listening: BridgeProcess) -> None:
    configure(listening)
    connected(listening, container(state=RUNNING))
    assert lines_without(listening)


def test_a_bridge_that_starts_during_an_edit_serves_what_runs_when_the_files_are_back(
    host: Host, listening: BridgeProcess
) -> None:
    host.configure(listening.node.keeper())
    file = host.conf / "10-test.conf"
    listening.outside()
    runtime = listening.accept()
    away = file.rename(host.conf / "10-test.conf.new")
    runtime.configure()
    runtime.synchronize([pod()], [container(state=RUNNING)])
    away.rename(file)
    runtime.close()
    runtime = listening.accept()  # the next synchronization
    runtime.configure()
    runtime.synchronize([pod()], [container(state=RUNNING)])
    assert wait_until(lambda: ("create", "1f92") in listening.node.steps, SOON), json.dumps(listening.node.steps)
