"""An annotation that a pod forges must not make an entry hold that was not meant for the pod."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.cli.running import process
from tests.integration.runtime.conftest import Runtime
from tests.support.cgroup_node import CONTAINER, CgroupNode
from tests.support.host import OCI_CONFIG, Host

CRIO = {"io.kubernetes.pod.namespace": "default", "io.kubernetes.container.name": "redis", "qos.class": "ls"}
"""Annotations that CRI-O writes for a container of the namespace ``default``, and the pod's class."""

FORGED = {
    "namespace": ({"namespaces": ["kube-system"]}, {"io.kubernetes.cri.sandbox-namespace": "x"}),
    "sandbox": ({"sandbox": True}, {"io.kubernetes.cri.container-type": "sandbox"}),
}
"""A condition, and a pod's annotation that contradicts what the runtime wrote."""


def configure(node: CgroupNode, when: dict[str, Any]) -> None:
    node.configure({"type": "clearcfs", "when": when, "conf": node.places})


def config(**annotations: str) -> dict[str, Any]:
    """Return the config.json of a container of this node."""
    return OCI_CONFIG | {"annotations": annotations, "linux": {"cgroupsPath": CONTAINER}}


@pytest.mark.parametrize(("when", "forged"), FORGED.values(), ids=FORGED)
def test_hook_refuses_contradicting_annotations(host: Host, when: dict[str, Any], forged: dict[str, str]) -> None:
    node = CgroupNode(host)
    configure(node, when)
    host.bundle(config(**CRIO, **forged))
    ran = process("hook", "create", *host.options, stdin=host.state())
    assert node.quota() == "50000"
    assert ran.status != 0


@pytest.mark.parametrize(("when", "forged"), FORGED.values(), ids=FORGED)
def test_nri_runc_refuses_contradictions(runtime: Runtime, when: dict[str, Any], forged: dict[str, str]) -> None:
    node = CgroupNode(runtime.host)
    configure(node, when)
    runtime.host.bundle(config(**CRIO, **forged))
    runtime.exists(status="created")
    ran = runtime.run("create", "--bundle", "bundle", "web", cwd=runtime.host.root)
    assert node.quota() == "50000"
    assert ran.returncode != 0
