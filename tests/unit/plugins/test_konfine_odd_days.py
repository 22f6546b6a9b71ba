"""konfine where its conf, its machine or its neighbours are not as they were: nobody gets what another has."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest

from nri.cgroups import knobs, parse_cpus
from nri.plugins.konfine import Konfine
from nri.testing import invoke
from tests.support.giving import OPEN, GivingNode

if TYPE_CHECKING:
    from pathlib import Path

IO = {"qos.class": "io"}
REQUESTS = {"shares": 1024}


def pool(cpus: str) -> list[dict[str, Any]]:
    return [{"name": "io", "cpus": cpus, "classes": ["io"]}]


def set_online(node: GivingNode, cpus: str) -> None:
    (node.root / "sys/devices/system/cpu/online").write_text(f"{cpus}\n")


def holds_on(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Have the kernel refuse each change of a container's CPUs."""
    real = knobs.put

    def put(path: str, data: Any) -> Any:
        if name in path:
            raise OSError(errno.EBUSY, "busy")
        return real(path, data)

    monkeypatch.setattr(knobs, "put", put)


@pytest.fixture
def node(tmp_path: Path) -> GivingNode:
    return GivingNode(tmp_path, cores=8)


# Another conf


def test_container_of_an_earlier_pool_keeps_its_cpus_until_it_is_asked_itself(
    node: GivingNode,
) -> None:
    node.conf["pools"] = pool("4-5")
    node.start("p", annotations=IO)
    node.conf["pools"] = []
    error = node.refusal("x", ask=7)
    assert "shop/p/p keeps 4-5: the conf has no pool io" in error
    node.start("x", ask=5)
    assert node.sets()["x"].isdisjoint(node.sets()["p"])
    assert node.run("update", "p", annotations=IO).metadata["cpus"] == "4-5,7"


def test_fixed_pool_gets_no_cpu_that_a_container_had_alone_before(node: GivingNode) -> None:
    node.start("x", ask=4)
    node.start("q", annotations=IO)
    node.conf["pools"] = pool("0-3")
    assert "the pool io has no CPU, and none is free" in node.refusal("p", annotations=IO)
    result = node.run("update", "q", annotations=IO)
    assert (result.refused, node.all()) == (True, {"x": "0-3", "q": "4-7"})
    node.conf["pools"] = pool("2-5")
    node.start("p", annotations=IO)
    assert node.all() == {"x": "0-3", "q": "6-7", "p": "4-5"}


def test_restart_takes_no_cpu_that_has_become_a_pools(node: GivingNode) -> None:
    node.start("a/a")
    node.start("a/main", ask=1)
    node.stop("a/main")
    node.conf["pools"] = pool("0-1")
    node.start("p", annotations=IO)
    assert node.cpus("p") == "1"  # what has ended keeps its own for its next start
    assert node.start("a/main#1", ask=1).metadata["cpus"] == "2"
    node.run("update", "p", annotations=IO)
    assert node.cpus("p") == "0-1"


def test_container_to_whom_the_conf_leaves_nothing_is_told_of(node: GivingNode) -> None:
    node.start("web")
    node.start("x", ask=4)
    node.conf["pools"] = pool("4-7")
    metadata = node.start("p", annotations=IO).metadata
    assert metadata["cpus"] == "4-7"
    assert metadata["held"].startswith(
        "shop/web/web keeps 4-7: no CPU is left for the containers that share CPUs"
    )
    assert node.run("update", "x", ask=4).metadata["cpus"] == "0-3"


def test_whole_cores_from_now_on_take_nothing_from_who_has_the_other_thread(tmp_path: Path) -> None:
    node = GivingNode(tmp_path, cores=4, threads=2)
    for name in ("a", "b"):
        node.start(name, ask=1)
    node.conf["exclusive"] = {"threads": 1}
    for name in ("a", "b"):
        node.run("update", name, ask=1)
    assert [entry["cpus"] for entry in node.state()["containers"].values()] == ["0", "4"]


def test_setup_of_a_container_whose_cgroup_the_runtime_chooses_takes_nothing(
    node: GivingNode,
) -> None:
    request = node.request("setup", "x", ask=1)
    assert request.spec is not None
    result = invoke(Konfine(), request.replace(spec=request.spec.replace(cgroups_path="")))
    assert (result.error, result.metadata["cpus"]) == ("", "0")


# Another machine


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_set_that_shrinks_keeps_cpus_that_are_online(node: GivingNode, gone: int) -> None:
    node.start("a", ask=3)
    set_online(node, ",".join(str(cpu) for cpu in range(8) if cpu != gone))
    assert node.run("update", "a", ask=1).error == ""
    assert node.sets()["a"] < {0, 1, 2} - {gone}
    assert node.run("update", "a", ask=2).error == ""
    assert node.sets()["a"] == {0, 1, 2} - {gone}


def test_set_whose_cpus_are_all_offline_is_another_one(node: GivingNode) -> None:
    node.start("a", ask=1)
    set_online(node, "1-7")
    assert node.run("update", "a", ask=1).metadata["cpus"] == "1"


def test_container_of_a_pool_that_is_offline_can_be_released(node: GivingNode) -> None:
    node.conf["pools"] = pool("7")
    node.start("p", annotations=IO)
    set_online(node, "0-6")
    request = node.request("delete", "p", annotations=IO).replace(release=True)
    assert invoke(Konfine(), request).error == ""
    assert node.state()["containers"] == {}


# Neighbours


def test_refusal_for_a_neighbour_that_holds_on_changes_nothing(
    node: GivingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.start("a/a")
    node.start("b", ask=5)
    node.start("a/main", ask=1)
    node.stop("a/main")
    before = node.state()["containers"]
    holds_on(monkeypatch, "a-a")
    assert "shop/a keeps" in node.refusal("a/main#1", ask=2)
    assert node.state()["containers"] == before


def test_container_is_not_bound_to_the_numa_node_of_its_init_container(tmp_path: Path) -> None:
    node = GivingNode(tmp_path, packages=2, cores=8)
    node.start("o", ask=5)
    node.start("a/a")
    node.start("a/init", ask=1, cpu=REQUESTS)
    assert node.sets()["a/init"] < {*range(8)}
    node.stop("a/init")
    node.start("a/main", ask=4, cpu=REQUESTS)
    assert node.sets()["a/main"] < {*range(8, 16)}


def test_set_may_shrink_whatever_must_stay_shared(node: GivingNode) -> None:
    node.start("a", ask=6)
    node.conf["exclusive"] = {"minShared": 6}
    assert node.run("update", "a", ask=4).error == ""
    assert len(parse_cpus(node.cpus("a"))) == 4


@pytest.mark.parametrize("kind", ["v1", "v2"])
def test_container_that_shares_again_has_the_memory_of_all_nodes(tmp_path: Path, kind: str) -> None:
    node = GivingNode(tmp_path, kind, packages=2, cores=4)
    node.conf["exclusive"] = {"memory": True}
    path = node.path("a")
    node.start("a", ask=2)
    effective = "cpuset.mems.effective" if kind == "v2" else "cpuset.effective_mems"
    node.files.put(path.rpartition("/")[0], effective, "0-1\n")
    assert node.files.get(path, "cpuset.mems") == "0"
    node.conf["allow"] = OPEN
    node.run("update", "a")
    assert node.files.get(path, "cpuset.mems") == "0-1"
