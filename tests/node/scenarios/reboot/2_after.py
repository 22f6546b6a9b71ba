"""The same node after a reboot: the bridge is there by itself, and the next pod has its plugins."""

from __future__ import annotations

from harness.containerd.cri import Cri
from tests.node.guest import node, processes
from tests.node.guest.shell import run, wait_until


def test_the_bridge_is_there_by_itself_and_serves_the_next_pod() -> None:
    node.wait_for_containerd()
    wait_until("the bridge is synchronized", lambda: "synchronized: " in node.log())
    with Cri(node.SOCKET) as cri:
        pod = node.Pod(cri, "after")
        assert pod.knob("cpu.max") == "max 100000"
        assert pod.knob("cpuset.cpus") == "1-3"
        pod.remove()
    assert len(processes.bridges()) == 1


def test_nothing_is_left_of_before() -> None:
    left = run(
        "find",
        "/run/systemd",
        "/etc/systemd",
        "-name",
        "*CPUQuota*",
        "-o",
        "-name",
        "*AllowedCPUs*",
    )
    assert left == ""
