"""What is restarted and what is killed; after each the next pod has its plugins, and nothing of ours is left over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.containerd.cri import Cri
from tests.node.guest import node, processes
from tests.node.guest.shell import run, wait_until


@pytest.fixture(autouse=True)
def nothing_is_left(cri: Cri) -> Iterator[None]:
    """One bridge, and only its residents, before and after."""
    _wait_for_one_bridge()
    yield
    _wait_for_one_bridge()


def _wait_for_one_bridge() -> None:
    wait_until("one bridge runs", lambda: len(processes.bridges()) == 1)
    wait_until("only its two residents run", lambda: len(processes.residents()) == 2)


@pytest.mark.core
def test_a_restart_of_containerd(cri: Cri) -> None:
    pod = node.Pod(cri, "stays")
    before = processes.bridges()
    run("systemctl", "restart", "containerd")
    node.wait_for_containerd()
    wait_until("the old bridge has ended", lambda: not set(before) & set(processes.bridges()))
    node.serves("after-restart")
    assert pod.knob("cpu.max") == "max 100000"
    with Cri(node.SOCKET) as again:
        again.stop(pod.container)
        again.stop_pod(pod.id)


def test_a_kill_of_containerd(cri: Cri) -> None:
    before = processes.bridges()
    run("systemctl", "kill", "--signal=KILL", "--kill-whom=main", "containerd")
    wait_until("the old bridge has ended", lambda: not set(before) & set(processes.bridges()))
    node.wait_for_containerd()  # systemd starts it again
    node.serves("after-kill")


@pytest.mark.core
def test_a_kill_of_a_registered_bridge_lasts_until_the_runtime_is_restarted(cri: Cri) -> None:
    processes.kill(processes.bridges())
    wait_until("its residents have ended", lambda: not processes.residents())
    pod = node.Pod(cri, "without")
    # The runtime starts a plugin only when it starts itself.
    assert pod.knob("cpu.max") == "50000 100000"
    run("systemctl", "restart", "containerd")
    node.wait_for_containerd()
    node.serves("after-bridge")
    with Cri(node.SOCKET) as again:
        again.stop(pod.container)
        again.stop_pod(pod.id)
