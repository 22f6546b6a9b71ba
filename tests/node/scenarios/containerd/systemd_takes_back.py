"""What systemd writes again, and that the knobs are still as the plugins set them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from harness.containerd.cri import Cri
from tests.node.guest import node
from tests.node.guest.kubelet import PodSlice, set_properties, show
from tests.node.guest.shell import run, wait_until


@pytest.fixture
def pod(cri: Cri) -> Iterator[node.Pod]:
    pod = node.Pod(cri, "taken")
    _is_as_set(pod)
    yield pod
    pod.remove()


def _is_as_set(pod: node.Pod) -> None:
    found = {
        "container's quota": pod.knob("cpu.max"),
        "container's CPUs": pod.knob("cpuset.cpus"),
        "pod's quota": pod.slice.knob("cpu.max"),
    }
    assert found == {
        "container's quota": "max 100000",
        "container's CPUs": "1-3",
        "pod's quota": "max 100000",
    }


def _daemon_reload(pod: node.Pod) -> None:
    run("systemctl", "daemon-reload")


def _daemon_reexec(pod: node.Pod) -> None:
    run("systemctl", "daemon-reexec")


def _property_of_the_scope(pod: node.Pod) -> None:
    run("systemctl", "set-property", "--runtime", pod.unit, "CPUWeight=30")


def _memory_of_the_scope(pod: node.Pod) -> None:
    run("systemctl", "set-property", "--runtime", pod.unit, "MemoryMax=64M")


def _weight_of_the_slice(pod: node.Pod) -> None:
    """Play the kubelet after an in-place resize that lowers a CPU request."""
    pod.slice.set(CPUWeight=5)


def _cpus_of_the_slice(pod: node.Pod) -> None:
    run("systemctl", "set-property", "--runtime", pod.slice.name, "AllowedCPUs=0-3")


def _sibling_ends(pod: node.Pod) -> None:
    """Let a unit with CPUs of its own end: systemd then takes cpuset away from slices that need it no more."""
    run(
        "systemd-run",
        f"--slice={pod.slice.name}",
        "--unit=sibling",
        "-p",
        "AllowedCPUs=1",
        "sleep",
        "1000",
    )
    run("systemctl", "stop", "sibling")


EVENTS: list[Callable[[node.Pod], None]] = [
    _daemon_reload,
    _daemon_reexec,
    _property_of_the_scope,
    _memory_of_the_scope,
    _weight_of_the_slice,
    _cpus_of_the_slice,
    _sibling_ends,
]
CORE = [_daemon_reload, _weight_of_the_slice]


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(
            event, id=event.__name__.strip("_"), marks=[pytest.mark.core] if event in CORE else []
        )
        for event in EVENTS
    ],
)
def test_the_knobs_stay_as_the_plugins_set_them(
    pod: node.Pod, event: Callable[[node.Pod], None]
) -> None:
    event(pod)
    # systemd writes in its own time: once it has answered a later question about the unit, it has done it.
    show(pod.unit, "CPUQuotaPerSecUSec")
    _is_as_set(pod)


def test_systemd_without_the_property_restores_the_quota_and_the_log_has_it(cri: Cri) -> None:
    node.configure({**node.CLEARCFS, "conf": {**node.CLEARCFS["conf"], "run": "/nonexistent"}})
    pod = node.Pod(cri, "untold")
    assert pod.slice.knob("cpu.max") == "max 100000"
    _weight_of_the_slice(pod)
    assert pod.slice.knob("cpu.max") == "50000 100000"
    said = 'clearcfs.systemd="not told: systemd does not run here: there is no /nonexistent/systemd/system'
    about = "container=default/untold/app"
    wait_until(
        "it is logged",
        lambda: any(said in line and about in line for line in node.log().splitlines()),
    )
    pod.remove()


def _runc_update(pod: node.Pod, *limits: str) -> None:
    """Run runc's own command, beside the runtime: no plugin hears of it."""
    run("runc", "--root", "/run/containerd/runc/k8s.io", "update", *limits, pod.container)


def test_the_knobs_stay_when_runc_updates_another_limit(pod: node.Pod) -> None:
    _runc_update(pod, "--memory", "67108864")
    show(pod.unit, "CPUQuotaPerSecUSec")
    assert pod.knob("memory.max") == "67108864"
    _is_as_set(pod)


def test_a_quota_that_runc_sets_is_removed_by_the_next_update(
    pod: node.Pod, cri: Cri, record_property: Callable[[str, object], None]
) -> None:
    _runc_update(pod, "--cpu-quota", "30000", "--cpu-period", "100000")
    assert pod.knob("cpu.max") == "30000 100000"
    began = time.monotonic()
    cri.update_resources(pod.container, memory_limit_in_bytes=68 << 20)
    record_property(
        "summary", f"as set again when the update returned, after {time.monotonic() - began:.2f} s"
    )
    _is_as_set(pod)


@pytest.mark.core
def test_a_quota_that_comes_back_to_a_pods_slice_is_removed_by_the_next_update(
    pod: node.Pod, cri: Cri
) -> None:
    # The kubelet gives the pod a quota of its own again when its limits change, after the containers.
    pod.slice.set(CPUQuotaPerSecUSec=300_000)
    assert pod.slice.knob("cpu.max") == "30000 100000"
    cri.update_resources(pod.container, cpu_quota=30_000, cpu_period=100_000)
    _is_as_set(pod)


def test_nothing_is_left_of_a_pod(cri: Cri) -> None:
    pod = node.Pod(cri, "left")
    names = (pod.unit, pod.slice.name)
    pod.remove()
    left = run(
        "find", "/run/systemd", "/etc/systemd", "-path", "*pod*", "-o", "-name", f"{names[0]}*"
    )
    assert not [line for line in left.splitlines() if names[0] in line or names[1] in line]


def test_pods_do_not_lend_each_other_their_properties(pod: node.Pod, cri: Cri) -> None:
    other = PodSlice(quota_us=200_000)
    set_properties(other.name, CPUWeight=7)
    assert other.knob("cpu.max") == "20000 100000"
    run("systemctl", "stop", other.name)
