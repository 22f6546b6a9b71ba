"""When the bridge runs a plugin: for the containers that its condition is for, from the first event on."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from nri import adaptation
from nri.client import resident
from nri.v1bridge import bridge, chains
from nri.v2 import api
from nri.v2.stub import RuntimeInfo
from tests.integration.v1bridge.site import Attached, entry, install, start_error
from tests.support.host import Host, plugin
from tests.support.node import Node, call
from tests.support.pods import container, pod
from tests.support.waiting import SOON, wait_until

SANDBOX, CONTAINER = pod().id, container().id


def live(runtime: adaptation.Runtime, **changes: Any) -> None:
    """Have a pod with one container live."""
    about, its = pod(**changes), container()
    runtime.run_pod_sandbox(about)
    runtime.create_container(about, its)
    runtime.start_container(about, its)
    runtime.post_update_container(about, its)
    runtime.stop_container(about, its)
    runtime.stop_pod_sandbox(about)
    runtime.remove_pod_sandbox(about)


OF_SANDBOX = [("create", SANDBOX), ("delete", SANDBOX)]
OF_CONTAINER = [(state, CONTAINER) for state in ("setup", "create", "update", "delete")]
ALL = [OF_SANDBOX[0], *OF_CONTAINER, OF_SANDBOX[1]]

OTHERS_NAMESPACE = {"io.kubernetes.pod.namespace": "kube-system"}
CASES: list[tuple[dict[str, Any], dict[str, Any], list[tuple[str, str]]]] = [
    # a pod's word for its namespace counts for nothing
    ({"namespaces": ["kube-*"]}, dict.fromkeys(["annotations", "labels"], OTHERS_NAMESPACE), []),
    (
        {"sandbox": True},
        {"annotations": {"io.kubernetes.cri.container-type": "container"}},
        OF_SANDBOX,
    ),
    ({"sandbox": False}, {}, OF_CONTAINER),
    ({"runtimeHandler": ["kata*"]}, {"runtime_handler": "kata-qemu"}, ALL),
    ({"labels": {"app": {"equals": "web"}}}, {"labels": {}}, []),
    ({"annotations": {"qos.class": {"pattern": "l*"}}}, {}, ALL),
]


@pytest.mark.parametrize(("when", "changes", "expected"), CASES, ids=str)
def test_plugin_runs_for_its_condition(
    host: Host, node: Node, when: Any, changes: dict[str, Any], expected: Any
) -> None:
    host.configure(node.keeper(states=["setup", "update"], when=when))
    with Attached(host, resident=False) as site:
        live(site.runtime, **changes)
        assert site.keeps_the_bridge()
    assert node.steps == expected


def test_a_pod_of_which_a_runtime_says_nothing_gets_every_plugin(host: Host, node: Node) -> None:
    unmet = {"namespaces": ["x"], "runtimeHandler": ["x"], "labels": {"x": {"present": True}}}
    host.configure(node.keeper(when=unmet | {"annotations": {"x": {"present": True}}}))
    said = api.StopContainerRequest(pod=api.PodSandbox(id="6efd"), container=container())
    node.bridge.stop_container(said, call())
    assert node.steps == [("delete", CONTAINER)]


def test_delete_without_annotations_follows_its_create(host: Host, node: Node) -> None:
    # containerd 1.7 leaves out what its own annotations and the OCI configuration said
    host.configure(
        node.keeper(when={"annotations": {"io.kubernetes.cri.sandbox-name": {"present": True}}})
    )
    node.run_pod(annotations={"io.kubernetes.cri.sandbox-name": "web"})
    said = api.PodSandbox(id="6efd", name="web", namespace="default")
    node.bridge.stop_pod_sandbox(api.StopPodSandboxRequest(pod=said), call())
    other = Node(host)  # which did not see the pod's start
    other.bridge.stop_pod_sandbox(api.StopPodSandboxRequest(pod=said), call())
    assert node.steps == [("create", SANDBOX), ("delete", SANDBOX), ("delete", SANDBOX)]


def test_condition_does_not_decide_about_residents(host: Host) -> None:
    install(host, "warm")
    do = f"note({str(host.root / 'ran')!r}, 'ran')"
    host.configure(entry("warm", do, when={"namespaces": ["none"]}))
    with Attached(host, resident=True) as site:
        assert wait_until(lambda: len(host.processes()) == 1)
        site.runtime.start_container(pod(), container())
        assert not (host.root / "ran").exists()
        site.runtime.start_container(pod(namespace="none"), container())
        assert (host.root / "ran").exists()


# The bridge loads the plugins before it reports to the runtime that it is ready, if that does not take long


def test_first_event_finds_its_plugin_loaded(
    host: Host, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG, "nri.client")
    monkeypatch.setattr(bridge, "PLUGINS_WITHIN", SOON)  # a machine may be busy
    monkeypatch.setattr(resident, "READY_WITHIN", SOON)
    install(host, "warm")
    host.configure(entry("warm"))
    with Attached(host, resident=True) as site:
        assert start_error(site.runtime) == ""
    assert "rude: its resident answers this request" in caplog.text
    assert "starting a process" not in caplog.text


def test_slow_plugin_delays_no_registration(
    host: Host, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG, "nri.client")
    monkeypatch.setattr(bridge, "PLUGINS_WITHIN", 0.05)
    host.script(
        "slow",
        f"#!{sys.executable} -IS\n# it looks like a plugin of nri.skel, and hangs while it is asked for its version\n"
        "import os, sys, time\n"
        f"while sys.argv[1] != 'invoke' and not os.path.exists({str(host.root / 'go')!r}): time.sleep(0.01)\n"
        'sys.stdin.read()\nprint(\'{"plugin": "slow", "version": "0.1"}\')\n',
    )
    host.configure(plugin("slow"))
    with Attached(host, resident=True) as site:
        assert site.keeps_the_bridge()
        assert start_error(site.runtime) == ""
        assert "slow: starting a process for this request" in caplog.text
        (host.root / "go").touch()


# Runtimes that run plugins of v0.1 themselves


@pytest.fixture
def shared(host: Host, node: Node, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file whose plugins containerd 2.x runs for pods: a bridge reads it too, where there is no other."""
    path = host.root / "conf.json"
    monkeypatch.setattr(chains, "CONTAINERD_CONF_FILE", str(path))
    entry = node.keeper(states=["setup", "update"])
    path.write_text(json.dumps({"version": "0.1", "plugins": [entry.to_value()]}))
    return path


