"""Whatever a pod's annotations are, konfine answers, and the reserved CPUs are kept."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from nri.config.entries import PluginEntry
from nri.plugins.konfine import ANNOTATION
from nri.testing.cgroup_files import CgroupFiles
from tests.integration.v1bridge.site import Attached
from tests.support.host import Host
from tests.support.pods import container, pod

CONTAINER = "/kubepods/1f92"
LARGE = 4_000_000
"""Bytes: a message of ttRPC has at most 4194304. A pod's annotations have 262144 in Kubernetes."""

SAID = {
    "a bomb": {ANNOTATION: "0-999999999"},
    "reserved CPUs": {ANNOTATION: "0-1"},
    "no CPUs": {ANNOTATION: ""},
    "CPUs that there are not": {f"{ANNOTATION}/pod": "4000-4001", ANNOTATION: "0"},
    "a list of a megabyte": {ANNOTATION: "0," * 500_000},
    "the costliest list": {ANNOTATION: ",".join(["0-8191"] * 9362)},
    "signs of control": {f"{ANNOTATION}/container.\x1b[2J": "\0\n", "io.kubernetes.cri.container-name": "\x1b[2J"},
    "one of four megabytes": {"note": "x" * LARGE},
    "signs that JSON escapes": {"note": "\x01" * LARGE},
    "a hundred thousand": {f"example.com/{number:x}": "" for number in range(100_000)},
    "a class of four megabytes": {"qos.class": "system" * (LARGE // 6)},
    "a class that it may not say": {"qos.class": "system", "qos.class/pod": "system"},
    "the namespace of others": {"qos.class": "system", "io.kubernetes.pod.namespace": "kube-system"},
}


class Reserving(Attached):
    """A bridge with konfine on a runtime, and a made-up tree with one container."""

    def __init__(self, host: Host, *, resident: bool) -> None:
        self.tree = CgroupFiles(host.folder("cgroup"), "v2", "0-7")
        self.tree.make(CONTAINER)
        self.tree.put("/kubepods", "cpuset.cpus.effective", "0-7\n")
        mountinfo = host.root / "mountinfo"
        mountinfo.write_text(self.tree.mountinfo)
        host.compiled("nri.plugins.konfine")
        conf = {"systemReserved": [0, 1], "mountinfo": str(mountinfo), "allow": {"class": ["kube-system"]}}
        host.configure(PluginEntry(type="konfine", states=["update"], failure_policy="ignore", conf=conf))
        super().__init__(host, resident=resident)

    def cpus(self) -> str:
        return self.tree.get(CONTAINER, "cpuset.cpus")


RESIDENT = ("reserved CPUs", "the costliest list", "a hundred thousand")


@pytest.mark.parametrize(
    ("resident", "names"), [(False, SAID), (True, RESIDENT)], ids=["for each request", "resident"]
)
def test_the_reserved_cpus_are_kept_whatever_a_pod_says(host: Host, resident: bool, names: Iterable[str]) -> None:
    site = Reserving(host, resident=resident)
    try:
        for said in names:
            about = pod(annotations=SAID[said], labels={})
            site.runtime.start_container(about, container())
            assert site.cpus() == "2-7", said
            site.tree.put(CONTAINER, "cpuset.cpus", "0-7\n")  # as the runtime does
            site.runtime.post_update_container(about, container())
            assert site.cpus() == "2-7", said
            assert site.keeps_the_bridge(), said
            site.tree.put(CONTAINER, "cpuset.cpus", "0-7\n")
    finally:
        site.close()
