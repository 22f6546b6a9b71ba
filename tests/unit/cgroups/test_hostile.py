"""No text of a request names a file outside of the cgroup mounts, in trees of plain files with links and FIFOs."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.cgroups import Cgroup, CgroupError, CgroupPathError, GoneError, Mounts, find
from nri.cgroups.paths import MAX_PATH, expand
from nri.testing.cgroup_files import CgroupFiles, make_process, write

if TYPE_CHECKING:
    from pathlib import Path

POD = "/kubepods/pod1-2"
PATH = f"{POD}/abc"
SCOPE = "/system.slice/crun-abc.scope"
QUICKLY = 5.0
"""Seconds, far more than it takes."""


@pytest.fixture(params=("v1", "v2", "hybrid"))
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> CgroupFiles:
    tree = CgroupFiles(tmp_path / "cgroup", request.param)
    tree.make(PATH)
    tree.make(SCOPE)
    return tree


class Outside:
    """A directory that is no cgroup, with files that are called as a cgroup's are."""

    KNOBS = ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpuset.cpus", "cpuset.effective_cpus")

    def __init__(self, root: Path) -> None:
        self.path = root / "outside"
        (self.path / "abc").mkdir(parents=True)
        for directory in (self.path, self.path / "abc"):
            for knob in self.KNOBS:
                write(f"{directory}/{knob}", "100000 100000\n" if knob == "cpu.max" else "1\n")
        self.before = self.state()

    def state(self) -> dict[str, str]:
        return {str(path): path.read_text() for path in self.path.rglob("*") if path.is_file()}


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    return Outside(tmp_path)


def look(tree: CgroupFiles, path: str, pid: int = 0, proc: object = "/nowhere") -> Cgroup:
    return find(path, pid, "abc", mounts=Mounts.parse(tree.mountinfo), proc=str(proc))


def use(cgroup: Cgroup) -> None:
    """Everything that can be done with a cgroup; the first fault is raised."""
    cgroup.directory("cpu")
    cgroup.cpu_quota()
    cgroup.cpus()
    cgroup.clear_cpu_quota()
    cgroup.set_cpus(frozenset([0]))


def link(tree: CgroupFiles, path: str, target: Path) -> None:
    """Put a link to ``target`` in the place of a cgroup, in each hierarchy."""
    for point in tree.points.values():
        directory = point + path
        if os.path.isdir(directory):
            os.rename(directory, f"{directory}.moved")
        os.makedirs(os.path.dirname(directory), exist_ok=True)
        os.symlink(target, directory)


@pytest.mark.parametrize("linked", [PATH, POD, "/kubepods"])
def test_a_link_in_the_tree_is_not_followed(tree: CgroupFiles, outside: Outside, linked: str) -> None:
    link(tree, linked, outside.path)
    with pytest.raises(CgroupError, match="is a link: expected a cgroup, and among cgroups there are none"):
        use(look(tree, f"{linked}/abc" if linked != PATH else linked))
    assert outside.state() == outside.before


def test_a_link_is_not_followed_for_the_processs_cgroup_either(
    tree: CgroupFiles, outside: Outside, tmp_path: Path
) -> None:
    link(tree, "/evil", outside.path)
    make_process(tmp_path / "proc", 7, "3:cpuset:/evil/abc\n2:cpu:/evil/abc\n0::/evil/abc\n")
    with pytest.raises(CgroupError, match="evil is a link: expected a cgroup"):
        use(look(tree, "", 7, tmp_path / "proc"))
    assert outside.state() == outside.before


def test_a_link_inside_of_the_tree_is_not_followed_either(tree: CgroupFiles) -> None:
    for point in tree.points.values():
        os.symlink(f"{point}{POD}", f"{point}/alias")
    with pytest.raises(CgroupError, match="alias is a link"):
        use(look(tree, "/alias/abc"))


@pytest.mark.parametrize("knob", ["cpu", "cpuset"])
def test_a_knob_that_is_a_link_is_neither_read_nor_written(tree: CgroupFiles, outside: Outside, knob: str) -> None:
    name = {"cpu": "cpu.max" if tree.kind == "v2" else "cpu.cfs_quota_us", "cpuset": "cpuset.cpus"}[knob]
    file = tree.file(PATH, name)
    os.unlink(file)
    os.symlink(outside.path / name, file)
    with pytest.raises(CgroupError, match=r"cannot read .*\(ELOOP\)"):
        use(look(tree, PATH))
    if knob == "cpuset":
        with pytest.raises(CgroupError, match=r"cannot write .*\(ELOOP\)"):
            look(tree, PATH).set_cpus(frozenset([0]))
    assert outside.state() == outside.before


def test_cruns_child_that_is_a_link_is_left_alone(tree: CgroupFiles, outside: Outside) -> None:
    for point in tree.points.values():
        os.symlink(outside.path, f"{point}{SCOPE}/container")
    use(look(tree, "system.slice:crun:abc"))
    assert outside.state() == outside.before


