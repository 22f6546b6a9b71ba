"""The node's NodeResourceTopology, and an API server that refuses, is away, or has another exporter's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nri.plugins.konfine import RESOURCE

if TYPE_CHECKING:
    from tests.integration.kubernetes.conftest import Counting
    from tests.support.api_server import ApiServer

MANY = {
    "exclusive": {"counted": True},
    "pools": [{"name": "batch", "namespaces": ["batch"], "max": 2}],
}


@pytest.fixture
def exporter(node: Counting, api_server: ApiServer) -> Counting:
    node.agent = node.new_agent("worker-1")
    return node


def counts(zone: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    return {
        item["name"]: (item["capacity"], item["allocatable"], item["available"])
        for item in zone["resources"]
    }


def test_object_has_zones_for_numa_nodes_and_pools(
    exporter: Counting, api_server: ApiServer
) -> None:
    exporter.conf |= MANY | {"systemReserved": [0]}
    exporter.configure()
    exporter.start("db/main", ask=2)
    exporter.start("b", namespace="batch", cpu={"shares": 1536})
    exporter.look()
    made = api_server.objects["worker-1"]
    assert (made["apiVersion"], made["kind"]) == (
        "topology.node.k8s.io/v1alpha2",
        "NodeResourceTopology",
    )
    assert made["metadata"] == {
        "name": "worker-1",
        "labels": {"app.kubernetes.io/managed-by": "nri-device-plugin"},
    }
    zones = {zone["name"]: zone for zone in made["zones"]}
    assert [(zone["name"], zone["type"], zone.get("parent")) for zone in made["zones"]] == [
        *(("node-0", "Node", None), ("node-1", "Node", None), ("pool-batch", "Pool", "node-1")),
    ]
    assert zones["node-0"]["costs"] == [
        {"name": "node-0", "value": 10},
        {"name": "node-1", "value": 32},
    ]
    assert counts(zones["node-0"]) == {"cpu": ("4", "3", "1"), RESOURCE: ("3", "1", "1")}
    # One stays shared.
    assert counts(zones["node-1"]) == {"cpu": ("4", "4", "2"), RESOURCE: ("3", "1", "1")}
    assert counts(zones["pool-batch"]) == {"cpu": ("2", "2", "500m")}
    assert {"name": "konfine.nri.io/policy", "value": "konfine"} in made["attributes"]
    assert api_server.requests[0][:2] == ("PATCH", "fieldManager=nri-device-plugin")


def test_written_at_a_change_at_most_every_5_s_and_every_5_minutes_anyway(
    exporter: Counting, api_server: ApiServer
) -> None:
    def written() -> int:
        return len(api_server.requests)

    exporter.look()
    exporter.start("db/main", ask=2)
    exporter.look(after=1)
    assert written() == 1
    exporter.look(after=4)
    assert written() == 2
    exporter.look(after=299)
    assert written() == 2
    exporter.look(after=1)
    assert written() == 3


@pytest.mark.parametrize(
    ("code", "said", "fix"),
    [
        (
            403,
            "forbidden",
            "the service account to be allowed create, patch and delete of noderesourcetopologies",
        ),
        (
            404,
            "the server could not find the requested resource",
            "the CustomResourceDefinition of topology.node.k8s.io",
        ),
        (
            409,
            "conflict with nfd-topology-updater: .zones",
            "no other exporter of this node's topology",
        ),
        (500, "etcd is away", ""),
    ],
)
def test_refusal_is_one_line_that_says_what_to_do(
    exporter: Counting, api_server: ApiServer, code: int, said: str, fix: str
) -> None:
    api_server.refuses = code, said
    exporter.look()
    (line,) = exporter.said
    assert line.startswith(
        f"topology: NodeResourceTopology worker-1 cannot be written: {code}: {said}"
    )
    assert (f"; expected {fix}" in line) == bool(fix)
    api_server.refuses = None
    exporter.look(after=60)
    assert exporter.said[1:] == ["topology: well again"]
    assert exporter.agent.problems() == []
    exporter.kubelet.until_listed(7)  # the other part is not held up


def test_api_server_that_is_away_is_one_line_and_tried_again(
    exporter: Counting, api_server: ApiServer, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    exporter.look()
    assert "expected the API server of a cluster, and a service account" in exporter.said[-1]
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    exporter.look(after=60)
    assert "worker-1" in api_server.objects
    api_server.close()
    exporter.look(after=400)
    assert "cannot be written: " in exporter.said[-1]


def test_object_goes_with_the_agent(exporter: Counting, api_server: ApiServer) -> None:
    exporter.look()
    exporter.agent.close()
    assert api_server.objects == {}
    exporter.agent.close()  # it is gone already: as good
    assert exporter.said == []


def test_topology_alone_needs_nothing_that_is_counted(
    exporter: Counting, api_server: ApiServer
) -> None:
    exporter.configure(exclusive={"counted": False}, allow={"exclusive": True})
    exporter.look()
    assert counts(api_server.objects["worker-1"]["zones"][0]) == {"cpu": ("4", "4", "4")}
    assert (exporter.agent.problems(), exporter.kubelet.registrations) == ([], [])
