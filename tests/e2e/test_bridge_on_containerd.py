"""The compiled bridge on real containerd 1.7 and 2.x: v0.1 plugins get what they got on 1.6, and do what they did."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.e2e import cgroups, image
from tests.e2e.containerd import Containerd, Release
from tests.e2e.cri import Cri
from tests.e2e.standin import StandIn

pytestmark = pytest.mark.runtime

KONFINE = {"type": "konfine", "conf": {"systemReserved": [0]}, "states": ["update"]}
CLEARCFS = {"type": "clearcfs", "states": ["update"]}
LOG = "bridge.log"


def configure(containerd: Containerd, *plugins: dict[str, Any]) -> None:
    directory = containerd.enclosure.etc_nri / "resource.d"
    directory.mkdir(exist_ok=True)
    part = directory / ".10.conf.part"
    part.write_text(json.dumps({"version": "0.1", "plugins": list(plugins)}))
    part.rename(directory / "10.conf")


@pytest.fixture
def containerd(containerd_v2: Release, installed: Path) -> Iterator[Containerd]:
    def prepare(enclosure: Any) -> None:
        enclosure.install(installed)
        (enclosure.etc_nri / "conf.d").mkdir()
        settings = {"logFile": str(enclosure.root / LOG), "logLevel": "debug"}
        (enclosure.etc_nri / "conf.d/10-v1bridge.conf").write_text(json.dumps(settings))

    with Containerd(release=containerd_v2, prepare=prepare) as containerd:
        yield containerd
        print((containerd.enclosure.root / LOG).read_text())  # shown when the test fails
        print(containerd.log.read_text()[-3000:])


@pytest.fixture
def cri(containerd: Containerd) -> Iterator[Cri]:
    with containerd.cri() as cri:
        yield cri


def create(cri: Cri, pod: str) -> str:
    return cri.create_container(
        pod, "app", image=image.NAME, command=image.FOREVER, cpu_quota=50_000, cpu_period=100_000
    )


def knob(containerd: Containerd, identity: str, name: str) -> str:
    return cgroups.knob(f"{containerd.enclosure.cgroup_parent}/{identity}", name)


def test_the_quota_is_cleared_and_the_reserved_cpu_is_kept_also_after_an_update(
    containerd: Containerd, cri: Cri, two_cpus: None
) -> None:
    configure(containerd, KONFINE, CLEARCFS)
    pod = cri.run_pod("web", annotations={"qos.class": "ls"})
    container = create(cri, pod)
    cri.start(container)

    last = (os.cpu_count() or 1) - 1
    others = "1" if last == 1 else f"1-{last}"
    assert knob(containerd, container, "cpu.cfs_quota_us") == "-1"
    assert knob(containerd, container, "cpuset.cpus") == others

    cri.update_resources(container, cpu_quota=70_000)

    assert knob(containerd, container, "cpu.cfs_quota_us") == "-1"
    assert knob(containerd, container, "cpuset.cpus") == others


def test_a_plugin_that_fails_makes_the_start_fail_with_its_message(containerd: Containerd, cri: Cri) -> None:
    pod = cri.run_pod("web")
    container = create(cri, pod)
    configure(containerd, {"type": "konfine", "conf": {"systemReserved": "0-8191"}})

    with pytest.raises(grpc.RpcError) as refused:
        cri.start(container)

    assert "nri v0.1: plugin konfine: no CPU is left for" in refused.value.details()


def test_each_plugin_runs_once_for_each_step(containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
    keeper = StandIn(containerd.enclosure.opt_nri / "bin", "keeper", tmp_path / "kept")
    configure(containerd, {"type": "keeper", "states": ["setup", "update"]})

    pod = cri.run_pod("web", labels={"app": "web"}, annotations={"qos.class": "ls"})
    container = create(cri, pod)
    cri.start(container)
    cri.update_resources(container, cpu_quota=70_000)
    cri.stop(container)
    cri.stop_pod(pod)
    cri.remove(container)
    cri.remove_pod(pod)

    assert [(r["state"], r["id"]) for r in keeper.requests()] == [
        ("create", pod),
        ("setup", container),
        ("create", container),
        ("update", container),
        ("delete", container),
        ("delete", pod),
    ]
