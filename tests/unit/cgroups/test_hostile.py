"""No text of a request leads out of the cgroup mounts, in trees of plain files with links and FIFOs."""

import os
from contextlib import suppress
from pathlib import Path

import pytest

from nri.cgroups import Cgroup, CgroupError, CgroupPathError, GoneError
from nri.cgroups.paths import MAX_PATH
from nri.testing.cgroup_files import write
from tests.unit.cgroups.trees import PATH, POD, SCOPE, SCOPED, Tree, make_process

KNOBS = {
    "cpu.max": "100000 100000\n",
    "cpu.cfs_quota_us": "1\n",
    "cpuset.cpus": "1\n",
    "pids.max": "1\n",
}


class Outside:
    """A directory that is no cgroup, with files that are called as a cgroup's are."""

    def __init__(self, root: Path) -> None:
        self.path = root / "outside"
        (self.path / "abc").mkdir(parents=True)
        for directory in (self.path, self.path / "abc"):
            for knob, value in KNOBS.items():
                write(f"{directory}/{knob}", value)
        self.before = self.state()

    def state(self) -> dict[str, str]:
        return {str(path): path.read_text() for path in self.path.rglob("*") if path.is_file()}


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    return Outside(tmp_path)


def use(cgroup: Cgroup) -> None:
    """Everything that can be done with a cgroup; the first fault is raised."""
    cgroup.directory("cpu")
    cgroup.cpu_quota()
    cgroup.cpus()
    cgroup.clear_cpu_quota()
    cgroup.set_cpus(frozenset([0]))
    cgroup.write("pids.max", 5)


def link(tree: Tree, path: str, target: Path) -> None:
    """Put a link to ``target`` in the place of a cgroup, in each hierarchy."""
    for point in tree.points.values():
        directory = point + path
        if os.path.isdir(directory):
            os.rename(directory, f"{directory}.moved")
        os.makedirs(os.path.dirname(directory), exist_ok=True)
        os.symlink(target, directory)


@pytest.mark.parametrize("linked", [PATH, POD, "/kubepods", "/evil"])
def test_a_link_in_the_tree_is_not_followed(
    tree: Tree, outside: Outside, tmp_path: Path, linked: str
) -> None:
    link(tree, linked, outside.path)
    path = f"{linked}/abc" if linked != PATH else linked
    make_process(tmp_path / "proc", 7, f"3:cpuset:{path}\n2:cpu:{path}\n0::{path}\n")
    for given_path in (path, ""):
        with pytest.raises(
            CgroupError, match="is a link: expected a cgroup, and among cgroups there are none"
        ):
            use(tree.cgroup(given_path, 7, proc=tmp_path / "proc"))
    assert outside.state() == outside.before


@pytest.mark.parametrize("knob", ["cpu.max", "cpuset.cpus", "pids.max"])
def test_a_file_that_is_a_link_is_neither_read_nor_written(
    tree: Tree, outside: Outside, knob: str
) -> None:
    name = knob if knob != "cpu.max" else tree.v1_or_v2("cpu.cfs_quota_us", knob)
    file = tree.file(PATH, name)
    os.unlink(file)
    os.symlink(outside.path / name, file)
    for action in (
        use,
        lambda cgroup: cgroup.read(knob),
        lambda cgroup: cgroup.write(knob, cgroup.read(knob)),
    ):
        with pytest.raises(CgroupError, match=r"cannot read .*\(ELOOP\)"):
            action(tree.cgroup())
    assert outside.state() == outside.before


def test_cruns_child_that_is_a_link_is_left_alone(tmp_path: Path, outside: Outside) -> None:
    for kind in ("v1", "v2"):
        tree = Tree(tmp_path / kind, kind, SCOPE)
        for point in tree.points.values():
            os.symlink(outside.path, f"{point}{SCOPE}/container")
        use(tree.cgroup(SCOPED))
        assert outside.state() == outside.before


@pytest.mark.parametrize("knob", ["cpu.max", "cpuset.cpus", "pids.max"])
def test_a_fifo_in_place_of_a_file_does_not_block(tree: Tree, knob: str) -> None:
    file = tree.file(PATH, knob if knob != "cpu.max" else tree.v1_or_v2("cpu.cfs_quota_us", knob))
    os.unlink(file)
    os.mkfifo(file)
    with pytest.raises(CgroupError):
        use(tree.cgroup())
    with suppress(CgroupError):  # an empty text is no CPUs
        tree.cgroup().read(knob)


HOSTILE = {
    "parents": ["..", "/../etc", "/kubepods/../../etc", f"{PATH}/..", "kubepods/..", "/a/./../b"],
    "the root": ["/", "/./.", "./", ""],
    "no names": ["/kubepods\0", "/kubepods\n/pod", "/a\x85b", "/\x1b[2J", "/a\ud800"],
    "too long": [
        "/" + "é" * 128,
        "/a" * 2049,
        "a:" * 2000,
        "-".join("a" * 124) + ".slice:a:" + "b" * 200,
    ],
    "slashes and parents in systemd's style": [
        *(
            "../x.slice:a:b",
            "/x.slice:../a:b",
            "x.slice:a/b:c",
            "x.slice:..:../..",
            "x.slice:a:b/c",
        ),
        *("x.slice:a:/etc/y.slice", "x.slice:a:../y.slice", "x.slice:a:\0.slice", "x.slice:a\n:b"),
    ],
    "no slices": [
        "x:a:b",
        ":::",
        "a:b",
        "::",
        "::.slice",
        "::-.slice",
        "a--b.slice:c:d",
        "-a.slice:c:d",
    ],
}


@pytest.mark.parametrize("attack", HOSTILE)
def test_a_hostile_path_is_refused_or_names_nothing(
    tree: Tree, outside: Outside, attack: str
) -> None:
    before = tree.state()
    for path in HOSTILE[attack]:
        with pytest.raises(CgroupError) as caught:
            use(tree.cgroup(path))
        assert isinstance(caught.value, CgroupPathError | GoneError)
        assert len(str(caught.value)) < 3 * MAX_PATH
        assert (outside.state(), tree.state()) == (outside.before, before)


def test_only_a_number_that_a_process_can_have_is_looked_up(tree: Tree, tmp_path: Path) -> None:
    for pid in (-1, 2**22, 2**22 - 1):
        make_process(tmp_path / "proc", pid, f"3:cpuset:{PATH}\n2:cpu:{PATH}\n0::{PATH}\n")
    for pid in (-1, 2**22, 10**300):
        with pytest.raises(GoneError) as caught:
            use(tree.cgroup("", pid, proc=tmp_path / "proc"))
        assert len(str(caught.value)) < 300
    assert tree.cgroup("", 2**22 - 1, proc=tmp_path / "proc").directory("cpu").endswith(PATH)


@pytest.mark.parametrize(
    "printed",
    [
        "/..",
        "/../../outside/abc",
        "/a/../../outside/abc",
        "//outside/abc",
        "../outside/abc",
        "/\0/abc",
    ],
)
def test_a_processs_path_never_leaves_the_mount(
    tree: Tree, outside: Outside, tmp_path: Path, printed: str
) -> None:
    make_process(tmp_path / "proc", 7, f"3:cpuset:{printed}\n2:cpu:{printed}\n0::{printed}\n")
    with pytest.raises(CgroupError):
        use(tree.cgroup("", 7, proc=tmp_path / "proc"))
    assert outside.state() == outside.before
