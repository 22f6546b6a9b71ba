"""What the bridge remembers of pods, for events that omit it."""

from __future__ import annotations

import pytest

from nri.v2 import api
from tests.support.host import Host
from tests.support.node import Node, call
from tests.support.pods import container


@pytest.fixture
def node(host: Host) -> Node:
    return Node(host)


def test_a_pod_that_is_stopped_without_a_word_is_completed(host: Host, node: Node) -> None:
    host.configure(node.keeper())
    node.run_pod()
    said = api.PodSandbox(id="6efd", name="web", namespace="default", annotations={"late": "yes"})
    node.bridge.stop_pod_sandbox(api.StopPodSandboxRequest(pod=said), call())
    begun, ended = node.kept
    assert ended["pid"] == 4711
    assert ended["spec"] == begun["spec"] | {"annotations": {"qos.class": "ls", "late": "yes"}}


def test_a_container_of_a_pod_that_is_hardly_told_has_the_pods_annotations(host: Host, node: Node) -> None:
    host.configure(node.keeper())
    node.run_pod()
    request = api.StopContainerRequest(pod=api.PodSandbox(id="6efd"), container=container(annotations={"a": "b"}))
    node.bridge.stop_container(request, call())
    assert node.kept[-1]["spec"]["annotations"] == {"qos.class": "ls", "a": "b"}
