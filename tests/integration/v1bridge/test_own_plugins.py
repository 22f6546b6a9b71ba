"""The project's plugins on a bridge and a made-up tree of cgroups."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.v1bridge.bridge_process import (
    BridgeProcess,
    create_container,
    start_container,
    stop_container,
)
from tests.integration.v1bridge.site import Attached
from tests.support.cgroup_node import (
    CONTAINER,
    OTHER,
    POD,
    CgroupNode,
    CgroupSite,
    install_own,
    site,
)
from tests.support.host import Host
from tests.support.pods import container, pod
from tests.support.status_asking import status_of
from tests.support.waiting import wait_until

__all__ = ["site"]

CPUS = "cpus.konfine.nri.io"
LARGE = 4_000_000
"""Bytes: a message of ttRPC has at most 4194304. A pod's annotations have 262144 in Kubernetes."""

SAID: dict[str, dict[str, str]] = {
    "a bomb": {CPUS: "0-999999999"},
    "reserved CPUs": {CPUS: "0-1"},
    "no CPUs": {CPUS: ""},
    "CPUs that there are not": {f"{CPUS}/pod": "4000-4001", CPUS: "0"},
    "a list of a megabyte": {CPUS: "0," * 500_000},
    "the costliest list": {CPUS: ",".join(["0-8191"] * 9362)},
    "signs of control": {
        f"{CPUS}/container.\x1b[2J": "\0\n",
        "io.kubernetes.cri.container-name": "\x1b[2J",
    },
    "one of four megabytes": {"note": "x" * LARGE},
    "signs that JSON escapes": {"note": "\x01" * LARGE},
    "a hundred thousand": {f"example.com/{number:x}": "" for number in range(100_000)},
    "a class of four megabytes": {"qos.class": "system" * (LARGE // 6)},
    "a class that it may not say": {"qos.class": "system", "qos.class/pod": "system"},
    "the namespace of others": {
        "qos.class": "system",
        "io.kubernetes.pod.namespace": "kube-system",
    },
}


class Reserving(Attached):
    """A bridge with konfine, which keeps a container off the CPUs 0 and 1."""

    def __init__(self, host: Host, *, resident: bool) -> None:
        self.node = CgroupNode(host)
        conf = {"systemReserved": [0, 1], "allow": {"class": ["kube-system"]}, **self.node.places}
        self.node.configure(
            {"type": "konfine", "states": ["update"], "failurePolicy": "ignore", "conf": conf}
        )
        super().__init__(host, resident=resident)

    def cpus_after(self, event: Any, *about: Any) -> str:
        """Return the container's CPUs after an event, before which the runtime has written all."""
        self.node.files.put(CONTAINER, "cpuset.cpus", "0-3\n")
        event(*about)
        return self.node.files.get(CONTAINER, "cpuset.cpus")


@pytest.mark.parametrize(
    ("resident", "names"),
    [(False, [*SAID]), (True, ["reserved CPUs", "the costliest list", "a hundred thousand"])],
    ids=["for each request", "resident"],
)
def test_no_annotation_gives_a_pod_reserved_cpus(
    host: Host, resident: bool, names: list[str]
) -> None:
    app = container(linux={"cgroups_path": CONTAINER})
    with Reserving(host, resident=resident) as site:
        for said in names:
            about = pod(annotations=SAID[said], labels={})
            for event in (site.runtime.start_container, site.runtime.post_update_container):
                assert site.cpus_after(event, about, app) == "2-3", said
            assert site.keeps_the_bridge(), said


UPDATES: list[Callable[[CgroupSite], Any]] = [
    lambda site: site.runtime.post_update_container(site.pod(), site.container("app", CONTAINER)),
    lambda site: site.runtime.post_update_pod_sandbox(site.pod()),
]


@pytest.mark.parametrize("update", UPDATES, ids=["of a container", "of the sandbox"])
def test_clearcfs_keeps_the_quota_of_a_pod_cleared(
    site: CgroupSite, update: Callable[[CgroupSite], Any]
) -> None:
    """It was cleared for one of the pod's two containers."""
    node = site.node
    node.configure({"type": "clearcfs", "states": ["update"], "conf": node.places | {"pod": True}})
    site.runtime.start_container(site.pod(), site.container("side", OTHER))
    site.runtime.start_container(site.pod(), site.container("app", CONTAINER))
    assert [node.quota(path) for path in (OTHER, CONTAINER, POD)] == ["max", "50000", "max"]
    node.limit(POD)  # as the kubelet does
    update(site)
    assert node.quota(CONTAINER) == "50000"
    assert node.quota(POD) == "max"


def test_compiled_plugin_runs_only_for_states_that_it_publishes(
    host: Host, bridge: BridgeProcess
) -> None:
    install_own(host, "device-injector")  # acts on setup alone
    entry = {
        "type": "device-injector",
        "states": ["setup"],
        "conf": {"allow": {"devices": ["shop"]}},
    }
    host.configure_text(json.dumps({"version": "0.1", "plugins": [entry]}))
    runtime = bridge.serve()

    def status() -> dict[str, Any]:
        (plugin,) = status_of(host.root / "v1bridge.sock")["plugins"]
        return dict(plugin)

    def ran(state: str) -> int:
        return int(status()["runs"].get(state, {"ok": 0})["ok"])

    def live() -> None:
        """Create, start and stop a container, and wait until all of that is counted."""
        before = ran("setup")
        create_container(runtime)
        start_container(runtime)
        stop_container(runtime)
        assert wait_until(lambda: ran("setup") == before + 1)

    live()
    assert wait_until(lambda: status()["resident"]["state"] == "ready")
    before = {state: ran(state) for state in ("create", "delete")}
    for _ in range(5):
        live()
        assert {state: ran(state) for state in ("create", "delete")} == before
