"""Which configuration and options the next event has, and the plugins that a runtime runs itself."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from nri.v1bridge import Bridge, BridgeOptions, chains
from nri.v2 import api
from nri.v2.stub import RuntimeInfo
from nri.v2.ttrpc import StatusError
from tests.support.host import Host
from tests.support.node import Node, bridge_options, call
from tests.support.pods import container, pod
from tests.support.waiting import SOON, wait_until


@pytest.fixture
def node(host: Host) -> Node:
    return Node(host)


# Runtimes that run plugins of v0.1 themselves


@pytest.fixture
def shared(host: Host, node: Node, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file whose plugins containerd 2.x runs for pods: a bridge reads it too, where there is no other."""
    path = host.root / "conf.json"
    monkeypatch.setattr(chains, "CONTAINERD_CONF_FILE", str(path))
    entry = node.keeper(states=["setup", "update"])
    path.write_text(json.dumps({"version": "0.1", "plugins": [entry.to_value()]}))
    return path


def test_containerd_2_runs_its_plugins_for_create_and_delete_alone(shared: Path, node: Node) -> None:
    shared.write_text(shared.read_text().replace('"setup"', '"resize"'))
    node.runtime("containerd", "2.3.4")
    node.run_pod()
    node.bridge.update_pod_sandbox(api.UpdatePodSandboxRequest(pod=pod()), call())
    node.bridge.post_update_pod_sandbox(api.PostUpdatePodSandboxRequest(pod=pod()), call())
    node.stop_pod()
    assert node.steps == [("resize", "6efd"), ("update", "6efd")]


@pytest.mark.parametrize("version", ["2.0.0~rc.1", "v10.0.0"])
def test_containerd_2_runs_plugins_of_its_file_for_pods(shared: Path, node: Node, version: str) -> None:
    node.runtime("containerd", version)
    node.live()
    assert node.steps == [("setup", "1f92"), ("create", "1f92"), ("update", "1f92"), ("delete", "1f92")]


OTHERS = [
    ("containerd", "1.7.24"),
    ("containerd", ""),
    ("containerd", "2"),
    ("containerd", "build-2.1.9"),
    ("containerd", "9" * 5000 + ".0"),
    ("Containerd", "2.1.9"),
    ("\x1b[2J\n", "\n"),
]


@pytest.mark.parametrize(("name", "version"), OTHERS, ids=range(len(OTHERS)))
def test_bridge_runs_them_otherwise(
    shared: Path, node: Node, caplog: pytest.LogCaptureFixture, name: str, version: str
) -> None:
    caplog.set_level(logging.INFO, "nri")
    node.runtime(name, version)
    node.run_pod()
    node.stop_pod()
    assert node.steps == [("create", "6efd"), ("delete", "6efd")]
    assert all(line.isprintable() for line in caplog.messages)


def test_plugins_of_other_files_run_for_pods_on_containerd_2_too(shared: Path, host: Host, node: Node) -> None:
    host.configure(node.keeper("other"))
    node.runtime("containerd", "2.1.9")
    node.run_pod()
    assert node.steps == [("create", "6efd")]


def test_downgraded_runtime_is_known_by_its_latest_version(shared: Path, node: Node) -> None:
    node.runtime("containerd", "2.1.9")
    node.run_pod()
    node.runtime("containerd", "1.7.24")
    node.run_pod()
    assert node.steps == [("create", "6efd")]


def test_plugins_of_containerd_2_are_skipped_for_late_sandboxes(shared: Path, node: Node) -> None:
    node.runtime("containerd", "2.1.9")
    node.bridge.synchronize([pod()], [container(state=api.ContainerState.CONTAINER_RUNNING)])
    node.bridge.after_synchronize()
    assert wait_until(lambda: node.steps == [("create", "1f92")])
    assert node.bridge.wait_until_idle(SOON)


# BridgeOptions that a runtime hands over


def adopting(host: Host) -> Bridge:
    bridge = Bridge(BridgeOptions(), lambda text: bridge_options(host, **json.loads(text or "{}")))
    host.closing.append(bridge.close)
    return bridge


def test_settings_that_are_handed_over_count(host: Host) -> None:
    node = Node(host)
    node.bridge = adopting(host)
    host.configure(node.keeper("a", ["error", "no"]))
    node.bridge.configure('{"failure_policy": "ignore"}', RuntimeInfo(name="fake", version="1"))
    node.start()
    node.bridge.configure("", RuntimeInfo(name="fake", version="1"))
    with pytest.raises(StatusError):
        node.start()


def test_last_valid_configuration_outlives_the_runtime(host: Host) -> None:
    node = Node(host)
    node.bridge = adopting(host)
    node.bridge.configure("", RuntimeInfo(name="fake", version="1"))
    host.configure(node.keeper())
    node.run_pod()
    host.configure_text("{")
    node.bridge.configure('{"failure_policy": "ignore"}', RuntimeInfo(name="fake", version="1"))
    node.start()
    assert node.steps == [("create", "6efd"), ("create", "1f92")]


def test_settings_of_the_command_line_win(host: Host, node: Node, caplog: pytest.LogCaptureFixture) -> None:
    host.configure(node.keeper())
    node.bridge.configure('{"confDir": "/nowhere"}', RuntimeInfo(name="fake", version="1"))
    assert "ignoring the options that the runtime hands over" in caplog.text
    node.run_pod()
    assert len(node.kept) == 1
