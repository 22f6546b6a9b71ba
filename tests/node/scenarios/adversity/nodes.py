"""Nodes that are not as one expects: read-only places, full disks, clocks that jump, CPUs that come and go."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from harness.containerd.cri import Cri
from tests.node.guest import node
from tests.node.guest.shell import run, wait_until


@pytest.fixture(scope="module", autouse=True)
def unit(installed: None) -> None:
    """containerd 2.x and the bridge as a unit of systemd."""
    node.configure(node.CLEARCFS, node.KONFINE)
    node.use_containerd(2)
    node.enable_bridge()


@pytest.fixture
def cri() -> Iterator[Cri]:
    with Cri(node.SOCKET) as cri:
        yield cri


@contextmanager
def restarted(**options: object) -> Iterator[None]:
    """Run a bridge with other options, or after something about the node has changed."""
    _restart(options)
    try:
        yield
    finally:
        _restart({})


def _restart(options: dict[str, object]) -> None:
    Path("/etc/nri/v1bridge.json").write_text(json.dumps({"logLevel": "debug", **options}))
    run("systemctl", "restart", "nri-v1bridge")
    wait_until(
        "the bridge is connected",
        lambda: run("nri", "status", "--check", status=None).startswith("well"),
    )


@contextmanager
def mounted(*arguments: str, at: str) -> Iterator[None]:
    run("mount", *arguments, at)
    try:
        yield
    finally:
        run("umount", "--lazy", at)


def test_a_root_that_is_read_only(cri: Cri) -> None:
    with (
        mounted("--bind", "-o", "ro", "/opt", at="/opt"),
        mounted("--bind", "-o", "ro", "/usr", at="/usr"),
    ):
        with pytest.raises(OSError, match="Read-only"):
            Path("/opt/nri/x").touch()
        run("systemctl", "restart", "nri-v1bridge")
        wait_until(
            "connected", lambda: run("nri", "status", "--check", status=None).startswith("well")
        )
        node.serves("read-only")


def test_a_tmp_without_exec(cri: Cri) -> None:
    with mounted("-t", "tmpfs", "-o", "noexec,nosuid", "tmpfs", at="/tmp"), restarted():
        node.serves("noexec")


def test_cgroups_that_are_read_only_refuse_the_pod_with_the_reason(cri: Cri) -> None:
    drop_in = Path("/etc/systemd/system/nri-v1bridge.service.d/read-only.conf")
    drop_in.parent.mkdir()
    drop_in.write_text("[Service]\nProtectControlGroups=yes\n")
    run("systemctl", "daemon-reload")
    try:
        with restarted(), pytest.raises(grpc.RpcError) as caught:
            node.Pod(cri, "read-only-cgroups")
    finally:
        drop_in.unlink()
        drop_in.parent.rmdir()
        run("systemctl", "daemon-reload")
        _restart({})
    assert "Read-only file system (EROFS)" in str(caught.value.details())
    node.serves("writable-again")


def test_a_node_without_syslog_and_journal(cri: Cri) -> None:
    target = Path("/dev/log").readlink()
    Path("/dev/log").unlink()
    try:
        with restarted(logFile="/var/log/nri.log"):
            node.serves("no-syslog")
            assert "pod=default/no-syslog" in Path("/var/log/nri.log").read_text()
    finally:
        Path("/dev/log").symlink_to(target)


def test_a_clock_that_jumps(cri: Cri) -> None:
    for jump in ("+ 1 day", "- 2 days", "+ 1 day"):
        run("date", "--set", f"now {jump}")
        node.serves("jump")


def test_a_cpu_that_goes_and_comes_back(cri: Cri) -> None:
    online = Path("/sys/devices/system/cpu/cpu3/online")
    pod = node.Pod(cri, "cpus")
    assert pod.knob("cpuset.cpus") == "1-3"
    online.write_text("0")
    try:
        cri.update_resources(pod.container, cpu_shares=300)
        assert pod.knob("cpuset.cpus.effective") == "1-2"
    finally:
        online.write_text("1")
    cri.update_resources(pod.container, cpu_shares=400)
    assert pod.knob("cpuset.cpus.effective") == "1-3"
    assert pod.knob("cpuset.cpus") == "1-3"
    assert pod.knob("cpu.max") == "max 100000"
    pod.remove()


def test_the_bridge_is_killed_for_memory_and_comes_back(cri: Cri) -> None:
    seen = node.log().count("synchronized: ")
    run("systemctl", "set-property", "--runtime", "nri-v1bridge", "MemorySwapMax=0", "MemoryMax=4M")
    wait_until(
        "it was killed",
        lambda: "oom-kill" in run("journalctl", "--no-pager", "-o", "cat", "-u", "nri-v1bridge"),
    )
    run("systemctl", "set-property", "--runtime", "nri-v1bridge", "MemoryMax=infinity")
    wait_until("it is back", lambda: node.log().count("synchronized: ") > seen)
    node.serves("after-oom")
