"""The DaemonSet's image on this node: built by podman, run with mounts, privileges and probes of the manifests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.containerd.cri import Cri
from tests.node.guest import node, processes
from tests.node.guest.daemonset import IMAGE, NEXT, DaemonSet, build_images
from tests.node.guest.kubelet import show
from tests.node.guest.shell import run, wait_until


@pytest.fixture(scope="module", autouse=True)
def image() -> None:
    node.use_containerd(2)
    build_images()


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    run("podman", "rm", "--all", "--force", "--time=0")


def _serves(name: str) -> None:
    with Cri(node.SOCKET) as cri:
        pod = node.Pod(cri, name)
        assert pod.knob("cpu.max") == "max 100000"
        assert pod.knob("cpuset.cpus") == "1-3"
        # Systemd was told from inside the container.
        assert show(pod.unit, "CPUQuotaPerSecUSec") == "infinity"
        assert show(pod.unit, "AllowedCPUs") == "1-3"
        pod.remove()


def test_the_image_says_which_glibc_it_needs() -> None:
    said = run(
        "podman",
        "run",
        "--rm",
        "--network=none",
        "--entrypoint=/bin/sh",
        IMAGE,
        "-c",
        "cat /etc/os-release",
    )
    assert "bookworm" in said  # the base; the node is a trixie
    assert run("podman", "run", "--rm", "--network=none", IMAGE, "--version").startswith("nri ")


def test_outside_serves_pods_hands_over_and_is_removed() -> None:
    daemonset = DaemonSet("outside")
    said = daemonset.install()
    plugins = said.rstrip().splitlines()[-1].partition(": ")[2].rpartition(": ")[2]
    assert plugins == "clearcfs device-injector hook-injector konfine logger qos ulimit-adjuster"
    # The same binaries on trixie.
    assert re.fullmatch(r"nri 0\.1\.0.*\n", run("/opt/nri/lib/nri", "--version"))
    node.configure(node.CLEARCFS, node.KONFINE)
    daemonset.start("first")
    wait_until("the first is ready", lambda: daemonset.is_ready("first"))
    _serves("first")

    # An upgrade with maxSurge: the second stands by until the first has ended, and no plugin runs twice.
    lib = Path("/opt/nri/lib")
    before = lib.resolve()
    upgrade = DaemonSet("outside", NEXT)
    upgrade.install()
    assert lib.resolve() != before
    upgrade.start("second")
    wait_until("the second is ready", lambda: daemonset.is_ready("second"))
    wait_until("the second stands by", lambda: "standing by" in run("podman", "logs", "second"))
    _serves("both")
    run("podman", "stop", "--time=10", "first")
    wait_until(
        "the second is connected", lambda: "synchronized: " in run("podman", "logs", "second")
    )
    _serves("second")

    upgrade.install(mode="rollback")
    assert lib.resolve() == before
    _serves("rolled-back")  # plugins of the first build

    run("podman", "stop", "--time=10", "second")
    wait_until("no bridge is left", lambda: not processes.bridges())
    said = DaemonSet("uninstall").install()
    assert "removed all that it had installed" in said
    assert not [path for path in Path("/opt/nri").rglob("*") if path.is_file()]
    assert {path.name for path in Path("/run/nri").iterdir()} <= {"nri.sock"}


def test_pre_registered_installs_what_the_runtime_launches() -> None:
    daemonset = DaemonSet("pre-registered")
    said = daemonset.install()
    assert "restart the runtime once" in said
    node.configure(node.CLEARCFS, node.KONFINE)
    run("systemctl", "restart", "containerd")
    node.wait_for_containerd()
    _serves("registered")

    refused = DaemonSet("outside").install(status=1)
    assert "every plugin would run twice" in refused

    waits = DaemonSet("uninstall").install(status=1)  # the bridge still runs
    assert "needs its plugins" in waits
    run("systemctl", "restart", "containerd")
    node.wait_for_containerd()
    DaemonSet("uninstall").install()
    assert not [path for path in Path("/opt/nri").rglob("*") if path.is_file()]
