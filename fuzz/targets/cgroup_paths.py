"""Paths of cgroups: a cgroupsPath becomes a normal path below any mount, short enough and not the root, or is refused
with a CgroupPathError of one printable line. A path of /proc/PID/cgroup through any mount of any mountinfo is below
the mount, or not visible there. No text from the kernel raises an exception.

The input is a mountinfo, a NUL, a /proc/PID/cgroup, a NUL, and a cgroupsPath; missing parts are empty.
"""

from __future__ import annotations

import os

from nri.cgroups import CgroupPathError, Mounts
from nri.cgroups.paths import MAX_COMPONENT, MAX_PATH, expand, is_pod, memberships


def check(data: bytes) -> None:
    """Parse the three texts, and map the paths to the mounts."""
    mountinfo, proc, given, *_ = [
        part.decode("utf-8", "surrogateescape") for part in (data + b"\0\0").split(b"\0", 2)
    ]
    mounts = Mounts.parse(mountinfo)
    assert mounts.version in ("v1", "v2", "hybrid", "none")
    all_mounts = [*mounts.v1.values(), *([mounts.v2] if mounts.v2 else [])]
    printed = memberships(proc)
    for path in printed.values():
        assert path.startswith("/")
        is_pod(path)
        for mount in all_mounts:
            _assert_below(mount.below(path))
    try:
        wanted = expand(given.removesuffix("\0\0"))
    except CgroupPathError as error:
        assert str(error).isprintable()
        assert len(str(error)) < 2000, "an error carries the path"
        return
    assert wanted != "/"
    _assert_below(wanted)
    assert all(len(os.fsencode(part)) <= MAX_COMPONENT for part in wanted.split("/"))
    assert len(os.fsencode(wanted)) <= MAX_PATH
    assert expand(wanted) == wanted
    is_pod(wanted)
    for mount in all_mounts:
        _assert_below(mount.below_host(wanted))


def _assert_below(path: str | None) -> None:
    if path not in (None, "/"):
        assert os.path.normpath("/mnt/cgroup" + path) == "/mnt/cgroup" + path, (
            f"{path!r} leaves the mount"
        )


_V1 = b"31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
_V2 = b"30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
_PART = b"32 23 0:28 /docker/abc /sys/fs/cgroup/cpuset rw master:5 - cgroup cgroup rw,cpuset\n"
_ABOVE = b"33 23 0:28 /../.. /mnt/with\\040blank rw - cgroup2 cgroup2 rw\n"
_PROC = b"12:cpu,cpuacct:/a/b\n9:name=systemd:/s:with:colons\n3:cpuset:/docker/abc/x (deleted)\n0::/../../u\n"
SEEDS = (
    _V1 + _V2 + _PART + b"\0" + _PROC + b"\0/kubepods/burstable/pod1/abc",
    _ABOVE + b"\0" + _PROC + b"\0default/redis",
    b"\0\0system.slice:cri-containerd:abc",
    b"\0\0kubepods-besteffort-pod1_2.slice:crio:ff",
    b"\0\0a/../b",
    b"\0\0-:..:..",
    b"\0\0..:a:b",
    b"\0\0/a:b:c",
    b"\0\0a.slice:p:-.slice",
    b"\0\0/\xff",
    b"\0\0" + b"-".join([b"a"] * 120) + b".slice:p:n",
)
WORDS = (
    b"\0\0",
    b"-",
    b"a",
    b"/",
    b"%",
    b".slice",
    b":",
    b"/..",
    b"/.",
    b" - cgroup ",
    b" - cgroup2 ",
    b"cpuset",
    b"0::/",
    b"\\057",
    b"\\134",
    b"pod",
)
