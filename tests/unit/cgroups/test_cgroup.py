"""find() and Cgroup on made-up trees; what only a kernel can say is in test_real.py."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from harness.cgroup_tree import Tree, make_process, write
from nri.cgroups import (
    Cgroup,
    CgroupError,
    CgroupPathError,
    CpuListError,
    GoneError,
    Mounts,
    Quota,
    cpuset,
    find,
    parse_cpus,
)

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ("v1", "v2", "hybrid")
POD = "/kubepods/burstable/pod1-2"
PATH = f"{POD}/abc"
SCOPE = "/system.slice/crun-abc.scope"
SCOPED = "system.slice:crun:abc"


@pytest.fixture(params=KINDS)
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    return make(tmp_path, request.param)


def make(tmp_path: Path, kind: str) -> Tree:
    tree = Tree(tmp_path / "cgroup tree", kind)  # with a blank: mountinfo escapes it
    tree.make(PATH)
    return tree


def look(tree: Tree, path: str = PATH, pid: int = 0, proc: object = "/nowhere", container: str = "abc") -> Cgroup:
    return find(path, pid, container, mounts=Mounts.parse(tree.mountinfo), proc=str(proc))


def limit(tree: Tree, path: str, quota: str, period: str = "100000") -> None:
    if tree.kind == "v2":
        tree.put(path, "cpu.max", f"{'max' if quota == '-1' else quota} {period}\n")
    else:
        tree.put(path, "cpu.cfs_quota_us", quota + "\n")
        tree.put(path, "cpu.cfs_period_us", period + "\n")


def quota_knob(tree: Tree, path: str) -> str:
    return tree.get(path, "cpu.max" if tree.kind == "v2" else "cpu.cfs_quota_us")


# --- finding


def test_a_cgroup_is_found_by_its_path(tree: Tree) -> None:
    cgroup = look(tree)
    for controller in ("cpu", "cpuset"):
        point = tree.points[controller if tree.kind != "v2" else ""]
        assert cgroup.directory(controller) == point + PATH


def test_a_cgroup_is_found_by_its_systemd_path(tree: Tree) -> None:
    tree.make(SCOPE)
    assert look(tree, SCOPED).directory("cpu").endswith(SCOPE)


def test_the_path_comes_before_the_process(tree: Tree, tmp_path: Path) -> None:
    tree.make("/other/abc")
    make_process(tmp_path / "proc", 7, "3:cpuset:/other/abc\n2:cpu:/other/abc\n0::/other/abc\n")
    assert look(tree, PATH, 7, tmp_path / "proc").directory("cpu").endswith(PATH)


def test_a_path_that_is_gone_says_so(tree: Tree) -> None:
    with pytest.raises(GoneError, match=r"^no cpu cgroup for cgroupsPath '/x/y': /.*/x/y does not exist$"):
        look(tree, "/x/y").cpu_quota()
    with pytest.raises(GoneError, match=r"^no cpu cgroup for container 'abc': no cgroupsPath was given, and no pid"):
        look(tree, "").cpu_quota()
    with pytest.raises(GoneError, match=r"^no cpu cgroup for process 0: no cgroupsPath was given, and no pid"):
        look(tree, "", container="").cpu_quota()


def test_a_wrong_path_is_refused_at_once(tree: Tree) -> None:
    with pytest.raises(CgroupPathError):
        look(tree, "/a/../..")


def test_a_file_in_the_place_of_a_cgroup_is_none(tree: Tree) -> None:
    for point in tree.points.values():
        write(f"{point}/file", "")
    with pytest.raises(GoneError, match="does not exist"):
        look(tree, "/file").directory("cpu")


def test_a_controller_that_is_not_mounted_is_named() -> None:
    with pytest.raises(CgroupError, match="controller cpu is mounted"):
        find(PATH, mounts=Mounts.parse("")).cpu_quota()
    with pytest.raises(CgroupError, match="controller cpu is mounted"):
        find(PATH, mounts=Mounts.parse("")).parent()


def test_an_unknown_controller_is_refused(tree: Tree) -> None:
    with pytest.raises(CgroupError, match="'memory' is not known here: expected one of cpu, cpuset"):
        look(tree).directory("memory")


def test_a_bind_mount_of_a_part_is_followed_and_its_top_never_touched(tmp_path: Path) -> None:
    (tmp_path / "pod1" / "abc").mkdir(parents=True)
    text = f"1 1 0:1 /kubepods {tmp_path} rw - cgroup2 c rw\n"
    cgroup = find("/kubepods/pod1/abc", mounts=Mounts.parse(text))
    pod = cgroup.parent()
    assert cgroup.directory("cpu") == f"{tmp_path}/pod1/abc"
    assert pod is not None
    assert pod.is_pod()
    assert pod.parent() is None
    for path in ("/kubepods", "/pod1/abc"):
        with pytest.raises(GoneError, match=r"is not below .*, where only /kubepods is mounted"):
            find(path, mounts=Mounts.parse(text)).directory("cpu")


def test_a_hosts_tree_in_a_cgroup_namespace_is_found_both_ways(tmp_path: Path) -> None:
    (tmp_path / "kubepods" / "pod1" / "abc").mkdir(parents=True)
    mounts = Mounts.parse(f"1 1 0:1 /../.. {tmp_path} rw - cgroup2 c rw\n")
    make_process(tmp_path / "proc", 7, "0::/../../kubepods/pod1/abc\n")
    for path in ("/kubepods/pod1/abc", ""):
        cgroup = find(path, 7, "abc", mounts=mounts, proc=str(tmp_path / "proc"))
        assert cgroup.directory("cpu") == f"{tmp_path}/kubepods/pod1/abc"


# --- parents


def test_parents_lead_to_the_pod_and_stop_below_the_root(tree: Tree) -> None:
    cgroup: Cgroup | None = look(tree)
    seen = []
    while cgroup is not None:
        seen.append((cgroup.directory("cpuset").rpartition("/")[2], cgroup.is_pod()))
        cgroup = cgroup.parent()
    assert seen == [("abc", False), ("pod1-2", True), ("burstable", False), ("kubepods", False)]


def test_a_parent_that_is_the_root_in_one_hierarchy_is_never_touched(tmp_path: Path) -> None:
    tree = make(tmp_path, "v1")
    for path in ("/b", "/a/b"):
        tree.make(path)
    make_process(tmp_path / "proc", 7, "3:cpuset:/b\n2:cpu:/a/b\n")
    parent = look(tree, "", 7, tmp_path / "proc", "b").parent()
    assert parent is not None
    assert parent.directory("cpu").endswith("/cpu/a")
    with pytest.raises(CgroupError, match="no parent but the root cgroup"):
        parent.set_cpus(frozenset({0}))


# --- the quota


def test_no_quota_is_read_as_none(tree: Tree) -> None:
    quota = look(tree).cpu_quota()
    assert (quota.quota_us, quota.period_us, str(quota)) == (None, 100000, "max/100000")


def test_a_quota_is_cleared_and_the_period_stays(tree: Tree) -> None:
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


def test_nothing_is_written_where_there_is_no_quota(tree: Tree) -> None:
    before = quota_knob(tree, PATH)
    os.utime(tree.file(PATH, "cpu.max" if tree.kind == "v2" else "cpu.cfs_quota_us"), (0, 0))
    assert look(tree).clear_cpu_quota().quota_us is None
    assert os.stat(tree.file(PATH, "cpu.max" if tree.kind == "v2" else "cpu.cfs_quota_us")).st_mtime == 0
    assert quota_knob(tree, PATH) == before


def test_cruns_child_is_cleared_with_its_scope_and_the_tighter_quota_reported(tree: Tree) -> None:
    tree.make(f"{SCOPE}/container")
    limit(tree, SCOPE, "60000")
    limit(tree, f"{SCOPE}/container", "50000")
    assert look(tree, SCOPED).cpu_quota() == Quota(50000, 100000)
    assert look(tree, SCOPED).clear_cpu_quota() == Quota(50000, 100000)
    for path in (SCOPE, f"{SCOPE}/container"):
        assert quota_knob(tree, path) in ("-1", "max")


def test_cruns_child_may_be_the_only_one_with_a_quota(tree: Tree) -> None:
    tree.make(f"{SCOPE}/container")
    limit(tree, f"{SCOPE}/container", "50000")
    assert look(tree, SCOPED).clear_cpu_quota() == Quota(50000, 100000)
    assert quota_knob(tree, f"{SCOPE}/container") in ("-1", "max")


def test_a_child_named_container_outside_of_a_scope_is_the_containers_own(tree: Tree) -> None:
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


def test_quotas_compare_by_what_they_leave() -> None:
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


# --- the CPUs


def test_own_cpus_are_empty_until_they_are_set(tree: Tree) -> None:
    cgroup = look(tree)
    assert cgroup.cpus() == frozenset()
    cgroup.set_cpus(frozenset({0, 1, 3}))
    assert tree.get(PATH, "cpuset.cpus") == "0-1,3"
    assert cgroup.cpus() == {0, 1, 3}


def test_effective_cpus_are_the_kernels_word(tree: Tree) -> None:
    tree.put(PATH, "cpuset.cpus.effective" if tree.kind == "v2" else "cpuset.effective_cpus", "2-3\n")
    tree.put(PATH, "cpuset.cpus", "2-5\n")
    assert look(tree).effective_cpus() == {2, 3}


def test_an_old_v1_kernel_says_only_what_was_set(tmp_path: Path) -> None:
    tree = make(tmp_path, "v1")
    for path in (PATH, POD, "/kubepods/burstable"):
        os.unlink(tree.file(path, "cpuset.effective_cpus"))
    tree.put("/kubepods/burstable", "cpuset.cpus", "1-2\n")
    assert look(tree).effective_cpus() == {1, 2}
    tree.put(PATH, "cpuset.cpus", "1\n")
    assert look(tree).effective_cpus() == {1}


def test_a_parent_without_cpus_of_its_own_has_those_of_the_nearest_ancestor(tree: Tree) -> None:
    knob = "cpuset.cpus.effective" if tree.kind == "v2" else "cpuset.effective_cpus"
    for path, cpus in ((POD, "\n"), ("/kubepods/burstable", "\n"), ("/kubepods", "1-2\n")):
        tree.put(path, knob, cpus)
    assert look(tree).parent_cpus() == {1, 2}


def test_a_parent_that_is_the_root_has_the_cpus_of_the_machine(tree: Tree) -> None:
    tree.make("/alone")
    assert look(tree, "/alone").parent_cpus() == {0, 1, 2, 3}


def test_no_cpus_up_to_the_root_is_an_error(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "v1", cpus="")
    tree.make(PATH)
    for ask in (look(tree).effective_cpus, look(tree).parent_cpus):
        with pytest.raises(CgroupError, match=r"the cgroups above .* have no CPUs"):
            ask()


def test_an_empty_set_is_refused(tree: Tree) -> None:
    with pytest.raises(CpuListError, match="at least one"):
        look(tree).set_cpus(frozenset())


def test_v2_without_the_cpuset_controller_is_explained(tmp_path: Path) -> None:
    tree = make(tmp_path, "v2")
    os.unlink(tree.file(PATH, "cpuset.cpus"))
    os.unlink(tree.file(PATH, "cpuset.cpus.effective"))
    cgroup = look(tree)
    for action in (cgroup.cpus, cgroup.effective_cpus, lambda: cgroup.set_cpus(frozenset({0}))):
        with pytest.raises(CgroupError, match=r"subtree_control of the parent lacks cpuset; '\+cpuset'") as caught:
            action()
        assert not isinstance(caught.value, GoneError)
    assert not os.path.exists(tree.file(PATH, "cpuset.cpus"))


def test_v2_without_the_cpu_controller_is_explained(tmp_path: Path) -> None:
    tree = make(tmp_path, "v2")
    os.unlink(tree.file(PATH, "cpu.max"))
    with pytest.raises(CgroupError, match=r"cpu.max does not exist: .*lacks cpu; '\+cpu'"):
        look(tree).clear_cpu_quota()


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
def test_cruns_child_is_a_part_of_its_scope_at_every_step(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, scope: str, child: str, new: set[int], steps: list[str]
) -> None:
    inner = f"{SCOPE}/container"
    tree.make(inner)
    tree.put(SCOPE, "cpuset.cpus", scope)
    tree.put(inner, "cpuset.cpus", child)
    assign, taken = cpuset.assign, []

    def record(directory: str, version: int, cpus: frozenset[int]) -> None:
        assign(directory, version, cpus)
        level = inner if directory.endswith("/container") else SCOPE
        taken.append(f"{'scope' if level == SCOPE else 'container'} {tree.get(level, 'cpuset.cpus')}")
        assert parse_cpus(tree.get(inner, "cpuset.cpus")) <= parse_cpus(tree.get(SCOPE, "cpuset.cpus"))

    monkeypatch.setattr(cpuset, "assign", record)
    look(tree, SCOPED).set_cpus(frozenset(new))
    assert taken == steps
    assert look(tree, SCOPED).cpus() == new


def test_in_v2_a_child_that_inherits_goes_on_inheriting(tmp_path: Path) -> None:
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


def test_garbage_in_the_cpuset_is_reported_with_the_file(tree: Tree) -> None:
    tree.put(PATH, "cpuset.cpus", "0-x")
    with pytest.raises(CgroupError, match=r"cpuset.cpus holds '0-x': expected a CPU list") as caught:
        look(tree).cpus()
    assert not isinstance(caught.value, ValueError)


# --- files


def test_a_cgroup_that_vanishes_is_gone_whatever_is_asked(tree: Tree) -> None:
    cgroup = look(tree)
    cgroup.directory("cpu")
    cgroup.directory("cpuset")
    for point in tree.points.values():
        shutil.rmtree(point + PATH)
    actions = (
        cgroup.cpu_quota,
        cgroup.clear_cpu_quota,
        cgroup.cpus,
        cgroup.effective_cpus,
        lambda: cgroup.set_cpus(frozenset({0})),
    )
    for action in actions:
        with pytest.raises(GoneError, match="does not exist any more"):
            action()


def test_a_knob_that_is_too_long_is_not_read_to_its_end(tree: Tree) -> None:
    tree.put(PATH, "cpuset.cpus", "0," * 40000)
    with pytest.raises(CgroupError, match=r"cannot read .*/cpuset.cpus: more than 65536 bytes"):
        look(tree).cpus()


def test_a_short_write_is_an_error(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", lambda descriptor, data: len(data) - 1)
    with pytest.raises(CgroupError, match=r"cannot write '0-1' to .*: the kernel took only 2 of 3 bytes"):
        look(tree).set_cpus(frozenset({0, 1}))


def test_what_a_plugin_pays_for_is_this_package_and_what_python_has_loaded_anyway() -> None:
    code = (
        "import os, errno, __future__, sys; before = set(sys.modules); import nri.cgroups; "
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in done.stdout.split() if not name.startswith("nri.cgroups")] == [
        "nri",
        "nri.errors",
    ]
