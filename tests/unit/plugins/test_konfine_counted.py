"""konfine gives containers the CPUs that the kubelet has allocated, and believes nobody else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nri.cgroups import parse_cpus
from nri.cgroups.topology import Topology
from nri.cli.cpus import Owners, draw, read
from nri.plugins.konfine import COUNTED, Konfine
from nri.plugins.konfine.record import PROMISED_FOR, Record
from nri.testing import invoke
from tests.support.giving import GivingNode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nri.types.v1 import Result


@pytest.fixture
def node(tmp_path: Path) -> GivingNode:
    node = GivingNode(tmp_path, cores=4, threads=2)
    node.conf |= {"allow": {}, "exclusive": {"counted": True}}
    node.start("web")
    return node


def counted(
    node: GivingNode, name: str, listed: str, state: str = "create", **options: Any
) -> Result:
    """Run konfine for a container that the kubelet has given devices."""
    node.started[name] = node.make(name)
    request = node.request(state, name, annotations={COUNTED: listed}, **options)
    return invoke(Konfine(), request.replace(own_annotations=(COUNTED,)))


def promise(node: GivingNode, *cpus: int) -> None:
    with Record(str(node.root / "run"), node.sys) as record:
        record.promise(frozenset(cpus), parse_cpus(node.cpus_of_machine), 1)
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
        ({"wholeCores": True}, "conf.exclusive.counted is false"),
    ],
)
def test_statements_of_a_pod_give_nothing(node: GivingNode, conf: dict[str, Any], why: str) -> None:
    node.conf |= {"exclusive": conf, "allow": {"exclusive": ["elsewhere"]}}
    metadata = node.start("db/main", annotations={COUNTED: "1,6"}).metadata
    assert metadata["ignored"] == f"{COUNTED}: {why}"
    assert node.all() == {"web": "0-7", "db/main": "0-7"}


@pytest.mark.parametrize(
    ("listed", "why"), [("1-x", "CPU list '1-x'"), ("", "found an empty list")]
)
def test_list_that_names_no_cpu_refuses_the_container(
    node: GivingNode, listed: str, why: str
) -> None:
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
        ({}, "1-2", "1-2"),
    ],
)
def test_conf_holds_for_them_too(
    tmp_path: Path, exclusive: dict[str, Any], listed: str, cpus: str
) -> None:
    isolated = "" if exclusive else "2-3"
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
    assert [
        entry["name"] for entry in node.state()["containers"].values() if "counted" in entry
    ] == ["shop/db/main"]


def later(node: GivingNode, seconds: int) -> None:
    """Let time pass for what waits."""
    with Record(str(node.root / "run"), node.sys) as record:
        for entry in record.containers.values():
            if "since" in entry:
                entry["since"] -= seconds
        record.save()
    node.run("update", "web")


def promises(node: GivingNode) -> list[str]:
    return [key for key in node.state()["containers"] if key.startswith("admitted")]


def test_promise_ends_after_a_while(node: GivingNode) -> None:
    node.conf["allow"] = {"exclusive": True}
    node.start("first", ask=2)
    promise(node, 1, 5)
    promise(node, *map(int, node.cpus("first").split(",")))  # someone has them: nothing is promised
    later(node, PROMISED_FOR - 5)
    promise(node, 2)
    assert promises(node) == ["admitted 1,5", "admitted 2"]
    later(node, 10)
    assert promises(node) == ["admitted 2"]


@pytest.mark.parametrize(
    ("init", "main"), [((1, 2, 5, 6), (1, 5)), ((1, 5), (1, 2, 5, 6)), ((1, 5), (1, 5))]
)
def test_containers_of_a_pod_share_devices(
    node: GivingNode, init: tuple[int, ...], main: tuple[int, ...]
) -> None:
    """The kubelet allocates for all of them first, and gives those of an init container again: ``devicesToReuse``."""
    node.conf["allow"] = {"exclusive": True}
    node.start("db/db")
    own, rest = (",".join(map(str, cpus)) for cpus in (init, {*range(8)} - {*init, *main, 0}))
    for cpus in (init, main, (*map(int, rest.split(",")),)):
        promise(node, *cpus)  # the last one makes the node full
    assert parse_cpus(counted(node, "db/init", own).metadata["cpus"]) == {*init}
    node.stop("db/init")
    # An init container without devices, which takes its time.
    node.start("db/wait", cpu={"shares": 512})
    later(node, 400)
    assert "none is free" in node.refusal("x/main", ask=1)
    node.stop("db/wait")
    assert parse_cpus(counted(node, "db/main", ",".join(map(str, main))).metadata["cpus"]) == {
        *main
    }
    node.stop("db/main")
    node.stop("db/db")
    later(node, PROMISED_FOR)
    assert {*node.state()["containers"]} == {node.path("web")}


def test_equal_devices_of_a_pods_containers_are_promised_to_each(node: GivingNode) -> None:
    node.start("db/db")
    for _ in ("init", "main"):
        promise(node, 1, 5)
    counted(node, "db/init", "1,5")
    counted(node, "db/init", "1,5", "update")
    node.stop("db/init")
    assert len(promises(node)) == 1
    assert counted(node, "db/main", "1,5").metadata["cpus"] == "1,5"
    assert promises(node) == []


def test_promise_leaves_others_the_shared_cpus(tmp_path: Path) -> None:
    node = GivingNode(tmp_path, cores=4)
    node.conf |= {"allow": {"exclusive": True}, "exclusive": {"counted": True}}
    node.start("web")
    node.start("x", ask=2)
    promise(node, 2, 3)
    assert promises(node) == []
    node.start("db/db")
    assert "1 is free" in counted(node, "db/main", "2-3").error
    del node.started["db/main"]
    assert node.all() == {"web": "2-3", "x": "0-1", "db/db": "2-3"}


def test_device_of_a_pod_that_is_over_is_promised_though_its_entry_is_left(
    node: GivingNode,
) -> None:
    node.conf["allow"] = {"exclusive": True}
    node.start("a/a")
    counted(node, "a/main", "1,5")
    node.stop("a/main")
    promise(node, 1, 5)
    node.stop("a/a")
    assert "an admitted container has 1,5" in node.refusal("x/main", ask=6)
    assert counted(node, "b/main", "1,5").metadata["cpus"] == "1,5"


@pytest.mark.parametrize("lost", [lambda path: path.write_text("x"), lambda path: path.unlink()])
def test_promise_makes_no_whole_record_of_one_that_is_lost(
    node: GivingNode, lost: Callable[[Path], object]
) -> None:
    node.conf["allow"] = {"exclusive": True}
    node.start("first", ask=2)
    has = node.cpus("first")
    lost(node.record)
    promise(node, 1, 5)
    promise(node, 3)
    assert node.state()["incomplete"]
    metadata = counted(node, "db/main", "1,5").metadata
    assert (metadata["cpus"], "rebuilt" in metadata) == ("1,5", True)
    assert not node.state()["incomplete"]
    shared = {*range(8)} - {1, 3, 5} - parse_cpus(has)
    assert node.sets() == {"web": shared, "first": parse_cpus(has), "db/main": {1, 5}}


def test_restarted_and_resized_container_stays_where_it_is(node: GivingNode) -> None:
    counted(node, "db/main", "1,6")
    assert (
        counted(node, "db/main", "1,6", "update").metadata["skipped"] == "it has these CPUs already"
    )
    node.stop("db/main", is_told=False)
    assert counted(node, "db/main#1", "1,6").metadata["cpus"] == "1,6"


def test_picture_says_who_came_by_which_way(node: GivingNode) -> None:
    counted(node, "db/main", "1,6")
    promise(node, 1, 6)  # of another container of the pod
    promise(node, 2, 6)
    lines = "\n".join(draw(Owners(read(str(node.root / "run"))), Topology.read(node.sys)))
    assert "shop/db/main, counted by the scheduler" in lines
    assert lines.count("an admitted container, counted by the scheduler, not yet begun") == 1
    assert " .a .b .a" not in lines
