"""konfine gives out CPUs: to one container alone or to a pool; all others give way, and get back what is free."""

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.fake_systemd import FakeSystemd
from nri.cgroups import parse_cpus, systemd_bus
from nri.plugins.konfine import EXCLUSIVE, Konfine
from nri.testing import invoke
from tests.support.giving import GivingNode

# Exclusive CPUs


def test_container_gets_cpus_alone_and_others_give_way(node: GivingNode) -> None:
    node.start("web")
    node.start("db/db")
    result = node.start("db/main", ask=2)
    assert result.metadata == {"exclusive": "2", "cpus": "0,4", "moved": "2 other containers"}
    assert node.all() == {"web": "1-3,5-7", "db/db": "1-3,5-7", "db/main": "0,4"}
    assert node.start("late").metadata["cpus"] == "1-3,5-7"


@pytest.mark.parametrize("is_told", [True, False])
def test_cpus_are_given_back_also_without_a_delete(node: GivingNode, is_told: bool) -> None:
    for name, ask in (("web", None), ("db/main", 4), ("other", None)):
        node.start(name, ask=ask)
    node.stop("db/main", is_told=is_told)
    node.run("update", "web")
    assert node.all() == {"web": "0-7", "other": "0-7"}


def test_repeated_requests_change_nothing(node: GivingNode) -> None:
    node.start("web")
    node.start("db/main", ask=2)
    before, document = node.all(), node.record.read_bytes()
    for name, ask in (("web", None), ("db/main", 2)):
        for state_ in ("create", "update"):
            assert (
                node.run(state_, name, ask=ask).metadata["skipped"] == "it has these CPUs already"
            )
    assert (node.all(), node.record.read_bytes()) == (before, document)


@pytest.fixture
def telco(tmp_path: Path) -> GivingNode:
    """One core for the system, all others isolated: usual where threads are pinned."""
    node = GivingNode(tmp_path, cores=4, threads=2, isolated="1-3,5-7")
    node.conf["systemReserved"] = [0, 4]
    return node


def test_isolated_cpus_are_for_single_containers_and_the_others_share_the_reserved_ones(
    telco: GivingNode,
) -> None:
    shared = telco.start("web").metadata
    assert (shared["cpus"], shared["reserved"]) == ("0,4", "all other CPUs are isolated")
    assert telco.start("db/main", ask=2).metadata["cpus"] == "1,5"
    assert telco.start("db/more", ask=4).metadata["cpus"] == "2-3,6-7"
    assert "on the node" in telco.refusal("last", ask=1)
    telco.stop("db/main")
    assert telco.all() == {"web": "0,4", "db/more": "2-3,6-7"}
    assert telco.start("last", ask=1).metadata["cpus"] in ("1", "5")


@pytest.mark.parametrize(("ask", "cpus"), [(2, "6-7"), (1, "6"), (3, "1-3"), (6, "")])
def test_set_is_of_isolated_cpus_if_there_is_room(tmp_path: Path, ask: int, cpus: str) -> None:
    node = GivingNode(tmp_path, cores=8, isolated="6-7")
    node.start("web")
    if cpus:
        given = node.start("db/main", ask=ask).metadata["cpus"]
        assert (len(parse_cpus(given)), parse_cpus(given) <= {6, 7}) == (ask, cpus.startswith("6"))
    else:
        assert "5 are free" in node.refusal("db/main", ask=ask)


def test_plain_confining_leaves_isolated_cpus_alone(telco: GivingNode) -> None:
    telco.conf["allow"] = {}
    assert telco.start("web").metadata == {"cpus": "0,4", "reserved": "all other CPUs are isolated"}
    telco.conf["systemReserved"] = [0]
    assert telco.start("some").metadata["cpus"] == "4"
    telco.conf["systemReserved"] = [0, 7]
    assert telco.start("system", annotations={"qos.class": "system"}).metadata["cpus"] == "0,4,7"
    # A list that the runtime was given is the operator's: the kubelet's of a guaranteed pod, or of its shared pool.
    assert telco.start("listed", cpu={"cpus": "5-6"}).metadata["cpus"] == "5-6"
    for listed in ("1-6", "x", "99"):
        assert telco.start("all", cpu={"cpus": listed}).metadata["cpus"] == "4"


