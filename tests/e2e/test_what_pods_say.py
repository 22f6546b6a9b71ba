"""Real containerd with the samples of conf/resource.d: no pod talks itself out of what they do."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.containerd import image
from harness.containerd.bridged import configure, create, knob, log
from harness.containerd.cri import Cri
from harness.containerd.instance import Containerd
from tests.e2e import unreserved
from tests.support.waiting import SOON, until

pytestmark = pytest.mark.runtime

ANNOTATION = "cpus.konfine.nri.io"
NAMESPACE = "io.kubernetes.pod.namespace"
SYSTEM: dict[str, Any] = {"namespace": "kube-system", "labels": {NAMESPACE: "kube-system"}}  # as the kubelet does
SHOP: dict[str, Any] = {"namespace": "shop", "labels": {NAMESPACE: "shop"}}


@pytest.fixture
def cri(containerd: Containerd, installed: Path) -> Iterator[Cri]:
    """A client of a containerd with the samples."""
    samples = installed / "etc/nri/resource.d"
    plugins = [plugin for file in sorted(samples.iterdir()) for plugin in json.loads(file.read_text())["plugins"]]
    configure(containerd, *plugins)
    with containerd.cri() as cri:
        yield cri
        configure(containerd)
        cri.remove_pods()


@pytest.mark.parametrize(
    "annotations",
    [
        {ANNOTATION: "all"},
        {ANNOTATION: "0," * 60_000},
        {f"{ANNOTATION}/container.app": "\x1b[2J\n", "note": "\x01" * 200_000},
    ],
    ids=lambda annotations: ascii(annotations.get(ANNOTATION, "signs of control"))[:20],
)
def test_wrong_annotations_ignored(
    containerd: Containerd, cri: Cri, annotations: dict[str, str], two_cpus: None
) -> None:
    container = create(cri, cri.run_pod("web", annotations=annotations, **SYSTEM))
    cri.start(container)
    assert knob(containerd, container, "cpuset.cpus") == unreserved()

    cri.update_resources(container, cpu_quota=70_000)
    assert knob(containerd, container, "cpuset.cpus") == unreserved()

    def lines() -> list[str]:
        return [
            line for line in log(containerd).splitlines() if "info answered state=" in line and container[:12] in line
        ]

    until(lambda: len(lines()) == 2, "the lines of create and update", SOON)  # each is logged after its answer
    assert all(" konfine.ignored=" in line and line.isprintable() and len(line) < 1500 for line in lines())


def test_other_namespaces_get_no_reserved_cpu_and_no_quota(containerd: Containerd, cri: Cri, two_cpus: None) -> None:
    for said in ("system", "ls"):
        container = create(cri, cri.run_pod(said, annotations={"qos.class": said, ANNOTATION: "1"}, **SHOP))
        cri.start(container)
        assert knob(containerd, container, "cpu.cfs_quota_us") == "50000"
        assert knob(containerd, container, "cpuset.cpus") == unreserved()
    why = "qos.class: allow.class is not for the namespace shop"
    until(lambda: why in log(containerd), "the line of the event", SOON)


def test_reserved_cpu_is_used_if_the_kubelet_leaves_no_other(
    containerd: Containerd, cri: Cri, two_cpus: None
) -> None:
    for name, labels, cpus in (("web", SHOP, "0"), ("bare", {}, unreserved())):
        pod = cri.run_pod(name, **labels)
        container = cri.create_container(pod, "app", image=image.NAME, command=image.FOREVER, cpuset_cpus="0")
        cri.start(container)
        assert knob(containerd, container, "cpuset.cpus") == cpus
    why = "spec.resources.cpu.cpus: '0' has no CPU of"
    until(lambda: why in log(containerd), "the line of the event", SOON)
