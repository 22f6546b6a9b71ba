"""A cgroup's directories and parents, and what the package imports; the kernel's part is in test_real.py."""

import subprocess
import sys
from pathlib import Path

import pytest

from nri.cgroups import Cgroup, CgroupError, GoneError, Mounts, find
from nri.testing.cgroup_files import write
from tests.unit.cgroups.trees import PATH, Tree, make_process


def test_missing_cgroup_is_reported(tree: Tree) -> None:
    for point in tree.points.values():
        write(f"{point}/file", "")
    for path, container, reason in (
        ("/x/y", "abc", "cgroupsPath '/x/y': .*/x/y does not exist"),
        ("/file", "abc", "cgroupsPath '/file': .*/file does not exist"),
        ("", "abc", "container 'abc': no cgroupsPath was given, and no pid was given .*"),
        ("", "", "process 0: no cgroupsPath was given, and no pid was given .*"),
    ):
        with pytest.raises(GoneError, match=f"^no cpu cgroup for {reason}$"):
            tree.cgroup(path, container=container).cpu_quota()


def test_controller_that_is_unknown_or_not_mounted_is_named(v1: Tree) -> None:
    for use in (Cgroup.cpu_quota, Cgroup.parent):
        with pytest.raises(CgroupError, match="controller cpu is mounted"):
            use(find(PATH, mounts=Mounts.parse("")))
    del v1.points["blkio"]
    with pytest.raises(
        CgroupError, match="no cgroup hierarchy with the controller blkio is mounted"
    ):
        v1.cgroup().read("io.weight")
    known = "cpu, cpuset, memory, io, pids, hugetlb"
    with pytest.raises(CgroupError, match=f"'freezer' is not known here: expected one of {known}"):
        v1.cgroup().directory("freezer")


def test_bind_mount_of_a_part_is_followed_except_its_top(tmp_path: Path) -> None:
    (tmp_path / "pod1" / "abc").mkdir(parents=True)
    mounts = Mounts.parse(f"1 1 0:1 /kubepods {tmp_path} rw - cgroup2 c rw\n")
    cgroup = find("/kubepods/pod1/abc", mounts=mounts)
    pod = cgroup.parent()
    assert cgroup.directory("cpu") == f"{tmp_path}/pod1/abc"
    assert pod is not None
    assert pod.is_pod()
    assert pod.parent() is None
    for path in ("/kubepods", "/pod1/abc"):
        with pytest.raises(GoneError, match=r"is not below .*, where only /kubepods is mounted"):
            find(path, mounts=mounts).directory("cpu")


def test_host_tree_in_a_cgroup_namespace_is_found_both_ways(tmp_path: Path) -> None:
    (tmp_path / "kubepods" / "pod1" / "abc").mkdir(parents=True)
    mounts = Mounts.parse(f"1 1 0:1 /../.. {tmp_path} rw - cgroup2 c rw\n")
    make_process(tmp_path / "proc", 7, "0::/../../kubepods/pod1/abc\n")
    for path in ("/kubepods/pod1/abc", ""):
        cgroup = find(path, 7, "abc", mounts=mounts, proc=str(tmp_path / "proc"))
        assert cgroup.directory("cpu") == f"{tmp_path}/kubepods/pod1/abc"


def test_parent_that_is_a_hierarchys_root_is_never_changed(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "v1", "/b", "/a/b")
    make_process(tmp_path / "proc", 7, "3:cpuset:/b\n2:cpu:/a/b\n")
    parent = tree.cgroup("", 7, "b", proc=tmp_path / "proc").parent()
    assert parent is not None
    assert parent.directory("cpu").endswith("/cpu/a")
    with pytest.raises(CgroupError, match="no parent but the root cgroup"):
        parent.set_cpus(frozenset({0}))


def loaded_by(code: str) -> list[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()


def test_package_imports_only_what_python_has_loaded_anyway() -> None:
    names = loaded_by(
        "import os, errno, __future__, sys; before = set(sys.modules); import nri.cgroups; "
        "print(*sorted(set(sys.modules) - before))"
    )
    assert [name for name in names if not name.startswith("nri.cgroups")] == ["nri", "nri.errors"]


def test_table_of_knobs_is_loaded_only_when_used(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text(Tree(tmp_path, "v2").mountinfo)
    loaded = loaded_by(
        "import sys; from nri.cgroups import Mounts, find\n"
        f"cgroup = find({PATH!r}, mounts=Mounts.read({str(tmp_path / 'mountinfo')!r}))\n"
        "cgroup.clear_cpu_quota(); cgroup.confine(frozenset({0}))\n"
        "for use in (str, lambda: cgroup.read('cpu.max')):\n"
        "    use(); print('nri.cgroups.knob_table' in sys.modules)\n"
    )
    assert loaded == ["False", "True"]
