"""A CgroupTree: found without a word to the plugin, it records writes and refuses as the kernel does."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from nri.cgroups import Cgroup, CgroupError, Quota, find, knobs
from nri.testing import CgroupTree, Container, Pod

HALF = {"cpu": {"quota": 50_000, "period": 100_000, "shares": 512}}


def of(container: Container) -> Cgroup:
    """The container's cgroup, as a plugin finds it."""
    request = container.request("create")
    assert request.spec is not None
    return find(request.spec.cgroups_path, request.pid, request.id)


def a_container(driver: str = "cgroupfs", **options: Any) -> Container:
    return Pod(cgroup_driver=driver, **options).container("web", resources=HALF)


def put(tree: CgroupTree, name: str, value: str) -> None:
    """Write as nri.cgroups does."""
    cgroup, _, knob = name.rpartition("/")
    knobs.write(f"{tree.directory(cgroup, knob.partition('.')[0])}/{knob}", value, "it is absent")


@pytest.mark.parametrize(
    ("kind", "driver"),
    [("v1", "cgroupfs"), ("v1", "systemd"), ("v2", "systemd"), ("hybrid", "cgroupfs")],
)
def test_a_container_is_found_with_its_limits_and_its_pod(kind: str, driver: str) -> None:
    web = a_container(driver)
    with CgroupTree(kind, driver=driver) as tree:
        tree.add(web)
        cgroup = of(web)
        assert cgroup.cpu_quota() == Quota(50_000, 100_000)
        assert cgroup.effective_cpus() == frozenset(range(8))
        pod = cgroup.parent()
        assert pod is not None
        assert pod.is_pod()
        assert pod.cpu_quota() == Quota(50_000, 100_000)
        cgroup.set_cpus(frozenset({2, 3}))
        assert cgroup.effective_cpus() == {2, 3}
        assert ("systemd does not run here" in cgroup.untold) == (
            (kind, driver) == ("v2", "systemd")
        )
        assert tree.written == {"web/cpuset.cpus": "2-3"}


@pytest.mark.parametrize(
    ("kind", "runtime"),
    [
        ("v1", "runc"),
        ("hybrid", "crun"),
        *[("v2", each) for each in ("containerd-1.6", "cri-o-1.36", "podman", "runc")],
    ],
)
def test_a_container_of_any_runtime_is_found_by_path_or_by_process(kind: str, runtime: str) -> None:
    web = a_container(runtime=runtime)
    with CgroupTree(kind) as tree:
        tree.add(web)
        of(web).clear_cpu_quota()
        assert list(tree.written) == ["web/cpu.max" if kind == "v2" else "web/cpu.cfs_quota_us"]


def test_a_container_without_resources_or_of_a_besteffort_pod_has_no_quota() -> None:
    for web in (Pod().container("web", resources={}), Pod(qos="besteffort").container("web")):
        with CgroupTree("v1") as tree:
            tree.add(web)
            assert of(web).cpu_quota().quota_us is None
            spec = web.request("create").spec
            assert spec is not None
            assert not spec.resources["cpu"].get("quota")


def test_nothing_is_seen_of_it_before_and_after() -> None:
    web = a_container()
    tree = CgroupTree()
    tree.add(web)
    with tree:
        of(web).cpu_quota()
        with pytest.raises(RuntimeError, match="a CgroupTree is active already"), CgroupTree():
            raise AssertionError
    with pytest.raises(CgroupError):
        of(web).cpu_quota()
    assert tree.get("web/cpu.max") == "50000 100000"


@pytest.mark.parametrize("driver", ["cgroupfs", "systemd"])
def test_a_tree_may_be_active_again(driver: str) -> None:
    web = a_container(driver)
    tree = CgroupTree(driver=driver)
    tree.add(web)
    for cpus in ({1}, {2}):
        with tree:
            of(web).set_cpus(frozenset(cpus))
    assert tree.writes == [("web/cpuset.cpus", "1"), ("web/cpuset.cpus", "2")]


def test_a_pod_has_its_sandbox_and_all_its_containers() -> None:
    shop, other = Pod("shop"), Pod("other")
    for pod in (shop, other):
        for name in ("web", "sidecar"):
            pod.container(name, resources=HALF)
    with CgroupTree() as tree:
        tree.add(shop)
        tree.add(other)
        assert tree.get("pod/cpu.max") == "100000 100000"
        for name in ("sandbox", "web", "sidecar", "other/pod", "other/sandbox", "other/web"):
            assert tree.get(f"{name}/cgroup.type") == "domain"
        of(other.containers[0]).clear_cpu_quota()
        assert tree.written == {"other/web/cpu.max": "max 100000"}
        assert tree.get("other/web/cpu.max") == "max 100000"


