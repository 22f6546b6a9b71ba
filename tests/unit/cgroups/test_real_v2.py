"""find() and Cgroup where the kernel's v2 differs from its v1: controllers of a part of the tree, CPUs without rules.

Sources: the kernel's ``Documentation/admin-guide/cgroup-v2.rst``, "Enabling and Disabling", "Threads" and "Cpuset
Interface Files". CPUs that go offline and partitions change the whole machine: ``tests/node/scenarios/cgroups`` has
these, for the emulated one.
"""

import os

import pytest

from nri.cgroups import Cgroup, CgroupError, Quota, find
from tests.support.real_cgroups import Real

pytestmark = [pytest.mark.runtime, pytest.mark.kernel_cgroups(cpuset=2)]

WITH_CPU = pytest.mark.kernel_cgroups(cpu=2)

BOTH = {0, 1}


# Controllers: a cgroup has those that its parent's cgroup.subtree_control names


@pytest.mark.parametrize(
    ("has", "lacks"),
    [
        ("cpu", "cpuset"),
        ("", "cpuset"),
        pytest.param("cpuset", "cpu", marks=WITH_CPU),
        pytest.param("", "cpu", marks=WITH_CPU),
    ],
)
def test_v2_cgroup_without_the_controller_is_explained(real: Real, has: str, lacks: str) -> None:
    cgroup = find(real.make("/abc", controllers=(has,)))
    with pytest.raises(
        CgroupError, match=rf"the cgroup.subtree_control of the parent lacks {lacks}; '\+{lacks}'"
    ):
        _change(lacks, cgroup)
    if has:
        _change(has, cgroup)
    real.enable(real.top, lacks)
    _change(lacks, cgroup)


# CPUs: each cgroup may be given any, and has those of them that its parent has


def test_a_v2_cgroup_that_was_given_no_cpus_follows_its_parent(real: Real) -> None:
    path = real.make("/abc", cpus="")
    with real.process(path) as pid:
        for cpus in (BOTH, {0}, {1}, BOTH):
            find(real.top).set_cpus(frozenset(cpus))
            cgroup = find(path)
            assert cgroup.cpus() == frozenset()
            assert (
                cgroup.effective_cpus() == cgroup.parent_cpus() == os.sched_getaffinity(pid) == cpus
            )


def test_v2_cpus_that_the_parent_lacks_have_no_effect(real: Real) -> None:
    real.make("/pod", "0")
    path = real.make("/pod/abc", "0")
    with real.process(path) as pid:
        for cpus in (BOTH, {1}):  # the second has none of the parent's, and gets them all
            find(path).set_cpus(frozenset(cpus))
            assert find(path).cpus() == cpus
            assert find(path).effective_cpus() == find(path).parent_cpus() == {0}
            assert os.sched_getaffinity(pid) == {0}
        find(f"{real.top}/pod").set_cpus(frozenset(BOTH))
        assert find(path).effective_cpus() == os.sched_getaffinity(pid) == {1}


def test_v2_container_can_be_confined_below_its_children(real: Real) -> None:
    path = real.make("/abc")
    inner = real.make("/abc/inner", "1")
    with real.process(inner) as pid:
        find(path).set_cpus(frozenset({0}))
        assert os.sched_getaffinity(pid) == {0}
        assert real.get(inner, "cpuset.cpus") == "1"
        find(path).set_cpus(frozenset(BOTH))
        assert os.sched_getaffinity(pid) == {1}


# crun's child: in v2 processes are in leaves only, so in the child and not in the scope


@pytest.mark.parametrize("controllers", [(), ("cpu",), ("cpuset",), ("cpu", "cpuset")], ids=str)
def test_a_v2_scope_limits_cruns_child(real: Real, controllers: tuple[str, ...]) -> None:
    scope = real.make("/crun-abc.scope")
    inner = real.make("/crun-abc.scope/container", "", controllers=controllers)
    for path in (scope, inner) if "cpu" in controllers else (scope,):
        real.limit(path, 50000)
    with real.process(inner) as pid:
        cgroup = find("", pid, "abc")
        assert cgroup.directory("cpu") == real.points["cpu"] + scope
        assert cgroup.clear_cpu_quota() == Quota(50000, 100000)
        cgroup.set_cpus(frozenset({1}))
        assert cgroup.cpus() == cgroup.effective_cpus() == os.sched_getaffinity(pid) == {1}
    assert cgroup.cpu_quota() == Quota(None, 100000)
    if "cpuset" in controllers:
        assert real.get(inner, "cpuset.cpus") == ""
    if "cpu" in controllers:
        assert real.quota(inner) == "max/100000"


@pytest.mark.parametrize("before", ["0", "1", "0-1"])
@pytest.mark.parametrize("after", [{0}, {1}, BOTH], ids=str)
def test_v2_child_of_crun_with_own_cpus_moves_with_its_scope(
    real: Real, before: str, after: set[int]
) -> None:
    scope = real.make("/crun-abc.scope", before)
    inner = real.make("/crun-abc.scope/container", "0")
    with real.process(inner) as pid:
        find(scope).set_cpus(frozenset(after))
        assert (
            find(scope).cpus() == find(scope).effective_cpus() == os.sched_getaffinity(pid) == after
        )


# Threads: cpu and cpuset work in threaded cgroups too


@pytest.mark.parametrize(("threaded", "kind"), [("abc", "threaded"), ("other", "domain invalid")])
def test_a_v2_cgroup_that_is_no_domain_is_changed_as_any_other(
    real: Real, threaded: str, kind: str
) -> None:
    path = real.make("/abc")
    real.make("/other")
    real.put(f"{real.top}/{threaded}", "cgroup.type", "threaded")
    assert real.get(path, "cgroup.type") == kind
    real.limit(path, 50000)
    assert find(path).clear_cpu_quota() == Quota(50000, 100000)
    find(path).set_cpus(frozenset({1}))
    assert real.get(path, "cpuset.cpus.effective") == "1"


def _change(controller: str, cgroup: Cgroup) -> None:
    if controller == "cpu":
        cgroup.clear_cpu_quota()
    else:
        cgroup.set_cpus(frozenset({0}))
