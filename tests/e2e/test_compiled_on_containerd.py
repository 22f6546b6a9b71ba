"""The compiled plugins in /opt/nri/bin of a real containerd 1.6, and what they do to a real container's cgroup."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from harness.containerd.bridged import create, knob
from harness.containerd.cri import Cri
from harness.containerd.instance import Containerd, Release
from tests.e2e import unreserved

pytestmark = pytest.mark.runtime

KONFINE = {"type": "konfine", "conf": {"systemReserved": [0]}}
CLEARCFS = {"type": "clearcfs"}
LATENCY_SENSITIVE = {"qos.class": "ls"}  # a label: containerd 1.6 hands no annotation down


@pytest.fixture
def containerd(containerd_1_6: Release, installed: Path) -> Iterator[Containerd]:
    with Containerd(release=containerd_1_6) as containerd:
        containerd.enclosure.install(installed)
        yield containerd


def configure(containerd: Containerd, *plugins: dict[str, Any]) -> None:
    document = {"version": "0.1", "plugins": list(plugins)}
    (containerd.enclosure.etc_nri / "conf.json").write_text(json.dumps(document))


def test_the_quota_is_cleared_and_the_reserved_cpu_is_kept(containerd: Containerd, cri: Cri, two_cpus: None) -> None:
    configure(containerd, KONFINE, CLEARCFS)
    pod = cri.run_pod("web", labels=LATENCY_SENSITIVE)
    container = create(cri, pod)
    cri.start(container)

    assert knob(containerd, container, "cpu.cfs_quota_us") == "-1"
    assert knob(containerd, container, "cpuset.cpus") == unreserved()
    cri.stop(container)
    cri.stop_pod(pod)


def test_a_container_of_another_class_keeps_its_quota(containerd: Containerd, cri: Cri) -> None:
    configure(containerd, CLEARCFS)
    pod = cri.run_pod("web", labels={"qos.class": "batch"})
    container = create(cri, pod)
    cri.start(container)

    assert knob(containerd, container, "cpu.cfs_quota_us") == "50000"


def test_failing_plugin_makes_the_start_fail(containerd: Containerd, cri: Cri) -> None:
    configure(containerd)
    pod = cri.run_pod("web")
    container = create(cri, pod)
    configure(containerd, {"type": "konfine", "conf": {"systemReserved": "0-8191"}})

    with pytest.raises(grpc.RpcError) as refused:
        cri.start(container)

    message = refused.value.details()
    assert "plugin: konfine: no CPU is left for" in message
    assert "its parent cgroup has 0" in message and "systemReserved is 0-8191" in message


def test_invalid_conf_is_named_in_the_error_of_the_pod(containerd: Containerd, cri: Cri) -> None:
    configure(containerd, {"type": "clearcfs", "conf": {"clases": ["ls"]}})

    with pytest.raises(grpc.RpcError) as refused:
        cri.run_pod("web")

    assert "plugin: clearcfs: conf.clases: unknown key, did you mean classes?" in refused.value.details()
