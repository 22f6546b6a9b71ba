"""A node that works, and is then rebooted."""

from __future__ import annotations

from harness.containerd.cri import Cri
from tests.node.guest import node
from tests.node.guest.shell import run


def test_pods_run_when_the_node_is_rebooted(installed: None) -> None:
    node.configure(node.CLEARCFS, node.KONFINE)
    node.use_containerd(2)
    node.enable_bridge()
    with Cri(node.SOCKET) as cri:
        pod = node.Pod(cri, "before")
        assert pod.knob("cpu.max") == "max 100000"
    run("sync")
