"""The CFS quota of a cgroup, in trees of plain files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from nri.cgroups import (
    CgroupError,
    Quota,
)
from nri.testing.cgroup_files import CgroupFiles
from tests.unit.cgroups.trees import PATH, POD, SCOPE, SCOPED, limit, look, make, quota_knob

if TYPE_CHECKING:
    from pathlib import Path


def test_no_quota_is_read_as_none(tree: CgroupFiles) -> None:
    quota = look(tree).cpu_quota()
    assert (quota.quota_us, quota.period_us, str(quota)) == (None, 100000, "max/100000")


def test_a_quota_is_cleared_and_the_period_stays(tree: CgroupFiles) -> None:
    limit(tree, PATH, "50000", "20000")
    limit(tree, POD, "70000")
    before = look(tree).clear_cpu_quota()
    assert before == Quota(50000, 20000)
    assert str(before) == "50000/20000"
    if tree.kind == "v2":
        assert quota_knob(tree, PATH) == "max"  # the kernel keeps the period; this is what was written
    else:
        assert quota_knob(tree, PATH) == "-1"
        assert tree.get(PATH, "cpu.cfs_period_us") == "20000"
    assert quota_knob(tree, POD).startswith("70000")


def test_nothing_is_written_where_there_is_no_quota(tree: CgroupFiles) -> None:
    before = quota_knob(tree, PATH)
    os.utime(tree.file(PATH, "cpu.max" if tree.kind == "v2" else "cpu.cfs_quota_us"), (0, 0))
    assert look(tree).clear_cpu_quota().quota_us is None
    assert os.stat(tree.file(PATH, "cpu.max" if tree.kind == "v2" else "cpu.cfs_quota_us")).st_mtime == 0
    assert quota_knob(tree, PATH) == before


def test_cruns_child_is_cleared_with_its_scope_and_the_tighter_quota_reported(tree: CgroupFiles) -> None:
    tree.make(f"{SCOPE}/container")
    limit(tree, SCOPE, "60000")
    limit(tree, f"{SCOPE}/container", "50000")
    assert look(tree, SCOPED).cpu_quota() == Quota(50000, 100000)
    assert look(tree, SCOPED).clear_cpu_quota() == Quota(50000, 100000)
    for path in (SCOPE, f"{SCOPE}/container"):
        assert quota_knob(tree, path) in ("-1", "max")


def test_cruns_child_may_be_the_only_one_with_a_quota(tree: CgroupFiles) -> None:
    tree.make(f"{SCOPE}/container")
    limit(tree, f"{SCOPE}/container", "50000")
    assert look(tree, SCOPED).clear_cpu_quota() == Quota(50000, 100000)
    assert quota_knob(tree, f"{SCOPE}/container") in ("-1", "max")


def test_a_child_named_container_outside_of_a_scope_is_the_containers_own(tree: CgroupFiles) -> None:
    tree.make(f"{PATH}/container")
    limit(tree, f"{PATH}/container", "50000")
    look(tree).clear_cpu_quota()
    assert quota_knob(tree, f"{PATH}/container").startswith("50000")


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("", "''"),
        ("max", "'max'"),
        ("1 2 3", "'1 2 3'"),
        ("-1 100000", "'-1'"),
        ("max 0", "'0'"),
        ("max ä", "xc3"),
    ],
)
def test_garbage_in_cpu_max_is_reported_with_the_file(tmp_path: Path, text: str, bad: str) -> None:
    tree = make(tmp_path, "v2")
    with open(tree.file(PATH, "cpu.max"), "w", encoding="utf-8") as file:
        file.write(text)
    with pytest.raises(CgroupError, match=r"cpu.max holds .*: expected") as caught:
        look(tree).cpu_quota()
    assert bad in str(caught.value)


@pytest.mark.parametrize("text", ["", "max", "0", "-2", "1.5", "9" * 5000])
def test_garbage_in_the_v1_quota_is_reported_with_the_file(tmp_path: Path, text: str) -> None:
    tree = make(tmp_path, "v1")
    tree.put(PATH, "cpu.cfs_quota_us", text)
    with pytest.raises(CgroupError, match=r"cpu.cfs_quota_us holds .*: expected"):
        look(tree).cpu_quota()


def test_quotas_compare_by_cpu_time() -> None:
    none, half, fifth = Quota(None, 100000), Quota(50000, 100000), Quota(20000, 100000)
    assert half.is_tighter_than(none)
    assert not none.is_tighter_than(half)
    assert not none.is_tighter_than(none)
    assert fifth.is_tighter_than(half)
    assert not Quota(25000, 50000).is_tighter_than(half)
    assert Quota(25000, 50000) != half
    assert half != "50000/100000"
    assert len({half, Quota(50000, 100000)}) == 1
    assert repr(half) == "Quota(quota_us=50000, period_us=100000)"


def test_v2_without_the_cpu_controller_is_explained(tmp_path: Path) -> None:
    tree = make(tmp_path, "v2")
    os.unlink(tree.file(PATH, "cpu.max"))
    with pytest.raises(CgroupError, match=r"cpu.max does not exist: .*lacks cpu; '\+cpu'"):
        look(tree).clear_cpu_quota()
