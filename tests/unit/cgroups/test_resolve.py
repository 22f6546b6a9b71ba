"""find(): the directories of a container's cgroup, in trees of plain files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nri.cgroups import (
    CgroupError,
    CgroupPathError,
    GoneError,
    Mounts,
    find,
)
from nri.testing.cgroup_files import CgroupFiles, make_process, write
from tests.unit.cgroups.trees import PATH, SCOPE, SCOPED, look

if TYPE_CHECKING:
    from pathlib import Path


def test_a_cgroup_is_found_by_its_path(tree: CgroupFiles) -> None:
    cgroup = look(tree)
    for controller in ("cpu", "cpuset"):
        point = tree.points[controller if tree.kind != "v2" else ""]
        assert cgroup.directory(controller) == point + PATH


def test_a_cgroup_is_found_by_its_systemd_path(tree: CgroupFiles) -> None:
    tree.make(SCOPE)
    assert look(tree, SCOPED).directory("cpu").endswith(SCOPE)


def test_the_path_goes_before_the_process(tree: CgroupFiles, tmp_path: Path) -> None:
    tree.make("/other/abc")
    make_process(tmp_path / "proc", 7, "3:cpuset:/other/abc\n2:cpu:/other/abc\n0::/other/abc\n")
    assert look(tree, PATH, 7, tmp_path / "proc").directory("cpu").endswith(PATH)


def test_a_missing_path_is_reported(tree: CgroupFiles) -> None:
    with pytest.raises(GoneError, match=r"^no cpu cgroup for cgroupsPath '/x/y': /.*/x/y does not exist$"):
        look(tree, "/x/y").cpu_quota()
    with pytest.raises(GoneError, match=r"^no cpu cgroup for container 'abc': no cgroupsPath was given, and no pid"):
        look(tree, "").cpu_quota()
    with pytest.raises(GoneError, match=r"^no cpu cgroup for process 0: no cgroupsPath was given, and no pid"):
        look(tree, "", container="").cpu_quota()


def test_a_wrong_path_is_refused_at_once(tree: CgroupFiles) -> None:
    with pytest.raises(CgroupPathError):
        look(tree, "/a/../..")


def test_a_file_in_place_of_a_cgroup_does_not_count(tree: CgroupFiles) -> None:
    for point in tree.points.values():
        write(f"{point}/file", "")
    with pytest.raises(GoneError, match="does not exist"):
        look(tree, "/file").directory("cpu")


def test_a_controller_that_is_not_mounted_is_named() -> None:
    with pytest.raises(CgroupError, match="controller cpu is mounted"):
        find(PATH, mounts=Mounts.parse("")).cpu_quota()
    with pytest.raises(CgroupError, match="controller cpu is mounted"):
        find(PATH, mounts=Mounts.parse("")).parent()


def test_an_unknown_controller_is_refused(tree: CgroupFiles) -> None:
    with pytest.raises(
        CgroupError, match="'freezer' is not known here: expected one of cpu, cpuset, memory, io, pids, hugetlb"
    ):
        look(tree).directory("freezer")


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