def test_a_fifo_in_place_of_a_knob_does_not_block(tree: CgroupFiles) -> None:
    name = "cpu.max" if tree.kind == "v2" else "cpu.cfs_quota_us"
    os.unlink(tree.file(PATH, name))
    os.mkfifo(tree.file(PATH, name))
    with pytest.raises(CgroupError):
        use(look(tree, PATH))


HOSTILE = [
    *("..", "../..", "/..", "/../etc", "/kubepods/../../etc", "/kubepods/pod1-2/abc/..", "kubepods/..", "/a/./../b"),
    *("/", "//", "/.", "/./.", ".", "./", ""),
    *("/kubepods\0", "\0", "/kubepods\n/pod", "/a\tb", "/a\x7fb", "/a\x85b", "/\x1b[2J", "/a\ud800"),
    *("/" + "a" * 256, "a" * 256, "/" + "é" * 128, "/" + "a/" * 2048, "/a" * 2049, "/" + "a" * 1_000_000),
    *("../x.slice:a:b", "x/y.slice:a:b", "/x.slice:../a:b", "x.slice:a/b:c", "x.slice:..:../..", "x.slice:a:b/c"),
    *("x.slice:a:/etc/y.slice", "x.slice:a:../y.slice", "x.slice:a:\0.slice", "x.slice:a\n:b", "x:a:b", ":::", "a:b"),
    *("::", "::.slice", "::-.slice", "-.slice::", "a--b.slice:c:d", "-a.slice:c:d", "a-.slice:c:d"),
    *("-".join("a" * 126) + ".slice:a:" + "b" * 300, "-".join(["aaaa"] * 51) + ".slice:a:b" * 2, "a:" * 2000),
    "-".join("a" * 124) + ".slice:a:" + "b" * 200,
]


@pytest.mark.parametrize("path", HOSTILE, ids=lambda path: ascii(path[:24]))
def test_a_hostile_path_is_refused_or_names_nothing(tree: CgroupFiles, outside: Outside, path: str) -> None:
    started = time.monotonic()
    with pytest.raises(CgroupError) as caught:
        use(look(tree, path))
    assert isinstance(caught.value, CgroupPathError | GoneError)
    assert len(str(caught.value)) < 3 * MAX_PATH
    assert time.monotonic() - started < QUICKLY
    assert outside.state() == outside.before


PART = st.sampled_from(["..", ".", "", "a", "a.slice", "-", "-.slice", "a-b.slice", ":", "/", "\0", "\n", "..slice"])


@given(st.lists(PART | st.text(max_size=5), max_size=12).map("".join) | st.text())
def test_whatever_is_accepted_lies_below_the_mount(path: str) -> None:
    try:
        below = expand(path)
    except CgroupPathError as error:
        assert len(str(error)) < 500
        return
    assert below.startswith("/")
    assert below == os.path.normpath(below) != "/"
    assert "\0" not in below
    assert "\n" not in below
    assert len(os.fsencode(below)) <= MAX_PATH


@pytest.mark.parametrize("pid", [0, -1, -(2**63), 2**22, 2**31, 2**64, 10**300])
def test_a_pid_that_no_process_has_names_nothing(tree: CgroupFiles, tmp_path: Path, pid: int) -> None:
    if -1 <= pid < 2**65:
        make_process(tmp_path / "proc", pid, f"3:cpuset:{PATH}\n2:cpu:{PATH}\n0::{PATH}\n")
    with pytest.raises(GoneError) as caught:
        use(look(tree, "", pid, tmp_path / "proc"))
    assert len(str(caught.value)) < 300


def test_the_greatest_pid_is_looked_up(tree: CgroupFiles, tmp_path: Path) -> None:
    make_process(tmp_path / "proc", 2**22 - 1, f"3:cpuset:{PATH}\n2:cpu:{PATH}\n0::{PATH}\n")
    assert look(tree, "", 2**22 - 1, tmp_path / "proc").directory("cpu").endswith(PATH)


@pytest.mark.parametrize(
    "printed",
    [
        *("/..", "/../..", "/../../etc", "/a/../..", "//etc", "/./a", "/kubepods//..", "../etc", "etc", "/\0"),
        *("/../../outside/abc", "/a/../../outside/abc", "//outside/abc", "/./abc", "../outside/abc", "/\0/abc"),
    ],
)
def test_a_processs_path_never_leaves_the_mount(
    tree: CgroupFiles, outside: Outside, tmp_path: Path, printed: str
) -> None:
    make_process(tmp_path / "proc", 7, f"3:cpuset:{printed}\n2:cpu:{printed}\n0::{printed}\n")
    with pytest.raises(CgroupError):
        use(look(tree, "", 7, tmp_path / "proc"))
    assert outside.state() == outside.before
