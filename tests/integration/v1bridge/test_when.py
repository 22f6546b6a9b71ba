"""The bridge runs a plugin only for the containers that its entry's condition is for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from nri.v2 import api
from tests.integration.v1bridge.site import Attached, entry, install
from tests.support.host import Host
from tests.support.node import Node, call
from tests.support.pods import container, pod
from tests.support.waiting import wait_until

SANDBOX, CONTAINER = pod().id, container().id


class Conditional(Attached):
    """A bridge on an embedded runtime, with one plugin that keeps its requests."""

    def __init__(self, host: Host, when: dict[str, Any]) -> None:
        self._node = Node.__new__(Node)  # for its plugin alone
        self._node.host, self._node._kept = host, host.root / "kept"
        host.configure(self._node.keeper(states=["setup", "update"], when=when))
        super().__init__(host, resident=False)

    def live(self, **changes: Any) -> list[tuple[str, str]]:
        """Have a pod with one container live; return the states and ids of the plugin's requests."""
        about, its = pod(**changes), container()
        self.runtime.run_pod_sandbox(about)
        self.runtime.create_container(about, its)
        self.runtime.start_container(about, its)
        self.runtime.post_update_container(about, its)
        self.runtime.stop_container(about, its)
        self.runtime.stop_pod_sandbox(about)
        self.runtime.remove_pod_sandbox(about)
        return self._node.steps


@pytest.fixture
def attach(host: Host) -> Iterator[Any]:
    attached: list[Conditional] = []

    def attach(when: dict[str, Any]) -> Conditional:
        attached.append(Conditional(host, when))
        return attached[-1]

    yield attach
    for each in attached:
        each.close()


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
def test_runs_for_its_condition(
    attach: Any, when: dict[str, Any], changes: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    site = attach(when)
    assert site.live(**changes) == expected
    assert site.keeps_the_bridge()


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


def test_changed_condition_counts_for_the_next_event(host: Host) -> None:
    node = Node(host)
    host.configure(node.keeper(when={"namespaces": ["default"]}))
    node.start()
    host.configure(node.keeper(when={"namespaces": ["other"]}))
    node.stop()
    host.configure_text('{"version":"0.1","plugins":[{"type":"keeper","when":{"namespace":["x"]}}]}')
    node.start()  # with the last valid one
    assert node.steps == [("create", CONTAINER)]


def test_condition_does_not_decide_about_residents(host: Host) -> None:
    install(host, "warm")
    do = f"note({str(host.root / 'ran')!r}, 'ran')"
    host.configure(entry("warm", do, when={"namespaces": ["none"]}))
    site = Attached(host, resident=True)
    try:
        assert wait_until(lambda: len(host.processes()) == 1)
        site.runtime.start_container(pod(), container())
        assert not (host.root / "ran").exists()
        site.runtime.start_container(pod(namespace="none"), container())
        assert (host.root / "ran").exists()
    finally:
        site.close()