def test_container_whose_parent_has_isolated_cpus_alone_has_these(tmp_path: Path) -> None:
    node = GivingNode(tmp_path, cores=4, isolated="0-3")
    node.conf["allow"] = {}
    assert node.start("web").metadata["cpus"] == "0-3"
    assert node.start("named", cpu={"cpus": "2"}).metadata["cpus"] == "2"


def test_reserved_isolated_and_offline_cpus_are_not_given_out(tmp_path: Path) -> None:
    node = GivingNode(tmp_path, cores=4, threads=2, isolated="7")
    node.conf["systemReserved"] = [0]
    node.start("web")
    node.start("db/main", ask=3)
    assert node.all() == {"web": "2,4,6", "db/main": "1,3,5"}
    (node.root / "sys/devices/system/cpu/online").write_text("0-5\n")
    node.run("update", "web")
    assert node.cpus("web") == "2,4"


def test_system_class_may_use_reserved_cpus_but_no_exclusive_ones(v2: GivingNode) -> None:
    v2.conf |= {"systemReserved": [0, 4]}
    v2.start("db/main", annotations={f"{EXCLUSIVE}/container.main": "2"})
    v2.start("agent", annotations={"qos.class": "system"})
    assert v2.all() == {"db/main": "1,5", "agent": "0,2-4,6-7"}
    assert "exclusive" not in v2.start("sandbox/sandbox", ask=2).metadata


def test_narrowed_container_gives_way_within_its_list(v2: GivingNode) -> None:
    v2.start("web", cpu={"cpus": "0-1,4-5"})
    v2.start("db/main", ask=2)
    assert v2.all() == {"web": "1,5", "db/main": "0,4"}
    v2.start("db/more", ask=2)
    assert v2.all() == {"web": "2-3,6-7", "db/main": "0,4", "db/more": "1,5"}
    v2.stop("db/main")
    assert v2.cpus("web") == "0,4"


@pytest.mark.parametrize("allow", [{"exclusive": False}, {}, {"exclusive": ["other"]}])
def test_pod_that_is_not_allowed_gets_no_exclusive_cpus(
    v2: GivingNode, allow: dict[str, Any]
) -> None:
    v2.conf |= {"allow": allow, "pools": [{"name": "p", "cpus": "7", "labels": {"x": "y"}}]}
    metadata = v2.start("db/main", ask=2).metadata
    assert metadata["cpus"] == "0-6"
    assert metadata["ignored"].startswith(f"{EXCLUSIVE}: allow.exclusive is ")


def test_wrong_number_of_an_allowed_pod_is_an_error(v2: GivingNode) -> None:
    v2.start("web")
    for text in ("x", "0", "-1", "1.5", "2 3", "8192", "9" * 30, "٣"):
        error = v2.refusal("db/main", ask=text)
        assert error.startswith(f"{EXCLUSIVE}: found {text[:5]!r}"[:-1])
        assert error.endswith("expected a number of CPUs, 1 to 8191")
    assert v2.all() == {"web": "0-7"}


def test_refusals_name_what_is_free(tmp_path: Path) -> None:
    node = GivingNode(tmp_path, packages=2, cores=4, threads=2)
    node.start("web")
    here, then = os.uname().nodename, "; delete the pod to have it scheduled again"
    assert node.refusal("db/main", ask=16) == (
        f"{EXCLUSIVE}: asks for 16 CPUs alone, and on the node {here} 15 are free, beside the 1 that must stay shared"
        + then
    )
    for name, ask in (("a", 1), ("b", 7), ("c", 2)):
        node.start(name, ask=ask)
    node.stop("b")
    assert node.refusal("d", ask=8) == (
        f"{EXCLUSIVE}: asks for 8 CPUs alone, and on the node {here} 7 on node 0, 6 on node 1 are free; "
        f"`spread` would take two of them; shop/a/a has {node.cpus('a')}, shop/c/c has {node.cpus('c')}{then}"
    )
    assert node.start("d", ask=8, exclusive={"spread": True}).metadata["exclusive"] == "8"


