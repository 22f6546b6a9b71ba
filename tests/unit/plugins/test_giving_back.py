"""Release and reapply: what clearcfs, konfine and qos give back of what they did, and what they leave alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nri.plugins.clearcfs import ClearCFS
from nri.plugins.konfine import Konfine
from nri.plugins.qos import QoS
from nri.testing import invoke
from nri.types.v1 import Result
from tests.support.giving import GivingNode
from tests.unit.plugins.running import CONTAINER, KINDS, POD, PluginNode

LS = {"qos.class": "ls"}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def again(node: PluginNode, last: Result, conf: Any = None, **options: Any) -> Result:
    """Run with the last result, as a host does."""
    result = node.run(conf, prev_result=last, **options)
    assert result.error == ""
    return result


def release(node: PluginNode, last: Result, conf: Any = None, **options: Any) -> Result:
    return again(node, last, conf, state="delete", release=True, **options)


# clearcfs


@pytest.fixture
def cleared(kind: str) -> tuple[PluginNode, Result]:
    node = PluginNode(ClearCFS(), kind)
    node.limit(CONTAINER, 50_000)
    node.limit(POD, 200_000, 50_000)
    last = node.run({"pod": True}, annotations=LS)
    assert not node.is_limited(CONTAINER)
    return node, last


def quotas(node: PluginNode) -> list[str]:
    if node.tree.kind == "v2":
        return [node.tree.get(f"{path}/cpu.max") for path in (CONTAINER, POD)]
    return [node.tree.get(f"{path}/cpu.cfs_quota_us") for path in (CONTAINER, POD)]


def test_released_container_gets_its_quotas_again(cleared: tuple[PluginNode, Result]) -> None:
    node, last = cleared
    # Which had nothing to clear.
    last = again(node, last, {"pod": True}, state="update", annotations=LS)
    done = release(node, last, {"pod": True}, annotations=LS).metadata
    assert (done["restored"], done["podRestored"]) == ("50000/100000", "200000/50000")
    assert quotas(node) == (
        ["50000 100000", "200000 50000"] if node.tree.kind == "v2" else ["50000", "200000"]
    )


def test_cpu_resources_without_a_quota_say_nothing_of_it(
    cleared: tuple[PluginNode, Result],
) -> None:
    node, last = cleared
    resources = {"cpu": {"shares": 512}}
    done = release(node, last, {"pod": True}, annotations=LS, resources=resources).metadata
    assert done["restored"] == "50000/100000"


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        ({"quota": 20_000}, "20000/100000"),
        ({"quota": 20_000, "period": 50_000}, "20000/50000"),
        ({"quota": -1}, None),
    ],
)
def test_the_quota_that_the_runtime_wants_now_counts(
    cleared: tuple[PluginNode, Result], cpu: dict[str, int], expected: str | None
) -> None:
    node, last = cleared
    done = release(node, last, {"pod": True}, annotations=LS, resources={"cpu": cpu}).metadata
    assert done.get("restored") == expected


def test_class_that_is_not_of_the_conf_any_more_gets_its_quota_again(
    cleared: tuple[PluginNode, Result],
) -> None:
    node, last = cleared
    done = again(node, last, {"classes": ["db"]}, late=True, annotations=LS).metadata
    assert done["restored"] == "50000/100000"
    assert done["skipped"] == "class=ls, not in [db]"


@pytest.mark.parametrize(
    "last", [None, {}, {"quota": "x/y"}, {"quota": "max/100000"}, {"quota": "1"}]
)
def test_nothing_is_given_back_without_a_quota_that_was_cleared(
    kind: str, last: dict[str, str] | None
) -> None:
    node = PluginNode(ClearCFS(), kind)
    before = quotas(node)
    result = None if last is None else Result(plugin="clearcfs", metadata=last)
    assert node.fine(prev_result=result, state="delete", release=True) == {}
    assert quotas(node) == before


def test_quota_that_was_set_since_stays(cleared: tuple[PluginNode, Result]) -> None:
    node, last = cleared
    node.limit(CONTAINER, 70_000)
    assert "restored" not in release(node, last).metadata
    assert quotas(node)[0].startswith("70000")


# konfine


def test_released_container_gets_its_parents_cpus(kind: str) -> None:
    node = PluginNode(Konfine(), kind)
    last = node.run({"systemReserved": "0-1"})
    assert node.cpus() == "2-7"
    assert release(node, last, {"systemReserved": "0-1"}).metadata == {"restored": "0-7"}
    assert node.cpus() == "0-7" if kind == "v1" else node.cpus() in ("", "0-7")


def test_changed_conf_moves_a_container(kind: str) -> None:
    node = PluginNode(Konfine(), kind)
    last = node.run({"systemReserved": "0"})
    again(node, last, {"systemReserved": "1"}, late=True)
    assert node.cpus() == "0,2-7"


def test_cpus_that_were_set_since_stay(kind: str) -> None:
    node = PluginNode(Konfine(), kind)
    last = node.run({"systemReserved": "0-1"})
    node.give(CONTAINER, "3")
    assert "skipped" in release(node, last, {"systemReserved": "0-1"}).metadata
    assert node.cpus() == "3"


# qos


class Knobs(PluginNode):
    """A node of v2 with the class LS, whose knobs are in the conf."""

    def __init__(self, tmp_path: Path) -> None:
        super().__init__(QoS())
        self.tree.put(f"{CONTAINER}/memory.max", "1000000")
        self.base = {"run": str(tmp_path), "allow": {"class": True}}

    def conf(self, **knobs: Any) -> dict[str, Any]:
        return self.base | {"containers": {"LS": knobs}, "pods": {"LS": {"cpu.weight": 500}}}

    def get(self, name: str, path: str = CONTAINER) -> str:
        return self.tree.get(f"{path}/{name}")


OF_CLASS: dict[str, Any] = {
    "annotations": {"koordinator.sh/qosClass": "LS"},
    "labels": {"io.kubernetes.pod.namespace": "default"},
}


@pytest.fixture
def knobs(tmp_path: Path) -> Knobs:
    return Knobs(tmp_path)


def test_released_container_and_pod_get_their_knobs_again(knobs: Knobs) -> None:
    before = [knobs.get(name) for name in ("cpu.weight", "memory.high")] + [
        knobs.get("cpu.weight", POD)
    ]
    conf = knobs.conf(**{"cpu.weight": 300, "memory.high": "80% of limit"})
    last = knobs.run(conf, **OF_CLASS)
    assert (knobs.get("cpu.weight"), knobs.get("cpu.weight", POD)) == ("300", "500")
    # Which changes nothing, and forgets nothing.
    last = again(knobs, last, conf, state="update", **OF_CLASS)
    done = release(knobs, last, conf, **OF_CLASS).metadata
    assert done["memory.high"] == "max, restored"
    after = [knobs.get(name) for name in ("cpu.weight", "memory.high")] + [
        knobs.get("cpu.weight", POD)
    ]
    assert after == before


@pytest.mark.parametrize("of_pod", [False, True], ids=["container", "pod"])
def test_idle_cgroup_takes_a_weight_while_it_is_resized(knobs: Knobs, of_pod: bool) -> None:
    """The kernel refuses any weight of an idle cgroup, so each update of the runtime failed."""
    options: dict[str, Any] = OF_CLASS | ({"id": "pod"} if of_pod else {})
    place = POD if of_pod else CONTAINER
    conf = knobs.conf(**{"memory.low": 4096, "cpu.idle": True})
    conf["pods"] = {"LS": {"cpu.idle": True}}
    last = knobs.run(conf, **options)
    assert knobs.get("cpu.idle", place) == "1"
    last = again(knobs, last, conf, state="resize", **options)
    assert knobs.get("cpu.idle", place) == "0"
    last = again(knobs, last, conf, state="update", **options)
    assert knobs.get("cpu.idle", place) == "1"
    done = release(knobs, last, conf, **options).metadata
    assert knobs.get("cpu.idle", place) == "0"
    assert of_pod or done["memory.low"] == "0, restored"  # a resize forgets nothing


@pytest.mark.parametrize(("new", "burst"), [(150000, "150000"), (300000, "200000")])
def test_burst_of_a_pod_is_lowered_to_the_quota_that_it_gets(
    knobs: Knobs, new: int, burst: str
) -> None:
    """A resize of the sandbox has the resources of the whole pod."""
    knobs.tree.put(f"{POD}/cpu.max", "220000 100000")
    knobs.tree.put(f"{POD}/cpu.max.burst", "200000")
    knobs.fine(
        knobs.base, state="resize", id="pod", resources={"cpu": {"quota": new, "period": 100000}}
    )
    assert knobs.get("cpu.max.burst", POD) == burst


def test_knob_that_left_the_table_goes_back(knobs: Knobs) -> None:
    last = knobs.run(knobs.conf(**{"cpu.weight": 300, "memory.low": 4096}), **OF_CLASS)
    done = again(knobs, last, knobs.conf(**{"cpu.weight": 400}), late=True, **OF_CLASS).metadata
    assert (knobs.get("cpu.weight"), knobs.get("memory.low")) == ("400", "0")
    assert done["cpu.weight"] == "400, was 100"  # what it was before all of it


def test_share_of_a_limit_that_is_gone_goes_back(knobs: Knobs) -> None:
    conf = knobs.conf(**{"memory.high": "80% of limit"})
    last = knobs.run(conf, **OF_CLASS)
    assert knobs.get("memory.high") != "max"
    knobs.tree.put(f"{CONTAINER}/memory.max", "max")
    again(knobs, last, conf, state="update", **OF_CLASS)
    assert knobs.get("memory.high") == "max"


def test_knob_that_was_set_since_stays(knobs: Knobs) -> None:
    conf = knobs.conf(**{"cpu.weight": 300})
    last = knobs.run(conf, **OF_CLASS)
    knobs.tree.put(f"{CONTAINER}/cpu.weight", "222")
    release(knobs, last, conf, **OF_CLASS)
    assert knobs.get("cpu.weight") == "222"


def test_nothing_needs_a_last_result(knobs: Knobs) -> None:
    conf = knobs.conf(**{"cpu.weight": 300})
    knobs.run(conf, **OF_CLASS)
    assert knobs.fine(conf, state="delete", release=True, **OF_CLASS) == {}
    assert knobs.get("cpu.weight") == "300"


# konfine's record


def test_conf_that_gives_out_no_more_forgets_the_container(tmp_path: Path) -> None:
    node = GivingNode(tmp_path, cores=4, threads=1)
    last = node.start("two", ask=1)
    asked = node.request("create", "two", allow={}).replace(prev_result=last, late=True)
    assert invoke(Konfine(), asked).metadata["cpus"] == "0-3"
    assert node.state()["containers"] == {}
