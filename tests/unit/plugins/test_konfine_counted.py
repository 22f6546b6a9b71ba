"""konfine gives containers the CPUs that the kubelet has allocated, and believes nobody else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nri.plugins.konfine import COUNTED, Konfine
from nri.plugins.konfine.picture import draw
from nri.plugins.konfine.record import PROMISED_FOR, Record
from nri.testing import invoke
from tests.support.giving import GivingNode

if TYPE_CHECKING:
    from pathlib import Path

    from nri.types.v1 import Result


@pytest.fixture
def node(tmp_path: Path) -> GivingNode:
    node = GivingNode(tmp_path, cores=4, threads=2)
    node.conf |= {"allow": {}, "exclusive": {"counted": True}}
    node.start("web")
    return node


def counted(node: GivingNode, name: str, listed: str, state: str = "create", **options: Any) -> Result:
    """Run konfine for a container that the kubelet has given devices."""
    node.started[name] = node.make(name)
    request = node.request(state, name, annotations={COUNTED: listed}, **options)
    return invoke(Konfine(), request.replace(own_annotations=(COUNTED,)))


def promise(node: GivingNode, *cpus: int) -> None:
    with Record(str(node.root / "run"), node.sys) as record:
        record.promise(frozenset(cpus), frozenset(cpus))
        record.save()


def test_container_has_alone_what_the_kubelet_allocated(node: GivingNode) -> None:
    metadata = counted(node, "db/main", "1,6").metadata
    assert (metadata["cpus"], metadata["exclusive"], metadata["counted"]) == ("1,6", "2", "1,6")
    assert node.all() == {"web": "0,2-5,7", "db/main": "1,6"}
    node.stop("db/main")
    assert node.all() == {"web": "0-7"}


@pytest.mark.parametrize(
    ("conf", "why"),
    [
        ({"counted": True}, "it is the pod's, not the kubelet's"),
        ({"guaranteed": True}, "conf.exclusive.counted is false"),
    ],
)
def test_what_a_pod_states_itself_gives_nothing(node: GivingNode, conf: dict[str, Any], why: str) -> None:
    node.conf["exclusive"] = conf
    metadata = node.start("db/main", annotations={COUNTED: "1,6"}).metadata
    assert metadata["ignored"] == f"{COUNTED}: {why}"
    assert node.all() == {"web": "0-7", "db/main": "0-7"}


@pytest.mark.parametrize(("listed", "why"), [("1-x", "CPU list '1-x'"), ("", "found an empty list")])
def test_list_that_names_no_cpu_refuses_the_container(node: GivingNode, listed: str, why: str) -> None:
    result = counted(node, "db/main", listed)
    assert result.refused
    assert result.error.startswith(f"{COUNTED}: {why}")


def test_other_cpus_do_where_someone_has_them_already(node: GivingNode) -> None:
    node.conf["allow"] = {"exclusive": True}
    node.start("first", ask=2)
    metadata = counted(node, "db/main", node.cpus("first")).metadata
    assert metadata["counted"] == node.cpus("first") != metadata["cpus"]
    assert metadata["exclusive"] == "2"


@pytest.mark.parametrize(
    ("exclusive", "listed", "cpus"),
    [
        ({"minShared": 6}, "1,6", "1,6"),
        ({"minShared": 7}, "1,6", ""),
        ({"wholeCores": True}, "1,5", "1,5"),
        ({"wholeCores": True}, "1,6", "0,4"),
        ({"wholeCores": True}, "1", ""),
        ({"threads": 1}, "1,3", "1,3"),
        ({"threads": 1}, "1,5", "0-1"),
        ({"threads": 1, "minShared": 4}, "1,3", "1,3"),
        ({"threads": 1, "minShared": 5}, "1,3", ""),
        ({"isolated": "only"}, "1,6", "2-3"),
        ({"isolated": "only"}, "3", "3"),
        ({"isolated": "never"}, "2-3", "0,4"),
        ({}, "1-2", "1-2"),
    ],
)
def test_conf_holds_for_them_too(tmp_path: Path, exclusive: dict[str, Any], listed: str, cpus: str) -> None:
    isolated = "2-3" if "isolated" in exclusive or not exclusive else ""
    node = GivingNode(tmp_path, cores=4, threads=2, isolated=isolated)
    node.conf |= {"allow": {}, "exclusive": {"counted": True} | exclusive}
    node.start("web")
    result = counted(node, "db/main", listed)
    assert (result.metadata.get("cpus", ""), result.refused) == (cpus, not cpus)


def test_admitted_container_finds_its_cpus_though_others_asked_meanwhile(node: GivingNode) -> None:
    node.conf["allow"] = {"exclusive": True}
    promise(node, 1, 5)
    assert "1" not in node.start("first", ask=2).metadata["cpus"]
    assert "an admitted container has 1,5" in node.refusal("more", ask=6)
    assert counted(node, "db/main", "1,5").metadata["cpus"] == "1,5"
    assert [entry["name"] for entry in node.state()["containers"].values() if "counted" in entry] == ["shop/db/main"]


def test_promise_ends_with_the_next_of_its_cpus_and_after_a_while(node: GivingNode) -> None:
    node.conf["allow"] = {"exclusive": True}
    node.start("first", ask=2)
    taken = node.cpus("first")
    promise(node, 1, 5)
    promise(node, 1, 2)
    promise(node, *map(int, taken.split(",")))  # someone has them: nothing is promised
    assert [key for key in node.state()["containers"] if key.startswith("admitted")] == ["admitted 1-2"]
    with Record(str(node.root / "run"), node.sys) as record:
        record.containers["admitted 1-2"]["since"] -= PROMISED_FOR + 121
        record.save()
    node.run("update", "web")
    assert not [key for key in node.state()["containers"] if key.startswith("admitted")]


def test_restarted_and_resized_container_stays_where_it_is(node: GivingNode) -> None:
    counted(node, "db/main", "1,6")
    assert counted(node, "db/main", "1,6", "update").metadata["skipped"] == "it has these CPUs already"
    node.stop("db/main", is_told=False)
    assert counted(node, "db/main#1", "1,6").metadata["cpus"] == "1,6"


def test_picture_says_who_came_by_which_way(node: GivingNode) -> None:
    counted(node, "db/main", "1,6")
    promise(node, 2)
    record = Record(str(node.root / "run"), node.sys)
    record.load()
    lines = "\n".join(draw(record))
    assert "shop/db/main, counted by the scheduler" in lines
    assert "an admitted container, counted by the scheduler, not yet begun" in lines
