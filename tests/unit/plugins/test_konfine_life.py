"""The life of a pod's containers with CPUs of their own: init containers, restarts, debugging, second lives."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.cgroups import parse_cpus
from nri.plugins.konfine import EXCLUSIVE, Konfine
from nri.testing import invoke
from nri.types.v1 import Request
from tests.support.giving import GivingNode

ONE = {"shares": 1024}


@pytest.fixture
def node(tmp_path: Path) -> GivingNode:
    """Eight CPUs, one container that shares them, and the sandbox of the pod ``db``."""
    node = GivingNode(tmp_path, cores=4, threads=2)
    for name in ("web", "db/db"):
        node.start(name)
    return node


@pytest.mark.parametrize("is_told", [True, False])
def test_container_that_restarts_in_its_pod_has_the_same_cpus(
    node: GivingNode, is_told: bool
) -> None:
    node.start("db/main", ask=2)
    node.stop("db/main", is_told=is_told)
    result = node.start("cache/main", ask=2)
    assert result.metadata == {"exclusive": "2", "cpus": "1,5", "moved": "2 other containers"}
    assert node.cpus("web") == "2-3,6-7"
    result = node.start("db/main#1", ask=2)
    assert result.metadata == {"exclusive": "2", "cpus": "0,4"}  # and nothing has moved twice
    assert (
        len(
            [entry for entry in node.state()["containers"].values() if entry["kind"] == "exclusive"]
        )
        == 2
    )


def test_cpus_are_kept_while_the_pods_sandbox_lives(node: GivingNode) -> None:
    for is_told in (True, False):
        node.start("db/main", ask=2)
        node.stop("db/main")
        assert node.cpus("web") == "1-3,5-7"
        node.stop("db/db", is_told=is_told)
        node.run("update", "web")
        assert node.cpus("web") == "0-7"
        node.start("db/db")


def test_released_container_keeps_no_cpus(node: GivingNode) -> None:
    last = node.start("db/main", ask=2)
    asked = node.request("delete", "db/main", ask=2).replace(prev_result=last, release=True)
    assert invoke(Konfine(), asked).error == ""
    assert node.cpus("web") == "0-7"


def test_restart_that_asks_for_other_cpus_grows_around_or_shrinks_within_them(
    node: GivingNode,
) -> None:
    node.start("db/main", ask=2)
    for restarts, ask in enumerate((4, 1, 3), 1):
        node.stop("db/main" if restarts == 1 else f"db/main#{restarts - 1}")
        before = {
            entry["cpus"]
            for entry in node.state()["containers"].values()
            if entry["kind"] == "exclusive"
        }
        cpus = parse_cpus(node.start(f"db/main#{restarts}", ask=ask).metadata["cpus"])
        kept = parse_cpus(before.pop())
        assert cpus >= kept or cpus <= kept
    assert node.cpus("web") == "4-7" or len(parse_cpus(node.cpus("web"))) == 5


def test_cpus_that_were_reserved_meanwhile_are_not_kept(node: GivingNode) -> None:
    node.start("db/main", ask=2)
    node.stop("db/main")
    node.conf["systemReserved"] = [0]
    assert 0 not in parse_cpus(node.start("db/main#1", ask=2).metadata["cpus"])


def test_cpus_that_went_offline_meanwhile_are_not_kept(node: GivingNode) -> None:
    node.start("db/main", ask=2)
    node.stop("db/main")
    (node.root / "sys/devices/system/cpu/online").write_text("0-3,5-7\n")
    cpus = parse_cpus(node.start("db/main#1", ask=2).metadata["cpus"])
    assert len(cpus) == 2
    assert 4 not in cpus


# Init containers


def test_containers_reuse_the_cpus_of_an_init_container(node: GivingNode) -> None:
    """Each starts when the one before has ended; together they would have no room."""
    for name, ask in (("db/first", 4), ("db/second", 6)):
        node.start(name, ask=ask, cpu=ONE)
        node.stop(name)
    node.start("db/main", ask=3, cpu=ONE)
    node.start("db/side", ask=3, cpu=ONE)  # the rest of it
    assert "on the node" in node.refusal("cache/main", ask=2)
    sets = node.sets()
    assert not sets["db/main"] & sets["db/side"]
    assert not (sets["db/main"] | sets["db/side"]) & sets["web"]


def test_rest_of_an_init_containers_cpus_is_free_after_a_while(
    node: GivingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.start("db/init", ask=6, cpu=ONE)
    node.stop("db/init")
    node.start("db/main", ask=2, cpu=ONE)
    assert node.cpus("web") == "3,7"
    monkeypatch.setattr("nri.plugins.konfine.record.SETUP_WITHIN", -2.0)
    node.run("update", "web")
    assert len(parse_cpus(node.cpus("web"))) == 6


def test_init_containers_cpus_are_free_when_the_others_ask_for_none(
    node: GivingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.start("db/init", annotations={f"{EXCLUSIVE}/container.init": "4"}, cpu=ONE)
    node.stop("db/init", annotations={f"{EXCLUSIVE}/container.init": "4"})
    assert len(parse_cpus(node.start("db/main", cpu=ONE).metadata["cpus"])) == 4
    monkeypatch.setattr("nri.plugins.konfine.record.SETUP_WITHIN", -2.0)
    node.run("update", "web")
    assert node.cpus("web") == "0-7"


def test_container_that_crashes_before_its_siblings_first_start_finds_its_cpus(
    node: GivingNode,
) -> None:
    node.start("db/main", ask=2, cpu=ONE)
    node.stop("db/main", is_told=False)
    node.start("db/side", ask=2, cpu=ONE)
    node.start("cache/main", ask=3, cpu=ONE)  # all that is free
    result = node.start("db/main#1", ask=2, cpu=ONE)
    assert (result.metadata["cpus"], result.error) == ("0,4", "")


def test_cpus_of_what_was_probably_an_init_container_are_anyones_without_room(
    node: GivingNode,
) -> None:
    node.start("db/init", ask=3, cpu=ONE)
    node.stop("db/init")
    node.start("db/main", ask=3, cpu=ONE)
    node.start("cache/main", ask=3, cpu=ONE)
    sets = node.sets()
    assert not sets["cache/main"] & sets["db/main"]


def test_cpus_that_an_init_container_has_left_are_shared_if_too_few_others_are(
    tmp_path: Path,
) -> None:
    """The next one gets others, near each other, when a CPU of the first has gone offline."""
    node = GivingNode(tmp_path, caches=2, cores=2, threads=2)
    node.conf |= {"systemReserved": [0], "exclusive": {"minShared": 2}}
    online = Path(node.sys) / "devices/system/cpu/online"
    online.write_text("0-2,4-7\n")
    node.start("db/db")
    node.start("db/init", ask=3, cpu=ONE)
    node.stop("db/init")
    online.write_text("0-2,4,6-7\n")
    node.start("db/main", ask=3, cpu=ONE)
    assert node.all() == {"db/db": "1,4", "db/main": "2,6-7"}


def test_isolated_cpus_that_a_crashed_container_has_left_are_not_shared_and_wait_for_it(
    tmp_path: Path,
) -> None:
    """All that is not reserved is isolated: no CPU need stay shared."""
    node = GivingNode(tmp_path, cores=4, threads=2, isolated="1-3,5-7")
    node.conf["systemReserved"] = [0, 4]
    node.start("db/db")
    assert node.start("db/main", ask=2, cpu=ONE).metadata["cpus"] == "1,5"
    node.stop("db/main")
    node.start("db/side", ask=2, cpu=ONE)
    node.start("cache/main", ask=2, cpu=ONE)
    assert node.start("db/main#1", ask=2, cpu=ONE).metadata["cpus"] == "1,5"


def test_another_container_that_restarts_takes_no_cpus_of_one_in_its_back_off(
    node: GivingNode,
) -> None:
    node.start("db/main", ask=2, cpu=ONE)
    node.start("db/side", cpu=ONE)
    node.stop("db/main")
    node.stop("db/side")
    node.start("db/side#1", cpu=ONE)
    assert node.cpus("db/side#1") == "1-3,5-7"
    assert node.start("db/main#1", ask=2, cpu=ONE).metadata["cpus"] == "0,4"


# A wish for the whole pod


def test_container_that_requests_no_cpu_shares_them_in_a_pod_that_does(node: GivingNode) -> None:
    """`kubectl debug` adds such a container, and often to one in its back-off."""
    node.start("db/main", ask=4, cpu=ONE)
    node.stop("db/main")
    debug = node.start("db/debug", ask=4, cpu={"shares": 2}).metadata
    assert (debug["cpus"], debug["ignored"]) == (
        "2-3,6-7",
        f"{EXCLUSIVE}: it is for the pod's containers that request CPUs",
    )
    assert node.start("db/main#1", ask=4, cpu=ONE).metadata["cpus"] == "0-1,4-5"
    own = node.start(
        "db/own", annotations={f"{EXCLUSIVE}/container.own": "1"}, cpu={"shares": 2}
    ).metadata
    assert own["exclusive"] == "1"


def test_wish_for_a_pod_without_requests_is_that_of_each_container(node: GivingNode) -> None:
    path = "/kubepods/besteffort/podx/x-main"
    node.files.make(path)
    node.files.put("/kubepods/besteffort/podx", "cpuset.cpus.effective", "0-7\n")
    request = node.request("create", "x/main", ask=2, cpu={"shares": 2})
    assert request.spec is not None
    result = invoke(Konfine(), request.replace(spec=request.spec.replace(cgroups_path=path)))
    assert result.metadata["exclusive"] == "2"


def test_empty_value_for_one_container_takes_it_out_of_the_pods_wish(node: GivingNode) -> None:
    """Nothing else distinguishes a sidecar that requests CPUs."""
    side = node.start("db/side", ask=6, annotations={f"{EXCLUSIVE}/container.side": ""}, cpu=ONE)
    assert "exclusive" not in side.metadata
    assert node.start("db/main", ask=6, cpu=ONE).metadata["exclusive"] == "6"


# Exclusive CPUs beside the shared ones


def test_container_may_have_the_shared_cpus_beside_its_own(node: GivingNode) -> None:
    result = node.start("db/main", ask="2+shared")
    assert result.metadata == {
        "exclusive": "2+shared",
        "cpus": "0-7",
        "moved": "2 other containers",
    }
    assert node.cpus("web") == "1-3,5-7"
    node.start("cache/main", ask=2)
    assert node.all() == {
        "web": "2-3,6-7",
        "db/db": "2-3,6-7",
        "db/main": "0,2-4,6-7",
        "cache/main": "1,5",
    }
    node.stop("cache/main")
    assert node.all() == {"web": "1-3,5-7", "db/db": "1-3,5-7", "db/main": "0-7"}
    assert node.run("update", "db/main", ask="2").metadata["cpus"] == "0,4"


@pytest.mark.parametrize(
    "text", ["2+", "+shared", "2+share", "2 + shared", "2+shared+shared", "0+shared"]
)
def test_wrong_wish_for_both_is_refused(node: GivingNode, text: str) -> None:
    assert node.run("setup", "db/main", ask=text).error.startswith(
        f"{EXCLUSIVE}: found {text!r}, expected a number"
    )


# Second lives, and ids that occur twice


def of_runtime(request: Request, root: str) -> Request:
    assert request.spec is not None
    return request.replace(
        spec=request.spec.replace(cgroups_path=f"/{root}/abc"), id="abc", sandbox_id=""
    )


def test_one_id_under_two_runtimes_is_two_containers(node: GivingNode) -> None:
    for root in ("docker", "podman"):
        node.files.make(f"/{root}/abc")
        node.files.put(f"/{root}", "cpuset.cpus.effective", "0-7\n")
        assert (
            invoke(Konfine(), of_runtime(node.request("create", "x", ask=2), root)).metadata[
                "exclusive"
            ]
            == "2"
        )
    sets = [
        parse_cpus(node.files.get(f"/{root}/abc", "cpuset.cpus")) for root in ("docker", "podman")
    ]
    assert not sets[0] & sets[1]
    assert invoke(Konfine(), of_runtime(node.request("delete", "x"), "docker")).error == ""
    assert parse_cpus(node.cpus("web")) == parse_cpus("0-7") - sets[1]
    setup = node.run("setup", "y/main", ask=1)
    assert [update["id"] for update in setup.updates or []] == ["id-web"]


def test_second_life_of_a_container_asks_anew(node: GivingNode) -> None:
    """podman starts a container of the same id and cgroup again."""
    path = node.started["web"]
    for ask in (2, None, 1):
        node.remove(path)
        node.start("web", ask=ask)
        expected = 8 if ask is None else ask
        assert len(parse_cpus(node.cpus("web"))) == expected