@pytest.mark.parametrize("ask", ["two", 8, 1])
def test_container_that_runs_and_is_refused_has_no_more_than_one_that_does_not_ask(
    v2: GivingNode, ask: Any
) -> None:
    """It started while no bridge was there, or on CRI-O, which starts it all the same."""
    v2.start("web")
    v2.start("db/main", ask=7)
    path = v2.make("late")
    late = v2.request("create", "late", ask=ask).replace(late=True)
    for _ in range(2):
        result = invoke(Konfine(), late)
        assert (result.refused, result.error.startswith(f"{EXCLUSIVE}: ")) == (True, True)
        assert v2.files.get(path, "cpuset.cpus") == v2.all()["web"]
    v2.files.put(path, "cpuset.cpus", "0-7\n")  # by the runtime, of all that it knows
    assert v2.run("update", "late", ask=ask).refused
    assert v2.files.get(path, "cpuset.cpus") == v2.all()["web"]
    v2.stop("db/main")
    assert invoke(Konfine(), late).refused == (ask != 1)


def test_resized_container_grows_around_what_it_has_and_shrinks_within_it(tmp_path: Path) -> None:
    """Its threads have affinity, and its memory is where they were."""
    node = GivingNode(tmp_path, packages=2, cores=8)
    node.start("first", ask=4)
    node.start("db", ask=2)
    node.stop("first")  # so that a better place is free
    sets = [parse_cpus(node.cpus("db"))]
    for count in (3, 5, 2, 1, 6, 15, 6):
        result = node.run("update", "db", ask=count)
        cpus = parse_cpus(node.cpus("db"))
        assert cpus <= sets[-1] or cpus >= sets[-1]
        assert result.refused == (count > 8)  # the NUMA node has no more
        assert len(cpus) == (count if count <= 8 else len(sets[-1]))
        assert max(cpus) < 8
        sets.append(cpus)


