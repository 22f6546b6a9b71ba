from __future__ import annotations

import pytest

from nri.cgroups import Mounts
from nri.cgroups.mounts import Mount
from nri.testing.cgroup_files import escape

V1 = """\
23 1 8:1 / / rw,relatime - ext4 /dev/root rw
31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - tmpfs tmpfs ro,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:10 master:1 - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset,cpuset_v2_mode
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup systemd rw,xattr,name=systemd
"""
UNIFIED = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n"
V2 = "26 23 0:23 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"


def line(point: str, root: str = "/", kind: str = "cgroup2", options: str = "rw") -> str:
    return f"50 31 0:50 {escape(root)} {escape(point)} rw - {kind} none {options}\n"


def serving(mounts: Mounts, controller: str) -> Mount:
    mount = mounts.serving(controller)
    assert mount is not None
    return mount


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (V1, "v1"),
        (V2, "v2"),
        (V1 + UNIFIED, "hybrid"),
        ("", "none"),
        (V1.splitlines()[-1] + "\n" + V2, "v2"),
    ],
)
def test_the_version_is_what_is_mounted(text: str, version: str) -> None:
    assert Mounts.parse(text).version == version


def test_controller_is_served_by_v1_or_else_v2() -> None:
    mounts = Mounts.parse(V1)
    assert (
        serving(mounts, "cpu").point
        == serving(mounts, "cpuacct").point
        == "/sys/fs/cgroup/cpu,cpuacct"
    )
    assert serving(mounts, "cpuset").version == 1
    assert mounts.serving("memory") is None
    mounts = Mounts.parse(V1 + UNIFIED)
    assert serving(mounts, "cpu").version == 1
    assert serving(mounts, "memory").point == "/sys/fs/cgroup/unified"


def test_escapes_are_decoded() -> None:
    assert serving(Mounts.parse(line("/mnt/a b\\c\td#")), "cpu").point == "/mnt/a b\\c\td#"
    assert (
        serving(Mounts.parse("1 1 0:1 / /a\\x\\04 rw - cgroup2 c rw"), "cpu").point == "/a\\x\\04"
    )


def test_of_two_mounts_on_one_point_the_last_is_seen() -> None:
    mounts = Mounts.parse(V1 + line("/sys/fs/cgroup/cpuset", "/part", "cgroup", "rw,cpuset"))
    assert (
        repr(serving(mounts, "cpuset"))
        == "Mount(point='/sys/fs/cgroup/cpuset', root='/part', version=1)"
    )
    hidden = Mounts.parse(V2 + line("/sys/fs/cgroup", kind="tmpfs"))
    assert hidden.version == "none"


def test_a_mount_of_the_whole_hierarchy_is_preferred() -> None:
    part, whole, host = line("/part", "/docker/1"), line("/whole"), line("/host", "/../..")
    assert serving(Mounts.parse(part + whole + line("/other")), "cpu").point == "/whole"
    assert serving(Mounts.parse(whole + part), "cpu").point == "/whole"
    assert serving(Mounts.parse(part), "cpu").point == "/part"
    assert serving(Mounts.parse(whole + host + part), "cpu").point == "/host"


@pytest.mark.parametrize(
    ("root", "path", "below"),
    [
        ("/", "/a/b", "/a/b"),
        ("/", "/../a", ""),
        ("/", "//", ""),
        ("/", "/", "/"),
        ("/docker/1", "/docker/1/a", "/a"),
        ("/docker/1", "/docker/1", "/"),
        ("/docker/1", "/docker/12", ""),
        ("/docker/1", "/docker/1/../2", ""),
        ("/../..", "/../../kubepods/pod1/x", "/kubepods/pod1/x"),
        ("/../../..", "/../../c", ""),  # as a kernel printed it for /top/c, seen from /top/a/b
        ("/../../..", "/../../..", "/"),
        ("/../..", "/a", ""),
    ],
)
def test_a_mounts_root_is_stripped_from_what_the_kernel_prints(
    root: str, path: str, below: str
) -> None:
    assert Mount("/mnt", root, 2).below(path) == below


def test_cgroups_path_counts_from_the_hosts_root() -> None:
    for root, path, below in (
        ("/../..", "/kubepods/x", "/kubepods/x"),
        ("/docker/1", "/docker/1/x", "/x"),
        ("/docker/1", "/kubepods/x", ""),
    ):
        assert Mount("/mnt", root, 2).below_host(path) == below


def test_a_malformed_line_is_ignored() -> None:
    texts = ("\n", "garbage\n", " - cgroup2 c rw\n", "1 1 0:1 / /x rw\n", "- - - - -\n")
    for bad in (*texts, "1 1 0:1 / x rw - cgroup2 c rw\n"):
        assert Mounts.parse(bad).version == "none"
        assert Mounts.parse(bad + V2 + bad).version == "v2"
