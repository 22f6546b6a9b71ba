"""What v0.1 plugins ask for in `adjust` and `updates` is done by real containerd 1.7 and 2.x, as seen inside."""

import os
from pathlib import Path
from typing import Any

import pytest

from harness.containerd import image
from harness.containerd.bridged import configure, create, knob
from harness.containerd.cri import Cri
from harness.containerd.instance import Containerd
from tests.e2e.standin import StandIn

pytestmark = pytest.mark.runtime

NULL = {"path": "/dev/given", "type": "c", "major": 1, "minor": 3, "fileMode": 0o666}


def answering(containerd: Containerd, name: str, state: str, **result: Any) -> dict[str, Any]:
    """Install a plugin that answers a state with this result; return its entry of the configuration."""
    plugin = StandIn(containerd.enclosure.opt_nri / "bin", name, containerd.enclosure.root / name)
    plugin.answer_with(state, result)
    return {"type": name, "states": [state]}


def environment(process: Path) -> dict[str, str]:
    pairs = [text.partition("=") for text in (process / "environ").read_text().split("\0") if text]
    return {name: value for name, _, value in pairs}


def two_started(cri: Cri) -> tuple[str, str]:
    """Start two containers in one pod; return their ids."""
    pod = cri.run_pod("web")
    container = create(cri, pod)
    other = cri.create_container(
        pod, "other", image=image.NAME, command=image.FOREVER, cpu_shares=500
    )
    for each in (container, other):
        cri.start(each)
    return container, other


def test_a_container_has_what_plugins_ask_for(
    containerd: Containerd, cri: Cri, tmp_path: Path
) -> None:
    linux = {"devices": [NULL], "resources": {"cpu": {"shares": 300}}}
    first = answering(
        containerd, "first", "setup", adjust={"env": {"LEVEL": "1", "GONE": "1"}, "linux": linux}
    )
    second = answering(
        containerd, "second", "setup", adjust={"env": {"-LEVEL": None, "LEVEL": "2", "GONE": None}}
    )
    keeper = StandIn(containerd.enclosure.opt_nri / "bin", "keeper", tmp_path / "kept")
    configure(containerd, first, second, {"type": "keeper", "states": ["setup"]})

    container = create(cri, cri.run_pod("web"))
    cri.start(container)

    process = containerd.process_of(container)
    assert environment(process)["LEVEL"] == "2"
    assert "GONE" not in environment(process)
    device = os.stat(process / "root/dev/given")
    assert (os.major(device.st_rdev), os.minor(device.st_rdev), device.st_mode & 0o777) == (
        1,
        3,
        0o666,
    )
    assert knob(containerd, container, "cpu.shares") == "300"
    (seen,) = [request for request in keeper.requests() if request["state"] == "setup"]
    assert "LEVEL=2" in seen["spec"]["process"]["env"]
    assert "/dev/given" in [device["path"] for device in seen["spec"]["linux"]["devices"]]
    assert seen["extensions"] == {"adjust": 1}


def test_plugins_change_the_limits_of_a_resize(
    containerd: Containerd, cri: Cri, tmp_path: Path
) -> None:
    container, other = two_started(cri)
    updates = [
        {"id": container, "resources": {"cpu": {"quota": 33_000}}},
        {"id": other, "resources": {"cpu": {"shares": 111}}},
    ]
    configure(containerd, answering(containerd, "limiter", "resize", updates=updates))

    cri.update_resources(container, cpu_quota=70_000, cpu_period=100_000)

    assert knob(containerd, container, "cpu.cfs_quota_us") == "33000"
    assert knob(containerd, other, "cpu.shares") == "111"


def test_a_container_that_stops_leaves_its_share_to_another(
    containerd: Containerd, cri: Cri
) -> None:
    container, other = two_started(cri)
    updates = [{"id": other, "resources": {"cpu": {"shares": 900}}}]
    configure(containerd, answering(containerd, "giver", "delete", updates=updates))
    configure(containerd, {"type": "giver", "failurePolicy": "ignore"})

    cri.stop(container)

    assert knob(containerd, other, "cpu.shares") == "900"
