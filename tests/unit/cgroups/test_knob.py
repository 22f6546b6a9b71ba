"""Reading and writing knobs by their names, in trees of plain files of v1 and of v2."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nri.cgroups import CgroupError, GoneError, KnobValueError, Quota
from nri.cgroups.knob_table import TABLE
from tests.unit.cgroups.trees import INNER, PATH, SCOPE, Tree

GIB = 1 << 30


# name, the value at first, a value to write, what is then in the file of v1 and of v2
CASES: list[tuple[str, Any, Any, tuple[str, str] | None, tuple[str, str] | None]] = [
    ("cpu.weight", 100, 39, ("cpu.shares", "305"), ("cpu.weight", "39")),
    (
        "cpu.max",
        Quota(None, 100000),
        Quota(5000, 100000),
        ("cpu.cfs_quota_us", "5000"),
        ("cpu.max", "5000 100000"),
    ),
    ("cpu.max.burst", 0, 700, ("cpu.cfs_burst_us", "700"), ("cpu.max.burst", "700")),
    ("cpu.idle", False, True, ("cpu.idle", "1"), ("cpu.idle", "1")),
    ("cpu.bvt_warp_ns", 0, -1, ("cpu.bvt_warp_ns", "-1"), ("cpu.bvt_warp_ns", "-1")),
    (
        "cpuset.cpus",
        frozenset(),
        frozenset({0, 1, 2}),
        ("cpuset.cpus", "0-2"),
        ("cpuset.cpus", "0-2"),
    ),
    ("cpuset.mems", frozenset(), frozenset({0}), ("cpuset.mems", "0"), ("cpuset.mems", "0")),
    ("memory.min", 0, GIB, None, ("memory.min", str(GIB))),
    ("memory.low", 0, GIB, None, ("memory.low", str(GIB))),
    ("memory.high", None, GIB, None, ("memory.high", str(GIB))),
    ("memory.max", None, GIB, ("memory.limit_in_bytes", str(GIB)), ("memory.max", str(GIB))),
    ("memory.swap.max", None, 0, None, ("memory.swap.max", "0")),
    ("memory.oom.group", False, True, None, ("memory.oom.group", "1")),
    ("pids.max", None, 100, ("pids.max", "100"), ("pids.max", "100")),
]


def test_every_knob_has_a_case() -> None:
    of_its_own = {"io.weight"}  # test_knob_weights.py
    assert {case[0] for case in CASES} | of_its_own == {
        knob.name for knob in TABLE.values() if knob.can_be_written
    }


@pytest.mark.parametrize(
    ("name", "first", "value", "v1", "v2"), CASES, ids=[case[0] for case in CASES]
)
def test_knob_is_read_written_left_alone_and_restored(
    tree: Tree, written: list[str], name: str, first: object, value: object, v1: Any, v2: Any
) -> None:
    cgroup, expected = tree.cgroup(), v1 if tree.kind == "v1" else v2
    if expected is None:
        if name != "memory.swap.max":
            for call in (partial(cgroup.read, name), partial(cgroup.write, name, value)):
                with pytest.raises(
                    CgroupError, match=rf"has no {name}: cgroup v1 has nothing that does the same"
                ):
                    call()
        return
    assert cgroup.read(name) == first
    assert cgroup.write(name, first) == first
    assert written == []
    assert cgroup.write(name, value) == first
    assert cgroup.read(name) == value
    assert tree.get(PATH, expected[0]) == expected[1]
    assert written == [f"abc/{expected[0]} {expected[1]}"]
    assert cgroup.write(name, value) == value
    assert len(written) == 1
    assert cgroup.write(name, first) == value
    assert cgroup.read(name) == first


def test_a_file_of_v2_in_v1_counts_where_it_is(tmp_path: Path) -> None:
    """Kernels of Anolis OS and TencentOS have some."""
    tree = Tree(tmp_path, "v1")
    cgroup = tree.cgroup()
    for name, first, value, text in (
        ("memory.low", 0, GIB, str(GIB)),
        ("memory.high", None, 4096, "4096"),
    ):
        tree.put(PATH, name, "max\n" if first is None else "0\n")
        assert cgroup.read(name) == first
        assert cgroup.write(name, value) == first
        assert tree.get(PATH, name) == text


def test_read_only_knobs_and_wrong_values_are_refused(tree: Tree) -> None:
    with pytest.raises(
        KnobValueError, match=r"^cpuset.cpus.effective can only be read: found 1 to write to it$"
    ):
        tree.cgroup().write("cpuset.cpus.effective", 1)
    with pytest.raises(
        KnobValueError, match=r"^memory.max: found '1G', expected a number of bytes from 0 to"
    ):
        tree.cgroup("/nowhere").write("memory.max", "1G")


def test_any_file_is_read_and_written_as_text(tree: Tree, written: list[str]) -> None:
    cgroup = tree.cgroup()
    assert cgroup.read_text("memory.stat") == tree.get(PATH, "memory.stat")
    cgroup.write_text("pids.max", "7 of any kind")
    assert written == ["abc/pids.max 7 of any kind"]
    with pytest.raises(
        CgroupError, match=r"pids.none does not exist: the kernel lacks it, its controller is not"
    ):
        cgroup.read_text("pids.none")
    with pytest.raises(
        CgroupError,
        match=r"to .*pids.none: No such file or directory \(ENOENT\): the kernel lacks it",
    ):
        cgroup.write_text("pids.none", "1")
    with pytest.raises(KnobValueError, match=r"^pids.max: found '1٣', expected ASCII$"):
        cgroup.write_text("pids.max", "1٣")
    for name in ("", "pids", ".max", "pids.", "../pids.max", "a/pids.max", "pids.max\0"):
        for call in (partial(cgroup.read_text, name), partial(cgroup.write_text, name, "1")):
            with pytest.raises(
                KnobValueError,
                match=r"is no file of a cgroup: expected a name such as memory.stat$",
            ):
                call()


def test_file_of_no_controller_is_in_the_first_hierarchy(v2: Tree, v1: Tree) -> None:
    v2.put(PATH, "cgroup.events", "populated 0\n")
    v2.put(PATH, "memory.pressure", "some avg10=0.00\n")
    assert v2.cgroup().read_text("cgroup.events") == "populated 0"
    assert v2.cgroup().read_text("memory.pressure") == "some avg10=0.00"
    with pytest.raises(CgroupError, match=r"memory.pressure does not exist"):
        v1.cgroup().read_text("memory.pressure")


# crun's child


def test_tightest_limit_counts_and_a_childs_own_is_moved(scoped: Tree) -> None:
    cgroup = scoped.cgroup(SCOPE)
    for name, unit, v1 in (
        ("memory.max", 1 << 20, "memory.limit_in_bytes"),
        ("pids.max", 10, "pids.max"),
    ):
        file = scoped.v1_or_v2(v1, name)
        none = scoped.get(INNER, file)
        cgroup.write(name, 8 * unit)
        assert scoped.get(INNER, file) == none
        scoped.put(INNER, file, f"{4 * unit}\n")
        assert cgroup.read(name) == 4 * unit
        assert cgroup.write(name, 9 * unit) == 4 * unit
        assert scoped.get(INNER, file) == scoped.get(SCOPE, file)


def test_tighter_quota_goes_to_the_child_first(scoped: Tree, written: list[str]) -> None:
    cgroup = scoped.cgroup(SCOPE)
    for path in (SCOPE, INNER):
        scoped.limit(path, 50000)
    cgroup.write("cpu.max", Quota(20000, 100000))
    cgroup.write("cpu.max", Quota(70000, 100000))
    levels = [line.partition("/")[0] for line in written]
    assert levels == ["container", "crun-abc.scope", "crun-abc.scope", "container"]
    written.clear()
    cgroup.write("cpu.weight", 7)
    # A weight is the scope's alone.
    assert [line.partition("/")[0] for line in written] == ["crun-abc.scope"]
    file = scoped.v1_or_v2("cpuset.effective_cpus", "cpuset.cpus.effective")
    scoped.put(SCOPE, file, "0-3\n")
    scoped.put(INNER, file, "2\n")
    assert cgroup.read("cpuset.cpus.effective") == {2}


def test_a_protection_is_given_to_both_and_the_lesser_counts(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "v2", SCOPE, INNER)
    cgroup = tree.cgroup(SCOPE)
    tree.put(SCOPE, "memory.low", "8192\n")
    assert cgroup.read("memory.low") == 0
    cgroup.write("memory.low", 4096)
    assert [tree.get(path, "memory.low") for path in (SCOPE, INNER)] == ["4096", "4096"]


def test_memory_nodes_of_a_child_are_a_subset_at_every_step(
    tmp_path: Path, written: list[str]
) -> None:
    tree = Tree(tmp_path, "v1", SCOPE, INNER)
    for path in (SCOPE, INNER):
        tree.put(path, "cpuset.mems", "0\n")
    assert tree.cgroup(SCOPE).write("cpuset.mems", frozenset({1})) == frozenset({0})
    assert written == [
        "crun-abc.scope/cpuset.mems 0-1",
        "container/cpuset.mems 1",
        "crun-abc.scope/cpuset.mems 1",
    ]


# v1's own rules


def test_swap_is_what_v1_allows_beyond_memory(v1: Tree, written: list[str]) -> None:
    cgroup = v1.cgroup()
    with pytest.raises(
        CgroupError, match=r"unlimited; expected memory.max to be set before memory.swap.max"
    ):
        cgroup.write("memory.swap.max", 4096)
    cgroup.write("memory.max", 8192)
    written.clear()
    assert cgroup.write("memory.swap.max", 4096) is None
    assert v1.get(PATH, "memory.memsw.limit_in_bytes") == "12288"
    assert cgroup.read("memory.swap.max") == 4096
    assert cgroup.write("memory.swap.max", None) == 4096
    assert cgroup.read("memory.swap.max") is None
    cgroup.write("memory.swap.max", 4096)
    written.clear()
    cgroup.write("memory.max", 16384)
    cgroup.write("memory.max", 4096)
    cgroup.write("memory.max", None)
    assert written == [
        "abc/memory.memsw.limit_in_bytes 20480",
        "abc/memory.limit_in_bytes 16384",
        "abc/memory.limit_in_bytes 4096",
        "abc/memory.memsw.limit_in_bytes 8192",
        "abc/memory.memsw.limit_in_bytes -1",
        "abc/memory.limit_in_bytes -1",
    ]


def test_v1_without_swap_accounting_has_a_memory_limit_alone(v1: Tree) -> None:
    v1.put(PATH, "cpu.shares", "1020\n")
    assert v1.cgroup().write("cpu.weight", 100) == 100
    assert v1.get(PATH, "cpu.shares") == "1020"  # has the weight already
    os.unlink(v1.file(PATH, "memory.memsw.limit_in_bytes"))
    assert v1.cgroup().write("memory.max", 8192) is None
    with pytest.raises(
        CgroupError,
        match=r"memsw.limit_in_bytes does not exist: the kernel lacks it.*swapaccount=1",
    ):
        v1.cgroup().read("memory.swap.max")


@pytest.mark.parametrize(
    ("old", "new", "order"),
    [
        (50000, Quota(60000, 200000), ["cpu.cfs_period_us 200000", "cpu.cfs_quota_us 60000"]),
        (50000, Quota(10000, 50000), ["cpu.cfs_quota_us 10000", "cpu.cfs_period_us 50000"]),
        (50000, Quota(None, 200000), ["cpu.cfs_quota_us -1", "cpu.cfs_period_us 200000"]),
        (-1, Quota(10000, 100000), ["cpu.cfs_quota_us 10000"]),
    ],
    ids=str,
)
def test_v1s_quota_is_never_looser_on_the_way(
    v1: Tree, written: list[str], old: int, new: Quota, order: list[str]
) -> None:
    v1.limit(PATH, old)
    v1.cgroup().write("cpu.max", new)
    assert written == [f"abc/{each}" for each in order]
    assert v1.cgroup().read("cpu.max") == new


# Absent


def test_a_knob_that_is_not_there_is_never_made(tree: Tree) -> None:
    for name, first, value, *files in CASES:
        file = files[0 if tree.kind == "v1" else 1]
        if file is None or name in ("cpuset.cpus", "cpuset.mems"):
            continue
        os.unlink(tree.file(PATH, file[0]))
        before = tree.state()
        for call in (partial(tree.cgroup().read, name), partial(tree.cgroup().write, name, value)):
            with pytest.raises(
                CgroupError, match=r"does not exist: .*the kernel lacks it, which needs "
            ) as caught:
                call()
            assert not isinstance(caught.value, KnobValueError | GoneError)
        assert tree.state() == before
        assert first is not value


def test_missing_controller_and_missing_feature_have_different_errors(v2: Tree) -> None:
    os.unlink(v2.file(PATH, "memory.high"))
    for listed, reason in (
        ("cpu pids", r"the cgroup.subtree_control of the parent lacks memory; '\+memory'"),
        ("cpu memory", r"the kernel lacks it, which needs CONFIG_MEMCG$"),
    ):
        v2.put(PATH, "cgroup.controllers", f"{listed}\n")
        with pytest.raises(CgroupError, match=rf"memory.high does not exist: {reason}"):
            v2.cgroup().read("memory.high")


@pytest.mark.parametrize(
    "text",
    ["", "x", "1 2 3 4", "-", "max max", "default", "8:0", "8:0 rbps", "9" * 30, "\x00"],
    ids=ascii,
)
def test_garbage_in_a_file_is_an_error_with_the_file(v2: Tree, text: str) -> None:
    for name in TABLE:
        v2.put(PATH, name, text)
    for name in TABLE:
        try:
            v2.cgroup().read(name)
        except CgroupError as error:
            assert f"{name} holds " in str(error)
            assert len(str(error)) < 600
