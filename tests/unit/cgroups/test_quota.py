"""The CFS quota of a cgroup, in trees of plain files."""

import pytest

from nri.cgroups import CgroupError, Quota
from tests.unit.cgroups.trees import INNER, PATH, POD, SCOPE, SCOPED, Tree


def test_a_quota_is_cleared_and_the_period_stays(tree: Tree) -> None:
    tree.limit(PATH, 50000, 20000)
    tree.limit(POD, 70000)
    tree.make(f"{PATH}/container")
    tree.limit(f"{PATH}/container", 60000)  # outside of a scope it is the container's own
    before = tree.cgroup().clear_cpu_quota()
    assert before == Quota(50000, 20000)
    assert str(before) == "50000/20000"
    assert tree.quota(PATH) == "none"
    if tree.kind == "v2":
        assert tree.get(PATH, "cpu.max") == "max 20000"
    else:
        assert tree.get(PATH, "cpu.cfs_period_us") == "20000"
    assert [tree.quota(path) for path in (POD, f"{PATH}/container")] == ["70000", "60000"]


def test_no_quota_is_read_as_none_and_nothing_is_written(tree: Tree, written: list[str]) -> None:
    for quota in (tree.cgroup().cpu_quota(), tree.cgroup().clear_cpu_quota()):
        assert (quota.quota_us, quota.period_us, str(quota)) == (None, 100000, "max/100000")
    assert written == []


@pytest.mark.parametrize("scopes", [60000, None])
def test_cruns_child_is_cleared_with_its_scope(scoped: Tree, scopes: int | None) -> None:
    if scopes:
        scoped.limit(SCOPE, scopes)
    scoped.limit(INNER, 50000)
    assert (
        scoped.cgroup(SCOPED).cpu_quota()
        == scoped.cgroup(SCOPED).clear_cpu_quota()
        == Quota(50000, 100000)
    )
    assert [scoped.quota(path) for path in (SCOPE, INNER)] == ["none", "none"]


def test_cruns_child_has_the_name_of_its_annotation_or_cruns_own(scoped: Tree) -> None:
    named = f"{SCOPE}/workload"
    scoped.make(named)
    for path in (named, INNER):
        scoped.limit(path, 50000)
    assert scoped.cgroup(SCOPED, subgroup="workload").clear_cpu_quota() == Quota(50000, 100000)
    assert [scoped.quota(path) for path in (named, INNER)] == ["none", "50000"]
    # The pod's author sets it, and a runtime may not hand it to crun.
    for name in (
        "absent",
        "..",
        ".",
        "",
        "/",
        "../crun-abc.scope/workload",
        "workload/x",
        "a\0b",
        "\ud800",
        "x" * 256,
    ):
        scoped.limit(INNER, 50000)
        assert scoped.cgroup(SCOPED, subgroup=name).clear_cpu_quota() == Quota(50000, 100000), name
        assert scoped.quota(INNER) == "none", name


def test_garbage_in_a_quota_is_reported_with_the_file(v1: Tree, v2: Tree) -> None:
    for text, bad in (
        ("", "''"),
        ("max", "'max'"),
        ("1 2 3", "'1 2 3'"),
        ("-1 100000", "'-1 100000'"),
        ("max 0", "'max 0'"),
    ):
        v2.put(PATH, "cpu.max", text)
        with pytest.raises(CgroupError, match=rf"cpu.max holds .*{bad}.*: expected"):
            v2.cgroup().cpu_quota()
    with open(v2.file(PATH, "cpu.max"), "w", encoding="utf-8") as file:
        file.write("max ä")
    with pytest.raises(CgroupError, match=r"cpu.max holds .*xc3.*: expected"):
        v2.cgroup().cpu_quota()
    for text in ("", "max", "0", "-2", "1.5", "9" * 5000):
        v1.put(PATH, "cpu.cfs_quota_us", text)
        with pytest.raises(CgroupError, match=r"cpu.cfs_quota_us with .* holds .*: expected"):
            v1.cgroup().cpu_quota()


def test_quotas_compare_by_cpu_time() -> None:
    none, half, fifth = Quota(None, 100000), Quota(50000, 100000), Quota(20000, 100000)
    assert half.is_tighter_than(none)
    assert not none.is_tighter_than(half)
    assert not none.is_tighter_than(none)
    assert fifth.is_tighter_than(half)
    assert not Quota(25000, 50000).is_tighter_than(half)


def test_the_least_quota_of_a_period_is_the_highest_of_the_children_in_v1_alone(
    v1: Tree, v2: Tree
) -> None:
    for tree, least in ((v1, 30001), (v2, 0)):
        tree.make(f"{POD}/unlimited")
        tree.make(f"{POD}/other")
        tree.limit(f"{POD}/other", 10000)
        tree.limit(PATH, 60001, 200000)  # rounded up
        assert tree.cgroup(POD).least_cpu_quota(100000) == least