def test_wrong_options_and_names_are_refused() -> None:
    with pytest.raises(ValueError, match="kind: found 'v3', expected one of 'v1', 'v2'"):
        CgroupTree(kind="v3")
    with pytest.raises(ValueError, match="driver: found 'x', expected"):
        CgroupTree(driver="x")
    tree = CgroupTree()
    with pytest.raises(
        ValueError, match="has the cgroup driver 'systemd': expected this tree's, 'cgroupfs'"
    ):
        tree.add(a_container("systemd"))
    tree.add(a_container())
    with pytest.raises(KeyError, match="there is no cgroup 'wbe' in this tree: expected pod, web"):
        tree.get("wbe/cpu.max")
    with pytest.raises(KeyError, match="names no file of a cgroup"):
        tree.get("cpu.max")


# What the kernel refuses

REFUSED = {
    errno.EINVAL: {
        "cpuset.cpus": ["two"],
        "cpuset.mems": ["1"],
        "cpu.max": ["lots", "500", "50000 10", "-1"],
        "cpu.weight": ["1.5", "0", "10001"],
        "cpu.max.burst": ["60000"],
        "cpu.idle": ["2"],
        "cpuset.cpus.effective": ["0"],
        "memory.high": ["1G5"],
        "memory.max": ["-1"],
        "io.weight": ["default", "0"],
        "pids.max": ["-1"],
    },
    errno.ERANGE: {"cpuset.cpus": ["8"]},
}
SHOWN = {
    "v2": [
        ("cpuset.cpus", "3,1-2\n", "1-3"),
        ("cpu.max", "20000", "20000 100000"),
        ("cpu.max", "max 50000", "max 50000"),
        ("memory.high", "5000", "4096"),
        ("memory.high", "max", "max"),
        ("io.weight", "200", "default 200"),
        ("pids.max", "100", "100"),
    ],
    "v1": [
        ("cpu.shares", "77", "77"),
        ("cpu.cfs_quota_us", "-5", "-1"),
        ("memory.limit_in_bytes", "-1", "9223372036854771712"),
    ],
    "hybrid": [("pids.max", "max", "max")],
}


@pytest.mark.parametrize("number", REFUSED, ids=errno.errorcode.get)
def test_a_value_that_the_parser_refuses_is_not_written(number: int) -> None:
    with CgroupTree() as tree:
        tree.add(a_container())
        for knob, value in [
            (knob, value) for knob, values in REFUSED[number].items() for value in values
        ]:
            before = tree.get(f"web/{knob}")
            with pytest.raises(CgroupError, match=errno.errorcode[number]):
                put(tree, f"web/{knob}", value)
            assert (tree.get(f"web/{knob}"), tree.written) == (before, {}), (knob, value)


@pytest.mark.parametrize("kind", SHOWN)
def test_a_file_shows_what_the_kernel_makes_of_a_value(kind: str) -> None:
    with CgroupTree(kind) as tree:
        tree.add(a_container())
        for knob, value, shown in SHOWN[kind]:
            put(tree, f"web/{knob}", value)
            assert tree.get(f"web/{knob}") == shown, (knob, value)
            assert tree.written == {f"web/{knob}": value}
            tree.forget()


def test_v2_gives_a_cgroup_without_usable_cpus_those_of_its_parent() -> None:
    with CgroupTree() as tree:
        tree.add(a_container())
        put(tree, "pod/cpuset.cpus", "0-3")
        assert tree.get("web/cpuset.cpus.effective") == "0-3"
        put(tree, "web/cpuset.cpus", "3-5")
        assert tree.get("web/cpuset.cpus.effective") == "3"
        put(tree, "web/cpuset.cpus", "6")
        assert tree.get("web/cpuset.cpus.effective") == "0-3"


def test_a_refusal_can_be_ordered_and_taken_back() -> None:
    web = a_container()
    with CgroupTree() as tree:
        tree.refuse("web/cpuset.cpus", errno.EBUSY)
        tree.add(web)
        with pytest.raises(CgroupError, match="EBUSY"):
            of(web).set_cpus(frozenset({1}))
        tree.refuse("web/cpuset.cpus", 0)
        of(web).set_cpus(frozenset({1}))
        assert tree.written == {"web/cpuset.cpus": "1"}


def test_a_knob_can_be_missing_from_one_cgroup_or_from_all() -> None:
    web = a_container()
    other = web.pod.container("other")
    with CgroupTree() as tree:
        tree.lack("memory.high")
        tree.add(web)
        tree.add(other)
        tree.lack("other/cpuset.cpus")
        for name in (
            "web/memory.high",
            "other/memory.high",
            "pod/memory.high",
            "other/cpuset.cpus",
        ):
            with pytest.raises(CgroupError, match=r"ENOENT\): it is absent"):
                put(tree, name, "1")
        put(tree, "web/cpuset.cpus", "1")
