"""The CPUs of a cgroup, in trees of plain files."""

import os
from pathlib import Path

import pytest

from nri.cgroups import CgroupError, CpuListError, GoneError
from tests.unit.cgroups.trees import INNER, PATH, POD, SCOPE, SCOPED, Tree


def test_effective_cpus_are_the_kernels(tree: Tree) -> None:
    tree.put(PATH, tree.v1_or_v2("cpuset.effective_cpus", "cpuset.cpus.effective"), "2-3\n")
    tree.put(PATH, "cpuset.cpus", "2-5\n")
    assert tree.cgroup().effective_cpus() == {2, 3}


def test_an_old_v1_kernel_has_only_the_cpus_that_were_set(v1: Tree) -> None:
    for path in (PATH, POD, "/kubepods/burstable"):
        os.unlink(v1.file(path, "cpuset.effective_cpus"))
    v1.put("/kubepods/burstable", "cpuset.cpus", "1-2\n")
    assert v1.cgroup().effective_cpus() == {1, 2}
    v1.put(PATH, "cpuset.cpus", "1\n")
    assert v1.cgroup().effective_cpus() == {1}


def test_parent_without_cpus_has_those_of_its_ancestor(tree: Tree) -> None:
    knob = tree.v1_or_v2("cpuset.effective_cpus", "cpuset.cpus.effective")
    for path, cpus in ((POD, "\n"), ("/kubepods/burstable", "\n"), ("/kubepods", "1-2\n")):
        tree.put(path, knob, cpus)
    assert tree.cgroup().parent_cpus() == {1, 2}
    tree.make("/alone")
    assert tree.cgroup("/alone").parent_cpus() == {0, 1, 2, 3}  # the machine's


def test_empty_set_and_garbage_are_errors(tree: Tree) -> None:
    with pytest.raises(CpuListError, match="at least one"):
        tree.cgroup().set_cpus(frozenset())
    tree.put(PATH, "cpuset.cpus", "0-x")
    with pytest.raises(
        CgroupError, match=r"cpuset.cpus holds '0-x': expected a CPU list"
    ) as caught:
        tree.cgroup().cpus()
    assert not isinstance(caught.value, ValueError)


def test_no_cpus_up_to_the_root_is_an_error(v1: Tree) -> None:
    for knob in ("cpuset.cpus", "cpuset.effective_cpus"):
        v1.put("", knob, "\n")
    for ask in (v1.cgroup().effective_cpus, v1.cgroup().parent_cpus):
        with pytest.raises(CgroupError, match=r"the cgroups above .* have no CPUs"):
            ask()


def test_v2_without_the_cpuset_controller_is_explained(v2: Tree) -> None:
    os.unlink(v2.file(PATH, "cpuset.cpus"))
    os.unlink(v2.file(PATH, "cpuset.cpus.effective"))
    cgroup = v2.cgroup()
    assert cgroup.cpus() == frozenset()
    assert cgroup.effective_cpus() == cgroup.parent_cpus()
    cgroup.confine(cgroup.parent_cpus())  # it has them already
    for action in (cgroup.set_cpus, cgroup.confine):
        with pytest.raises(
            CgroupError, match=r"subtree_control of the parent lacks cpuset; '\+cpuset'"
        ) as caught:
            action(frozenset({0}))
        assert not isinstance(caught.value, GoneError)
    assert not os.path.exists(v2.file(PATH, "cpuset.cpus"))


@pytest.mark.parametrize(
    ("scope", "child", "new", "steps"),
    [
        ("0-3", "0-3", {1}, ["container 1", "scope 1"]),
        ("0-1", "0-1", {0, 1, 2, 3}, ["scope 0-3", "container 0-3"]),
        ("0", "0", {1}, ["scope 0-1", "container 1", "scope 1"]),
        ("0-1", "0", {1, 2}, ["scope 0-2", "container 1-2", "scope 1-2"]),
        ("0-1", "0", {0, 1}, ["container 0-1"]),
    ],
)
def test_cruns_child_always_has_a_subset_of_its_scopes_cpus(
    scoped: Tree, written: list[str], scope: str, child: str, new: set[int], steps: list[str]
) -> None:
    scoped.put(SCOPE, "cpuset.cpus", scope)
    scoped.put(INNER, "cpuset.cpus", child)
    scoped.cgroup(SCOPED).set_cpus(frozenset(new))
    assert [line.replace("crun-abc.", "").replace("/cpuset.cpus", "") for line in written] == steps
    assert scoped.cgroup(SCOPED).cpus() == new


@pytest.mark.parametrize("has_controller", [True, False])
def test_v2_child_that_inherits_its_cpus_is_unchanged(
    tmp_path: Path, written: list[str], has_controller: bool
) -> None:
    tree = Tree(tmp_path, "v2", INNER)
    if not has_controller:
        os.unlink(tree.file(INNER, "cpuset.cpus"))
    tree.cgroup(SCOPED).set_cpus(frozenset({2}))
    assert written == ["crun-abc.scope/cpuset.cpus 2"]
    assert tree.cgroup(SCOPED).cpus() == {2}
