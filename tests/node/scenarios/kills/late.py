"""Pods that start while the bridge is away: they run with their limits until it is back, and are then served once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from harness.containerd.cri import Cri
from tests.node.guest import node, processes
from tests.node.guest.kubelet import show
from tests.node.guest.shell import run, wait_until


@pytest.fixture(autouse=True)
def unit(cri: Cri) -> Iterator[None]:
    with node.bridge_as_a_unit():
        yield


def _late() -> int:
    return node.log().count("it has had no create")


def _is_served(pod: node.Pod) -> bool:
    found = pod.knob("cpu.max"), pod.slice.knob("cpu.max"), pod.knob("cpuset.cpus")
    return found == ("max 100000", "max 100000", "1-3")


@pytest.mark.core
def test_a_pod_that_starts_while_the_service_is_stopped(
    cri: Cri, record_property: Callable[[str, object], None]
) -> None:
    early = node.Pod(cri, "early")
    run("systemctl", "stop", "nri-v1bridge")
    pod, late, seen = node.Pod(cri, "missed"), _late(), node.synchronizations()
    assert pod.knob("cpu.max") == "50000 100000"
    run("systemctl", "start", "nri-v1bridge")
    seconds = wait_until("the pod is served", lambda: _is_served(pod))
    record_property("summary", f"served {seconds:.1f} s after the start of the service")
    assert show(pod.unit, "CPUQuotaPerSecUSec") == "infinity"
    wait_until("it is said", lambda: "late: create succeeded for 2, failed for 0" in node.log())
    assert node.synchronizations() == seen + 1
    assert _late() == late + 2  # the sandbox and its container, and not those of the early pod

    # Once: not again at the next start.
    run("systemctl", "restart", "nri-v1bridge")
    wait_until("the bridge is back", lambda: node.synchronizations() == seen + 2)
    assert _late() == late + 2
    pod.remove()
    early.remove()


@pytest.mark.core
def test_a_kill_of_the_bridge_in_the_service(cri: Cri) -> None:
    before, seen = processes.bridges(), node.synchronizations()
    processes.kill(before)
    pod = node.Pod(cri, "killed")  # while the bridge is away, or just after
    wait_until("systemd has started it again", lambda: node.synchronizations() > seen)
    wait_until("the pod is served", lambda: _is_served(pod))
    wait_until("only one bridge is left", lambda: len(processes.bridges()) == 1)
    pod.remove()