def test_containerd_2_runs_its_plugins_for_create_and_delete_alone(
    shared: Path, node: Node
) -> None:
    shared.write_text(shared.read_text().replace('"setup"', '"resize"'))
    node.runtime("containerd", "2.3.4")
    node.run_pod()
    node.bridge.update_pod_sandbox(api.UpdatePodSandboxRequest(pod=pod()), call())
    node.bridge.post_update_pod_sandbox(api.PostUpdatePodSandboxRequest(pod=pod()), call())
    node.stop_pod()
    assert node.steps == [("resize", "6efd"), ("update", "6efd")]


@pytest.mark.parametrize("version", ["2.0.0~rc.1", "v10.0.0"])
def test_containerd_2_runs_plugins_of_its_file_for_pods(
    shared: Path, node: Node, version: str
) -> None:
    node.runtime("containerd", version)
    node.live()
    assert node.steps == [
        ("setup", "1f92"),
        ("create", "1f92"),
        ("update", "1f92"),
        ("delete", "1f92"),
    ]


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("containerd", "1.7.24"),
        ("containerd", "2"),
        ("containerd", "9" * 5000 + ".0"),
        ("Containerd", "2.1.9"),
    ],
    ids=range(4),
)
def test_bridge_runs_them_otherwise(shared: Path, node: Node, name: str, version: str) -> None:
    node.runtime(name, version)
    node.run_pod()
    node.stop_pod()
    assert node.steps == [("create", "6efd"), ("delete", "6efd")]


def test_plugins_of_other_files_run_for_pods_on_containerd_2_too(
    shared: Path, host: Host, node: Node
) -> None:
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
    node.bridge.idle()
    assert wait_until(lambda: node.steps == [("create", "1f92")])
    assert node.bridge.chains.wait_until_idle(SOON)


# BridgeOptions that a runtime hands over


def test_settings_of_the_command_line_win(
    host: Host, node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    host.configure(node.keeper())
    node.bridge.configure('{"confDir": "/nowhere"}', RuntimeInfo(name="fake", version="1"))
    assert "ignoring the options that the runtime hands over" in caplog.text
    node.run_pod()
    assert len(node.kept) == 1