@given(
    counts=st.lists(st.integers(1, 12), min_size=2, max_size=8),
    spread=st.booleans(),
    isolated=st.booleans(),
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_resizes_keep_or_refuse(
    tmp_path: Path, counts: list[int], spread: bool, isolated: bool
) -> None:
    root = Path(tempfile.mkdtemp(dir=tmp_path))
    node = GivingNode(root, packages=2, cores=4, threads=2, isolated="1-3,9-11" if isolated else "")
    node.conf["exclusive"] = {"spread": spread}
    node.start("web")
    node.start("db", ask=1)
    before = parse_cpus(node.cpus("db"))
    for count in counts:
        result = node.run("update", "db", ask=count)
        cpus = parse_cpus(node.cpus("db"))
        assert (
            cpus == before
            if result.refused
            else len(cpus) == count and (cpus <= before or cpus >= before)
        )
        assert not cpus & parse_cpus(node.cpus("web"))
        before = cpus


def test_refused_resize_with_the_shared_ones_gets_none_of_them(v2: GivingNode) -> None:
    v2.start("web")
    v2.start("db/main", ask=2)
    alone = v2.cpus("db/main")
    result = v2.run("update", "db/main", ask="8+shared")
    assert (result.refused, v2.cpus("db/main")) == (True, alone)
    v2.run("update", "db/main", ask="2+shared")
    wide = v2.cpus("db/main")
    assert v2.run("update", "db/main", ask=8).refused
    assert v2.cpus("db/main") == wide


def quota_of(node: GivingNode, name: str) -> str:
    if node.files.kind == "v2":
        return node.files.get(node.path(name), "cpu.max")
    files = (node.files.get(node.path(name), f"cpu.cfs_{part}_us") for part in ("quota", "period"))
    return " ".join(files)


def put_quota(node: GivingNode, name: str, quota: int) -> None:
    """As the runtime does at creation, and at each resize."""
    if node.files.kind == "v2":
        node.files.put(node.path(name), "cpu.max", f"{quota} 100000\n")
    else:
        node.files.put(node.path(name), "cpu.cfs_quota_us", f"{quota}\n")


def test_quota_is_lifted_with_the_cpus_and_comes_back_with_them(node: GivingNode) -> None:
    none = "max 100000" if node.files.kind == "v2" else "-1 100000"
    node.start("web")
    node.make("db/main")
    put_quota(node, "db/main", 200000)
    assert node.run("create", "db/main", ask=2).metadata["quota"] == "200000/100000"
    assert quota_of(node, "db/main") == none
    put_quota(node, "db/main", 300000)  # the runtime's, of a resize
    result = node.run("update", "db/main", ask=3, cpu={"quota": 300000, "period": 100000})
    assert (result.metadata["quota"], quota_of(node, "db/main")) == ("300000/100000", none)
    node.run("update", "db/main")  # it shares CPUs from now on
    assert quota_of(node, "db/main") == "300000 100000"
    assert node.run("update", "web").metadata.get("quota") is None


def test_quota_of_a_refused_resize_stays_lifted_and_known(v2: GivingNode) -> None:
    v2.make("db/main")
    put_quota(v2, "db/main", 200000)
    v2.run("create", "db/main", ask=2)
    put_quota(v2, "db/main", 200000)
    assert v2.run("update", "db/main", ask=8).refused
    assert quota_of(v2, "db/main") == "max 100000"
    v2.run("update", "db/main")
    assert quota_of(v2, "db/main") == "200000 100000"


def test_released_container_has_its_quota_again(node: GivingNode) -> None:
    node.make("db/main")
    put_quota(node, "db/main", 200000)
    last = node.run("create", "db/main", ask=2)
    asked = node.request("delete", "db/main", ask=2).replace(prev_result=last, release=True)
    done = invoke(Konfine(), asked)
    assert (done.error, done.metadata["restored"]) == ("", "0-7")
    assert quota_of(node, "db/main") == "200000 100000"
    assert node.state()["containers"] == {}


def test_whole_cores_and_memory_follow_if_conf_says_so(tmp_path: Path) -> None:
    node = GivingNode(tmp_path, packages=2, cores=2, threads=2)
    node.conf["exclusive"] = {"wholeCores": True, "memory": True, "minShared": 2}
    path = node.make("db/main")
    node.files.put(path, "cpuset.mems", "0-1\n")
    assert "ask for 2 or 4" in node.refusal("x", ask=3)
    node.start("db/main", ask=4)
    assert (node.cpus("db/main"), node.files.get(path, "cpuset.mems")) == ("0-1,4-5", "0")
    told = node.run("setup", "other", ask=2).adjust
    assert told == {"linux": {"resources": {"cpu": {"cpus": "2,6", "mems": "1"}}}}
    node.files.put(path.rpartition("/")[0], "cpuset.mems.effective", "0-1\n")
    node.run("update", "db/main")
    assert node.files.get(path, "cpuset.mems") == "0-1"


# Where the host applies changes


def test_setup_tells_the_runtime_and_create_keeps_the_cpus(node: GivingNode) -> None:
    node.start("web")
    node.start("db/db")
    result = node.run("setup", "db/main", ask=2)
    assert result.adjust == {"linux": {"resources": {"cpu": {"cpus": "0,4"}}}}
    update = {"id": "id-web", "resources": {"cpu": {"cpus": "1-3,5-7"}}, "ignoreFailure": True}
    assert result.updates == [update]  # a sandbox is no container for the runtime
    assert node.cpus("web") == "1-3,5-7"
    assert node.start("db/main", ask=2).metadata["cpus"] == "0,4"
    shared = node.run("setup", "other")
    assert (shared.adjust, shared.updates) == (
        {"linux": {"resources": {"cpu": {"cpus": "1-3,5-7"}}}},
        None,
    )


def test_cpus_set_by_konfine_are_not_taken_for_the_kubelets(v2: GivingNode) -> None:
    v2.run("setup", "web")
    v2.start("web", cpu={"cpus": "0-7"})
    v2.run("setup", "db/main", ask=2)
    v2.start("db/main", ask=2, cpu={"cpus": "0,4"})
    v2.run("update", "web", cpu={"cpus": "1-3,5-7"})
    v2.run("setup", "late")
    v2.start("late", cpu={"cpus": "1-3,5-7"})
    v2.run("setup", "narrow", cpu={"cpus": "2-3"})
    v2.start("narrow", cpu={"cpus": "2-3"})
    v2.stop("db/main")
    assert v2.all() == {"web": "0-7", "late": "0-7", "narrow": "2-3"}


def test_setup_without_a_create_is_forgotten(
    v2: GivingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    v2.start("web")
    v2.run("setup", "db/main", ask=2)
    v2.run("update", "web")
    assert v2.cpus("web") == "1-3,5-7"
    monkeypatch.setattr("nri.plugins.konfine.record.SETUP_WITHIN", -1.0)
    v2.run("update", "web")
    assert v2.cpus("web") == "0-7"


# Pools


def test_pool_grows_and_shrinks_with_requests(node: GivingNode) -> None:
    node.conf["pools"] = [{"name": "batch", "min": 1, "max": 4, "classes": ["batch"]}]
    batch: dict[str, Any] = {"annotations": {"qos.class": "batch"}}
    node.start("web")
    assert node.start("a", **batch, cpu={"shares": 1024}).metadata["pool"] == "batch"
    assert node.all() == {"web": "1-7", "a": "0"}
    node.start("b", **batch, cpu={"shares": 1536})
    assert node.all() == {"web": "2-3,5-7", "a": "0-1,4", "b": "0-1,4"}
    node.start("c", **batch, cpu={"shares": 9216})
    assert node.cpus("c") == node.cpus("a") == "0-1,4-5"
    node.stop("c")
    node.stop("b")
    assert node.all() == {"web": "0,2-7", "a": "1"}
    node.stop("a")
    assert node.all() == {"web": "0-7"}


def test_pool_without_a_free_cpu_refuses_the_container(v2: GivingNode) -> None:
    v2.conf["pools"] = [{"name": "big", "classes": ["big"]}, {"name": "more", "classes": ["more"]}]
    v2.start("web")
    v2.start("a", annotations={"qos.class": "big"}, cpu={"shares": 102400})
    assert v2.all() == {"web": "7", "a": "0-6"}
    refusal = v2.refusal("b", annotations={"qos.class": "more"})
    assert refusal.startswith(
        f"the pool more has no CPU, and none is free on the node {os.uname().nodename}"
    )


def test_pool_whose_cpus_have_gone_refuses_its_own_containers_alone(v2: GivingNode) -> None:
    v2.conf["pools"] = [{"name": "far", "cpus": "6-7", "classes": ["ls"]}]
    v2.start("web")
    v2.start("pooled", annotations={"qos.class": "ls"})
    v2.conf["pools"] = [{"name": "far", "cpus": "98-99", "classes": ["ls"]}]  # of another machine
    absent = "conf names CPUs that are not online: 98-99"
    assert v2.start("other").metadata["absent"] == absent
    assert v2.run("update", "web").metadata["absent"] == absent
    assert v2.start("alone", ask=2).metadata["exclusive"] == "2"
    for state in ("create", "update"):
        error = v2.run(state, "pooled", annotations={"qos.class": "ls"}).error
        assert error.startswith(
            "no CPU is left for the pool far, which names 98-99: the node has 0-7; "
        )
    stopped = v2.stop("other")
    assert stopped is not None and stopped.error == ""
    stopped = v2.stop("pooled", annotations={"qos.class": "ls"})
    assert stopped is not None and stopped.error == ""


def test_reserved_cpus_that_the_machine_lacks_are_named(v2: GivingNode) -> None:
    v2.conf |= {"allow": {}, "systemReserved": [0, 15]}
    result = v2.start("web")
    assert result.metadata["absent"] == "conf names CPUs that are not online: 15"
    assert result.metadata["cpus"] == "1-7"


@pytest.mark.parametrize("condition", ["labels", "annotations"])
def test_pod_is_in_a_pool_by_its_own_words_only_if_that_is_allowed(
    v2: GivingNode, condition: str
) -> None:
    pool: dict[str, Any] = {"name": "fast", "cpus": "6-7", condition: {"a": "b"}}
    v2.conf["pools"] = [pool]
    asks: dict[str, Any] = {condition: {"a": "b"}}
    metadata = v2.start("web", **asks).metadata
    assert (metadata["cpus"], metadata["ignored"]) == (
        "0-5",
        "pool fast: allow.pools is for no pod",
    )
    v2.conf["allow"] = v2.conf["allow"] | {"pools": ["shop"]}
    assert v2.start("own", **asks).metadata["pool"] == "fast"
    assert "pool" not in v2.start("other", namespace="other", **asks).metadata
    v2.conf |= {"allow": {}, "pools": [{"name": "fast", "cpus": "6-7", "namespaces": ["shop"]}]}
    # The operator has named its namespace.
    assert v2.start("named", **asks).metadata["pool"] == "fast"
    assert "pool" not in v2.start("elsewhere", namespace="other", **asks).metadata


def test_setup_of_the_next_attempt_takes_the_place_of_one_that_has_failed(v2: GivingNode) -> None:
    """No delete comes of a start that has failed, so its CPUs were held, and its own retry refused."""
    v2.start("web")
    for attempt, sandbox in (("one", "s1"), ("two", "s1"), ("three", "s2")):
        asked = v2.request("setup", "db/main", ask=7).replace(id=attempt, sandbox_id=sandbox)
        assert invoke(Konfine(), asked).error == ""
    assert [
        entry["id"] for entry in v2.state()["containers"].values() if entry["kind"] == "exclusive"
    ] == ["three"]
    assert v2.run("setup", "db/other", ask=7).refused  # another container of the pod
    other = v2.request("setup", "db/main", ask=7, namespace="other").replace(id="four")
    assert "allow" in invoke(Konfine(), other).metadata["ignored"]


@pytest.mark.parametrize("is_of_kubernetes", [True, False])
def test_setup_in_a_pod_that_was_made_again_takes_the_place(
    v2: GivingNode, is_of_kubernetes: bool
) -> None:
    """The kubelet has one pod of a name; another engine may have several containers of it."""
    v2.start("web")
    results = []
    for pod in ("one", "two"):
        asked = v2.request("setup", "db/main", ask=7).replace(id=f"main-{pod}", sandbox_id=pod)
        assert asked.spec is not None
        asked = asked.replace(
            spec=asked.spec.replace(cgroups_path=f"/kubepods/burstable/pod{pod}/main")
        )
        labels = {
            key: value
            for key, value in asked.labels.items()
            if is_of_kubernetes or not key.endswith("pod.name")
        }
        results.append(invoke(Konfine(), asked.replace(labels=labels)))
    assert [bool(result.refused) for result in results] == [False, not is_of_kubernetes]


def test_pools_that_leave_no_cpu_are_named(v2: GivingNode) -> None:
    v2.conf["pools"] = [{"name": "all", "cpus": "0-99", "classes": ["ls"]}]
    assert v2.refusal("a", annotations={"qos.class": "be"}) == (
        "no CPU is left for the containers that share CPUs, beside 0-7 of pools and single ones: the node has 0-7; "
        "expected conf.pools and conf.systemReserved to leave some"
    )


# Units of systemd that were not told in time

SHARED = [f"w{number}" for number in range(10)]


def path_of(name: str, **_: object) -> str:
    """Return the cgroup of a container with the systemd driver."""
    pod = name.partition("/")[0]
    slice_ = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{pod}.slice"
    return f"{slice_}/cri-containerd-{name.replace('/', '-')}.scope"


class SlowSystemd(FakeSystemd):
    """Takes its time for each change."""

    seconds = 0.0

    def set_properties(self, message: Any) -> Any:
        time.sleep(self.seconds)
        return super().set_properties(message)


@pytest.mark.parametrize("state", ["create", "setup"])
def test_units_that_were_not_told_are_reported_and_told_later(
    tmp_path: Path, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    within = systemd_bus.TIMEOUT
    monkeypatch.setattr(systemd_bus, "TIMEOUT", 60)
    node = GivingNode(tmp_path, cores=4, threads=2)
    node.path = path_of  # type: ignore[method-assign]
    with SlowSystemd(tmp_path / "run", *map(path_of, (*SHARED, "db/main"))) as systemd:
        node.conf["run"] = str(systemd.run)
        for name in SHARED:
            node.start(name)
        systemd.seconds = 0.05
        monkeypatch.setattr(systemd_bus, "TIMEOUT", within)
        result = (
            node.start("db/main", ask=2)
            if state == "create"
            else node.run("setup", "db/main", ask=2)
        )
        assert result.metadata["systemd"].startswith("not told: systemd did not answer")
        assert {node.cpus(name) for name in SHARED} == {"1-3,5-7"}
        systemd.seconds = 0.0
        monkeypatch.setattr(systemd_bus, "TIMEOUT", 60)
        result = node.run("update", "w0")
        assert "moved" not in result.metadata
        assert "systemd" not in result.metadata
        units = [systemd.properties[path_of(name).rpartition("/")[2]] for name in SHARED]
        assert {unit["AllowedCPUs"] for unit in units} == {b"\xee"}
        assert not any(entry.get("untold") for entry in node.state()["containers"].values())


@pytest.mark.parametrize("ask", [None, 2])
def test_unknown_containers_that_have_cpus_alone_are_named_where_none_is_left(
    v2: GivingNode, ask: int | None
) -> None:
    v2.start("web")
    v2.start("db", ask=ask)
    v2.record.unlink()
    assert "rebuilt" in v2.run("update", "web").metadata
    v2.conf["pools"] = [{"name": "all", "cpus": "0-99", "classes": ["ls"]}]
    error = v2.refusal("a", annotations={"qos.class": "be"})
    assert error.startswith("no CPU is left for the containers that share CPUs, ")
    assert error.endswith(": see `nri reapply`") == (ask is not None)
