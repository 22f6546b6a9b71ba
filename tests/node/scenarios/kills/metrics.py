"""The unit of `nri metrics`: it reads the socket of the bridge, and of the next one, with few rights."""

from __future__ import annotations

import re
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.containerd.cri import Cri
from tests.node.guest import node
from tests.node.guest.shell import run, wait_until

UNIT = Path("/etc/systemd/system/nri-metrics.service")
PAGE = "http://127.0.0.1:10753/metrics"


@pytest.fixture(autouse=True)
def unit(cri: Cri) -> Iterator[None]:
    shutil.copy(node.PROJECT / "deploy/monitoring/nri-metrics.service", UNIT)
    run("systemctl", "daemon-reload")
    run("systemctl", "start", "nri-metrics")
    yield
    run("systemctl", "stop", "nri-metrics", status=None)
    UNIT.unlink()
    run("systemctl", "daemon-reload")


def _value(series: str) -> float | None:
    try:
        with urllib.request.urlopen(PAGE, timeout=60) as response:
            text = response.read().decode()
    except OSError:
        return None  # it starts
    found = re.search(rf"^{re.escape(series)} (\S+)$", text, re.MULTILINE)
    return None if found is None else float(found[1])


def _is_up(value: int) -> bool:
    return _value("nri_v1bridge_up") == value


def _sockets(root: Path) -> set[str]:
    """The sockets in /run and /tmp below another root."""
    files = [path for folder in ("run", "tmp") for path in (root / folder).rglob("*")]
    return {f"/{path.relative_to(root)}" for path in files if path.is_socket()}


def test_metrics_follow_the_bridge_with_few_rights(cri: Cri) -> None:
    wait_until("the bridge is seen", lambda: _is_up(1))
    runs = 'nri_v1bridge_plugin_runs_total{outcome="ok",plugin="konfine",source="10.conf",state="create"}'
    before = _value(runs)
    assert before is not None
    pod = node.Pod(cri, "counted")
    # The sandbox and the container.
    wait_until("its runs are counted", lambda: (_value(runs) or 0) >= before + 2)
    pod.remove()

    pid = run("systemctl", "show", "--value", "--property=MainPID", "nri-metrics").strip()
    assert _sockets(Path(f"/proc/{pid}/root")) == {"/run/nri/nri.sock", "/run/nri/v1bridge.sock"}
    assert re.search(r"^CapEff:\t0+$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)

    run("systemctl", "stop", "containerd")  # which ends its bridge, too
    wait_until("the bridge is gone", lambda: _is_up(0))
    run("systemctl", "start", "containerd")
    node.wait_for_containerd()
    wait_until("the next bridge is seen", lambda: _is_up(1))
    assert run("systemctl", "show", "--value", "--property=NRestarts", "nri-metrics").strip() == "0"
