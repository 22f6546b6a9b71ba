"""The CPUs of a cgroup, in trees of plain files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from nri.cgroups import (
    CgroupError,
    CpuListError,
    GoneError,
    cpuset,
    parse_cpus,
)
from nri.testing.cgroup_files import CgroupFiles
from tests.unit.cgroups.trees import PATH, POD, SCOPE, SCOPED, look, make

if TYPE_CHECKING:
    from pathlib import Path


def test_own_cpus_are_empty_until_they_are_set(tree: CgroupFiles) -> None:
    cgroup = look(tree)
    assert cgroup.cpus() == frozenset()
    cgroup.set_cpus(frozenset({0, 1, 3}))
    assert tree.get(PATH, "cpuset.cpus") == "0-1,3"
    assert cgroup.cpus() == {0, 1, 3}


def test_effective_cpus_are_the_kernels(tree: CgroupFiles) -> None:
    tree.put(PATH, "cpuset.cpus.effective" if tree.kind == "v2" else "cpuset.effective_cpus", "2-3\n")
    tree.put(PATH, "cpuset.cpus", "2-5\n")
    assert look(tree).effective_cpus() == {2, 3}


def test_an_old_v1_kernel_has_only_the_cpus_that_were_set(tmp_path: Path) -> None:
    tree = make(tmp_path, "v1")
    for path in (PATH, POD, "/kubepods/burstable"):
        os.unlink(tree.file(path, "cpuset.effective_cpus"))
    tree.put("/kubepods/burstable", "cpuset.cpus", "1-2\n")
    assert look(tree).effective_cpus() == {1, 2}
    tree.put(PATH, "cpuset.cpus", "1\n")
    assert look(tree).effective_cpus() == {1}


def test_a_parent_without_cpus_of_its_own_has_those_of_the_nearest_ancestor(tree: CgroupFiles) -> None:
    knob = "cpuset.cpus.effective" if tree.kind == "v2" else "cpuset.effective_cpus"
    for path, cpus in ((POD, "\n"), ("/kubepods/burstable", "\n"), ("/kubepods", "1-2\n")):
        tree.put(path, knob, cpus)
    assert look(tree).parent_cpus() == {1, 2}


def test_a_parent_that_is_the_root_has_the_cpus_of_the_machine(tree: CgroupFiles) -> None:
    tree.make("/alone")
    assert look(tree, "/alone").parent_cpus() == {0, 1, 2, 3}


def test_no_cpus_up_to_the_root_is_an_error(tmp_path: Path) -> None:
    tree = CgroupFiles(tmp_path, "v1", cpus="")
    tree.make(PATH)
    for ask in (look(tree).effective_cpus, look(tree).parent_cpus):
        with pytest.raises(CgroupError, match=r"the cgroups above .* have no CPUs"):
            ask()


def test_an_empty_set_is_refused(tree: CgroupFiles) -> None:
    with pytest.raises(CpuListError, match="at least one"):
        look(tree).set_cpus(frozenset())


def test_v2_without_the_cpuset_controller_is_explained(tmp_path: Path) -> None:
    tree = make(tmp_path, "v2")
    os.unlink(tree.file(PATH, "cpuset.cpus"))
    os.unlink(tree.file(PATH, "cpuset.cpus.effective"))
    cgroup = look(tree)
    assert cgroup.cpus() == frozenset()
    assert cgroup.effective_cpus() == cgroup.parent_cpus()
    cgroup.confine(cgroup.parent_cpus())  # it has them already
    for action in (cgroup.set_cpus, cgroup.confine):
        with pytest.raises(CgroupError, match=r"subtree_control of the parent lacks cpuset; '\+cpuset'") as caught:
            action(frozenset({0}))
        assert not isinstance(caught.value, GoneError)
    assert not os.path.exists(tree.file(PATH, "cpuset.cpus"))


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
def test_cruns_child_has_a_subset_of_its_scopes_cpus_at_every_step(
    tree: CgroupFiles, monkeypatch: pytest.MonkeyPatch, scope: str, child: str, new: set[int], steps: list[str]
) -> None:
    inner = f"{SCOPE}/container"
    tree.make(inner)
    tree.put(SCOPE, "cpuset.cpus", scope)
    tree.put(inner, "cpuset.cpus", child)
    assign, taken = cpuset.assign, []

    def record(directory: str, version: int, cpus: frozenset[int], knob: str = cpuset.KNOB) -> None:
        assign(directory, version, cpus, knob)
        level = inner if directory.endswith("/container") else SCOPE
        taken.append(f"{'scope' if level == SCOPE else 'container'} {tree.get(level, 'cpuset.cpus')}")
        assert parse_cpus(tree.get(inner, "cpuset.cpus")) <= parse_cpus(tree.get(SCOPE, "cpuset.cpus"))

    monkeypatch.setattr(cpuset, "assign", record)
    look(tree, SCOPED).set_cpus(frozenset(new))
    assert taken == steps
    assert look(tree, SCOPED).cpus() == new


def test_in_v2_an_inheriting_child_keeps_inheriting(tmp_path: Path) -> None:
    tree = make(tmp_path, "v2")
    tree.make(f"{SCOPE}/container")
    look(tree, SCOPED).set_cpus(frozenset({2}))
    assert tree.get(SCOPE, "cpuset.cpus") == "2"
    assert tree.get(f"{SCOPE}/container", "cpuset.cpus") == ""
    assert look(tree, SCOPED).cpus() == {2}


def test_in_v2_a_child_without_the_controller_is_left_alone(tmp_path: Path) -> None:
    tree = make(tmp_path, "v2")
    tree.make(f"{SCOPE}/container")
    os.unlink(tree.file(f"{SCOPE}/container", "cpuset.cpus"))
    look(tree, SCOPED).set_cpus(frozenset({2}))
    assert tree.get(SCOPE, "cpuset.cpus") == "2"


def test_garbage_in_the_cpuset_is_reported_with_the_file(tree: CgroupFiles) -> None:
    tree.put(PATH, "cpuset.cpus", "0-x")
    with pytest.raises(CgroupError, match=r"cpuset.cpus holds '0-x': expected a CPU list") as caught:
        look(tree).cpus()
    assert not isinstance(caught.value, ValueError)
