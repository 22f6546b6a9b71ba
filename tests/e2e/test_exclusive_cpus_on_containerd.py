"""Exclusive CPUs by the compiled konfine on real containerd 1.7 and 2.x: who runs where, also after an update."""

import os
from typing import Any

import grpc
import pytest

from harness.containerd.bridged import configure, create, knob, log
from harness.containerd.cri import Cri
from harness.containerd.instance import Containerd
from nri.plugins.konfine import EXCLUSIVE
from tests.support.waiting import wait_until

pytestmark = pytest.mark.runtime

SHOP = {"io.kubernetes.pod.namespace": "shop"}
ALONE = {EXCLUSIVE: "1"}


def started(cri: Cri, name: str, annotations: dict[str, str] | None = None) -> str:
    container = create(cri, cri.run_pod(name, labels=SHOP, annotations=annotations or {}))
    cri.start(container)
    return container


def conf() -> dict[str, Any]:
    """CPUs 0 and 1 are given out, whatever the machine has."""
    others = list(range(2, os.cpu_count() or 2))
    return {"systemReserved": others, "allow": {"exclusive": ["shop"]}}


@pytest.mark.parametrize("states", [["setup", "update"], ["update"]], ids=["setup", "cgroups alone"])
def test_container_runs_alone_until_it_stops(
    containerd: Containerd, cri: Cri, two_cpus: None, states: list[str]
) -> None:
    configure(containerd, {"type": "konfine", "states": states, "conf": conf()})
    web = started(cri, "web")
    pid = int(containerd.process_of(web).name)
    assert knob(containerd, web, "cpuset.cpus") == "0-1"

    db = started(cri, "db", ALONE)
    own = int(containerd.process_of(db).name)
    assert [knob(containerd, each, "cpuset.cpus") for each in (db, web)] == ["0", "1"]
    assert [os.sched_getaffinity(each) for each in (own, pid)] == [{0}, {1}]

    cri.update_resources(web, cpu_quota=40_000, cpu_period=100_000)  # the runtime writes its own CPUs again
    assert [os.sched_getaffinity(each) for each in (own, pid)] == [{0}, {1}]

    with pytest.raises(grpc.RpcError) as refused:
        started(cri, "more", ALONE)
    assert "1 exclusive CPU asked for, 0 are free beside the 1 that must stay shared" in refused.value.details()

    cri.stop(db)
    assert knob(containerd, web, "cpuset.cpus") == "0-1"
    assert wait_until(lambda: os.sched_getaffinity(pid) == {0, 1})
    assert "konfine.moved=" in log(containerd)
