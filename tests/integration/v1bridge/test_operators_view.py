"""What an operator is told of a rollout that fails, of two bridges on a node, and of containers' secrets."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nri.v2 import api
from nri.v2.ttrpc import StatusError
from tests.integration.cli.running import process
from tests.integration.v1bridge.bridge_process import BridgeProcess, start_container
from tests.support.host import Host, plugin
from tests.support.pods import container, pod
from tests.support.runtime import Runtime
from tests.support.status_asking import status_of
from tests.support.waiting import wait_until

SECRETS = ("argument-s3cret", "environment-s3cret")


def create_container(runtime: Runtime, **changes: Any) -> None:
    created = api.CreateContainerRequest(pod=pod(), container=container(pid=0, **changes))
    runtime.event(api.Event.CREATE_CONTAINER, created)


def stop_container(runtime: Runtime) -> None:
    request = api.StopContainerRequest(pod=pod(), container=container())
    runtime.event(api.Event.STOP_CONTAINER, request)


def status(bridge: BridgeProcess, *words: str) -> Any:
    return process("status", "--socket", str(bridge.host.root / "v1bridge.sock"), *words)


# A rollout


@pytest.mark.parametrize(("state", "event"), [("setup", create_container), ("create", start_container)])
def test_a_plugin_that_refuses_every_container_degrades_the_bridge(
    host: Host, bridge: BridgeProcess, runtime: Runtime, state: str, event: Any
) -> None:
    refuse = f'case $request in *\'"state":"{state}"\'*) exit 3 ;; esac'
    host.script("refusing", f"#!/bin/sh\nrequest=$(cat)\n{refuse}\necho '{{}}'\n")
    host.configure(plugin("refusing", states=["setup"] if state == "setup" else []))
    with pytest.raises(StatusError, match="refusing"):
        event(runtime)
    stop_container(runtime)  # which the runtime sends after a refusal
    path = host.root / "v1bridge.sock"
    assert wait_until(lambda: "delete" in status_of(path)["plugins"][0]["runs"]), "the plugin got its delete"
    ran = status(bridge, "--check")
    assert ran.status == 1
    assert "refusing" in ran.stdout


# Two bridges


def pid_of(bridge: BridgeProcess) -> int:
    assert bridge.child is not None
    return bridge.child.pid


def test_a_second_bridge_stands_by_though_the_lock_of_the_first_one_was_removed(
    host: Host, bridge: BridgeProcess, runtime: Runtime, second: BridgeProcess
) -> None:
    (host.root / "v1bridge.lock").unlink()
    second.outside()
    assert wait_until(lambda: f"standing by: the bridge with pid {pid_of(bridge)} serves this node" in second.log)
    assert "connected as" not in second.log
    bridge.signal(signal.SIGKILL)
    bridge.accept()
    assert wait_until(lambda: "the other bridge has ended" in second.log)


def test_pgrep_finds_a_bridge_that_is_started_as_a_service(bridge: BridgeProcess, runtime: Runtime) -> None:
    found = subprocess.run(["pgrep", "v1bridge"], capture_output=True, text=True, check=False).stdout.split()
    assert str(pid_of(bridge)) in found


# Secrets


def places_of_secrets(host: Host, bridge: BridgeProcess) -> list[str]:
    """Return where the secrets of a container are shown or kept."""
    shown = {
        "nri status --pod": status(bridge, "--pod", "default/web").stdout,
        "nri status --pod --json": status(bridge, "--pod", "default/web", "--json").stdout,
        "nri status": status(bridge).stdout,
        "the log": bridge.log,
    }
    kept = {path.name: path.read_text(errors="replace") for path in host.root.iterdir() if path.is_file()}
    return sorted(place for place, text in (shown | kept).items() if any(secret in text for secret in SECRETS))


def test_no_environment_and_no_arguments_of_a_container_are_kept_or_shown(
    host: Host, bridge: BridgeProcess, runtime: Runtime
) -> None:
    host.script("failing", "#!/bin/sh\ncat >/dev/null\nexit 3\n")
    host.configure(plugin("failing", states=["setup"], failure_policy="ignore"))
    create_container(runtime, args=["sh", SECRETS[0]], env=[f"TOKEN={SECRETS[1]}"])
    has_exchange = lambda: "setup" in status(bridge, "--pod", "default/web").stdout  # noqa: E731
    assert wait_until(has_exchange), "the exchange is kept"
    assert places_of_secrets(host, bridge) == []


# A /run that others can write to


@pytest.fixture
def open_run(host: Host, bridge: BridgeProcess) -> Path:
    """A launched bridge whose files belong in a directory that others can write to."""
    folder = host.folder("open")
    os.chmod(folder, 0o777)
    settings = bridge.settings(recordFile=str(folder / "v1bridge.record"))
    (host.root / "settings.json").write_text(settings)
    launched = bridge.launch()
    launched.configure(settings)
    launched.synchronize()
    start_container(launched)
    assert not (folder / "v1bridge.sock").exists(), "there is no status socket"
    return folder


def test_a_bridge_without_a_status_socket_logs_that_as_an_error(bridge: BridgeProcess, open_run: Path) -> None:
    def lines() -> list[str]:
        return [line for line in bridge.log.splitlines() if "v1bridge.sock" in line]

    assert wait_until(lines), "the log names the status socket"
    assert [line for line in lines() if " error " in line]


def test_status_does_not_guess_the_version_of_a_bridge_without_a_socket(
    bridge: BridgeProcess, open_run: Path
) -> None:
    ran = status(bridge, "--check")
    assert ran.status == 2, ran.stdout
    assert "earlier version" not in ran.stdout
