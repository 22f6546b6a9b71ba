"""Knobs in hostile places, and system calls that fail: errors with the file, and nothing half-written without one."""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from nri.cgroups import CgroupError, GoneError, Quota, knobs
from nri.cgroups.knob_table import TABLE, find
from tests.support.processes import open_fds
from tests.support.system_faults import ERRORS, Failing, name_of
from tests.unit.cgroups.knob_trees import INNER, PATH, SCOPE, KnobTree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VALUES: dict[str, Any] = {
    "cpu.weight": 7,
    "cpu.max": Quota(5000, 50000),
    "cpuset.mems": frozenset({1}),
    "memory.max": 1 << 20,
    "io.weight": {"default": 9, "8:0": 7},
    "io.max": {"8:0": {"rbps": 1, "wiops": 2}},
    "pids.max": 5,
    "hugetlb.2MB.max": 0,
}
REFUSALS = [errno.ENOSPC, errno.EBUSY, errno.EINVAL, errno.EIO, errno.ENOMEM]


@pytest.fixture(params=["v1", "v2"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> KnobTree:
    tree = KnobTree(tmp_path / "tree", request.param, child=True)
    for path in (SCOPE, INNER):
        tree.put(path, "pids.max", "50\n")
        if tree.kind == "v1":
            tree.put(path, "memory.limit_in_bytes", "4096\n")
            tree.put(path, "memory.memsw.limit_in_bytes", "8192\n")
    return tree


def file_of(tree: KnobTree, name: str) -> str:
    return find(name).forms[1 if tree.kind == "v1" else 2].file


def actions(tree: KnobTree, name: str) -> list[Callable[[], Any]]:
    cgroup = tree.cgroup(SCOPE)
    return [partial(cgroup.read, name), partial(cgroup.write, name, VALUES[name])]


@pytest.mark.parametrize("number", ERRORS, ids=name_of)
@pytest.mark.parametrize("call", ["open", "read", "stat"])
@pytest.mark.parametrize("name", VALUES)
def test_what_cannot_be_read_is_named_and_nothing_is_changed(
    tree: KnobTree, monkeypatch: pytest.MonkeyPatch, name: str, call: str, number: int
) -> None:
    for action in actions(tree, name):
        before, state, seen = open_fds(), tree.state(), Failing(os, call, number)
        with monkeypatch.context() as patch, pytest.raises(CgroupError) as caught:
            patch.setattr(knobs, "os", seen)
            action()
        assert seen.failed == 1
        assert not isinstance(caught.value, GoneError)
        doing = "look up" if call == "stat" else "read"
        why = re.escape(f"{os.strerror(number)} ({errno.errorcode[number]})")
        assert re.fullmatch(rf"cannot {doing} {re.escape(str(tree.root))}/.*: {why}", str(caught.value))
        assert open_fds() == before
        assert tree.state() == state


@pytest.mark.parametrize("number", REFUSALS, ids=name_of)
@pytest.mark.parametrize("name", VALUES)
def test_every_refused_write_names_the_file_the_answer_and_what_was_done(
    tree: KnobTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    for nth in range(8):
        fresh = KnobTree(tmp_path / f"tree{nth}", tree.kind, child=True)
        seen, before = Failing(os, "write", number, nth=nth), open_fds()
        with monkeypatch.context() as patch:
            patch.setattr(knobs, "os", seen)
            try:
                fresh.cgroup(SCOPE).write(name, VALUES[name])
            except CgroupError as error:
                text = str(error)
        assert open_fds() == before
        if not seen.failed:  # there are no more writes
            assert nth > 0
            return
        assert re.match(rf"cannot write '.*' to {re.escape(str(fresh.root))}/.*: ", text)
        assert f"({errno.errorcode[number]})" in text
        assert ("before that" in text) == (nth > 0)
    raise AssertionError("it never stops writing")


@pytest.mark.parametrize("name", VALUES)
def test_a_knob_that_is_a_link_is_neither_read_nor_written(tree: KnobTree, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.write_text("1\n")
    file = file_of(tree, name)
    os.unlink(tree.file(SCOPE, file))
    os.symlink(outside, tree.file(SCOPE, file))
    for action in actions(tree, name):
        with pytest.raises(CgroupError, match=r"cannot read .*\(ELOOP\)"):
            action()
    assert outside.read_text() == "1\n"


def test_a_fifo_in_place_of_a_knob_does_not_block(tree: KnobTree) -> None:
    for name in VALUES:
        file = tree.file(SCOPE, file_of(tree, name))
        os.unlink(file)
        os.mkfifo(file)
        read, write = actions(tree, name)
        with pytest.raises(CgroupError):
            write()
        with suppress(CgroupError):  # an empty text is a value of some
            read()


@pytest.mark.parametrize("name", VALUES)
def test_cruns_child_that_is_a_link_is_left_alone(tree: KnobTree, name: str) -> None:
    for point in tree.points.values():
        os.rename(f"{point}{INNER}", f"{point}/moved")
        os.symlink(f"{point}/moved", f"{point}{INNER}")
    before = {path: text for path, text in tree.state().items() if "/moved/" in path}
    tree.cgroup(SCOPE).write(name, VALUES[name])
    assert {path: text for path, text in tree.state().items() if "/moved/" in path} == before


@pytest.mark.parametrize("path", ["/", "/..", "/kubepods/../..", "/../etc"])
def test_the_root_is_never_read_nor_written(tree: KnobTree, path: str) -> None:
    before = tree.state()
    with pytest.raises(CgroupError):
        tree.cgroup(path).write("pids.max", 1)
    assert tree.state() == before


def test_the_root_is_not_reached_through_parents(tree: KnobTree) -> None:
    cgroup = tree.cgroup(PATH)
    while (above := cgroup.parent()) is not None:
        cgroup = above
    assert cgroup.directory("memory").endswith("/kubepods")
    with pytest.raises(CgroupError, match="does not exist: "):
        cgroup.write("pids.max", 1)


def test_a_knob_without_an_end_is_not_read_to_it(tree: KnobTree) -> None:
    tree.put(SCOPE, "pids.max", "1" * 70000)
    with pytest.raises(CgroupError, match=r"cannot read .*/pids.max: more than 65536 bytes"):
        tree.cgroup(SCOPE).read("pids.max")


def test_every_knob_has_a_controller_with_a_directory(tree: KnobTree) -> None:
    for knob in TABLE.values():
        assert tree.cgroup(SCOPE).directory(knob.controller).endswith(SCOPE)
