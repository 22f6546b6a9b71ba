"""When the bridge runs a plugin: for the containers that its condition is for, from the first event on."""

from __future__ import annotations

import logging
import sys
from typing import Any

import pytest

from nri import adaptation
from nri.client import resident
from nri.v1bridge import bridge
from nri.v2 import api
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
    ({"sandbox": True}, {"annotations": {"io.kubernetes.cri.container-type": "container"}}, OF_SANDBOX),
    ({"sandbox": False}, {}, OF_CONTAINER),
    ({"runtimeHandler": ["kata*"]}, {"runtime_handler": "kata-qemu"}, ALL),
    ({"labels": {"app": {"equals": "web"}}}, {"labels": {}}, []),
    ({"annotations": {"qos.class": {"pattern": "l*"}}}, {}, ALL),
]


@pytest.mark.parametrize(("when", "changes", "expected"), CASES, ids=str)
def test_plugin_runs_for_its_condition(host: Host, when: Any, changes: dict[str, Any], expected: Any) -> None:
    node = Node(host)  # for its plugin alone
    host.configure(node.keeper(states=["setup", "update"], when=when))
    with Attached(host, resident=False) as site:
        live(site.runtime, **changes)
        assert site.keeps_the_bridge()
    assert node.steps == expected


def test_no_host_tells_a_plugin_its_runtime_handler(host: Host) -> None:
    node = Node(host)
    host.configure(node.keeper(when={"runtimeHandler": ["kata"]}))
    node.run_pod(runtime_handler="kata")
    (request,) = node.kept
    assert "kata" not in str({key: value for key, value in request.items() if key != "conf"})


def test_a_pod_of_which_a_runtime_says_nothing_gets_every_plugin(host: Host) -> None:
    node = Node(host)
    unmet = {"namespaces": ["x"], "runtimeHandler": ["x"], "labels": {"x": {"present": True}}}
    host.configure(node.keeper(when=unmet | {"annotations": {"x": {"present": True}}}))
    said = api.StopContainerRequest(pod=api.PodSandbox(id="6efd"), container=container())
    node.bridge.stop_container(said, call())
    assert node.steps == [("delete", CONTAINER)]


def test_delete_without_annotations_follows_its_create(host: Host) -> None:
    # containerd 1.7 leaves out what its own annotations and the OCI configuration said
    node = Node(host)
    host.configure(node.keeper(when={"annotations": {"io.kubernetes.cri.sandbox-name": {"present": True}}}))
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
