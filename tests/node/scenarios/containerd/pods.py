"""Pods in the kubelet's slices: their quota and their CPUs through create and update."""

from __future__ import annotations

import re

import pytest

from harness.containerd.cri import Cri
from tests.node.guest import node
from tests.node.guest.kubelet import show
from tests.node.guest.shell import wait_until


@pytest.mark.core
def test_a_registered_bridge_serves_a_pods_life(cri: Cri) -> None:
    _lives(cri, "registered")


def test_a_bridge_as_a_unit_serves_a_pods_life(cri: Cri) -> None:
    with node.bridge_as_a_unit():
        _lives(cri, "unit")


def _lives(cri: Cri, name: str) -> None:
    pod = node.Pod(cri, name)
    assert pod.knob("cpu.max") == "max 100000"
    assert pod.knob("cpuset.cpus") == "1-3"
    assert pod.slice.knob("cpu.max") == "max 100000"
    # systemd has the same values, so it will not write others.
    assert show(pod.unit, "CPUQuotaPerSecUSec") == "infinity"
    assert show(pod.slice.name, "CPUQuotaPerSecUSec") == "infinity"
    assert show(pod.unit, "AllowedCPUs") == "1-3"

    # In-place resize: the runtime writes the new quota, and then `update` removes it.
    cri.update_resources(pod.container, cpu_quota=20_000, cpu_period=100_000)
    assert pod.knob("cpu.max") == "max 100000"
    assert pod.knob("cpuset.cpus") == "1-3"

    # Another pod keeps its limits.
    other = node.Pod(cri, f"{name}-other", annotations={})
    assert other.knob("cpu.max") == "50000 100000"
    assert other.slice.knob("cpu.max") == "50000 100000"
    other.remove()

    pod.remove()
    for what in (f"container=default/{name}/app", f"pod=default/{name}"):
        line = f'answered state=create {what} id=[0-9a-f]+ ms=[0-9.]+ plugins="clearcfs ok [0-9.]+ms, konfine ok '
        wait_until("the create is logged", lambda: re.search(line, node.log()) is not None)  # noqa: B023
