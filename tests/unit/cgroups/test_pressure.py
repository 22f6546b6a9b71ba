"""Pressure and statistics of a cgroup, in trees of plain files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.cgroups import CgroupError, KnobValueError, Stall
from nri.cgroups.keyed import parse_flat, parse_io, parse_io_v1
from nri.cgroups.pressure import parse
from tests.unit.cgroups.trees import INNER, PATH, SCOPE, Tree

if TYPE_CHECKING:
    from pathlib import Path


def test_the_pressure_is_in_per_cent_and_microseconds(v2: Tree) -> None:
    pressure = v2.cgroup().pressure("cpu")
    assert pressure.some == Stall(avg10=1.5, avg60=0.2, avg300=0.0, total=1234)
    assert pressure.full == Stall(avg10=0.0, avg60=0.0, avg300=0.0, total=5)
    assert pressure.some != pressure.full
    assert repr(pressure).startswith("Pressure(some=Stall(avg10=1.5, avg60=0.2, avg300=0.0, total=1234), full=Stall(")


def test_what_the_kernel_does_not_count_is_none(v2: Tree) -> None:
    assert v2.cgroup().pressure("irq").some is None
    v2.put(PATH, "cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n")
    assert v2.cgroup().pressure("cpu").full is None


def test_a_kernel_without_psi_is_named_as_the_cause(v2: Tree) -> None:
    with pytest.raises(CgroupError, match=r"memory.pressure does not exist: the kernel has no PSI \(CONFIG_PSI"):
        v2.cgroup().pressure("memory")
    os.unlink(v2.file(PATH, "irq.pressure"))
    with pytest.raises(CgroupError, match=r"irq.pressure does not exist: .*CONFIG_IRQ_TIME_ACCOUNTING"):
        v2.cgroup().pressure("irq")


def test_v1_has_no_pressure(v1: Tree) -> None:
    with pytest.raises(CgroupError, match="the pressure of io cannot be read: only cgroup v2 has it, and none is"):
        v1.cgroup().pressure("io")


def test_a_resource_without_pressure_is_refused(v1: Tree) -> None:
    for resource in ("disk", "", "../cpu", "cpu\0"):
        with pytest.raises(CgroupError, match=r"has no pressure: expected one of cpu, memory, io, irq"):
            v1.cgroup().pressure(resource)


LINE = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0"


def test_a_text_that_is_no_pressure_is_reported_with_the_file(v2: Tree) -> None:
    for text in (
        "",
        "some",
        LINE + " x=1",
        f"{LINE}\n{LINE}",
        LINE.replace("some", "most"),
        LINE.replace("0.00", "0"),
        LINE.replace("0.00", "-1.00"),
        LINE.replace("total=0", "total=0.5"),
        LINE.replace("avg60", "avg10"),
    ):
        v2.put(PATH, "cpu.pressure", text)
        with pytest.raises(CgroupError, match=r"/cpu.pressure holds .*: expected lines such as 'some avg10=0.00"):
            v2.cgroup().pressure("cpu")


PERCENT = st.integers(0, 10000)


@given(PERCENT, PERCENT, PERCENT, st.integers(0, 2**64 - 1))
def test_a_pressure_is_read_as_the_kernel_shows_it(a: int, b: int, c: int, total: int) -> None:
    words = [f"avg{name}={value // 100}.{value % 100:02d}" for name, value in ((10, a), (60, b), (300, c))]
    some = parse(" ".join(["some", *words, f"total={total}"])).some
    assert some is not None
    assert [round(each * 100) for each in (some.avg10, some.avg60, some.avg300)] == [a, b, c]
    assert some.total == total


# Statistics

IO = {"io.stat": {"8:0": {"rbytes": 10, "wbytes": 20, "rios": 1, "wios": 2}}, "pids.events": {"max": 0}}
V2 = IO | {
    "cpu.stat": {"usage_usec": 9, "user_usec": 5, "system_usec": 4},
    "memory.stat": {"anon": 1, "file": 2},
    "memory.events": {"low": 0, "high": 4},
    "hugetlb.2MB.events": {"max": 0},
}
V1 = IO | {
    "cpu.stat": {"nr_periods": 3, "nr_throttled": 1, "throttled_time": 70},
    "cpuacct.stat": {"user": 5, "system": 6},
    "memory.stat": {"cache": 1, "rss": 2},
}


def test_statistics_are_numbers_by_key_with_the_keys_of_the_version(v1: Tree, v2: Tree) -> None:
    assert {name: v2.cgroup().statistics(name) for name in V2} == V2
    assert {name: v1.cgroup().statistics(name) for name in V1} == V1


def test_statistics_of_a_scope_are_not_its_childs(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "v2", SCOPE, INNER)
    tree.put(INNER, "memory.stat", "anon 5\n")
    assert tree.cgroup(SCOPE).statistics("memory.stat") == {"anon": 1, "file": 2}


def test_statistics_of_another_version_are_named(v1: Tree, v2: Tree) -> None:
    with pytest.raises(CgroupError, match=r"has no memory.events: only cgroup v2 has these statistics"):
        v1.cgroup().statistics("memory.events")
    with pytest.raises(CgroupError, match=r"has no cpuacct.stat: only cgroup v1 has these statistics"):
        v2.cgroup().statistics("cpuacct.stat")


def test_other_files_are_no_statistics(v2: Tree) -> None:
    for name in ("", "memory.max", "../memory.stat", "hugetlb.SIZE.events", "hugetlb.x.events"):
        with pytest.raises(KnobValueError, match=r"there are no statistics .*: expected one of cpu.stat, "):
            v2.cgroup().statistics(name)


@pytest.mark.parametrize(("kind", "file"), [("v2", "memory.stat"), ("v2", "io.stat"), ("v1", "io.stat")])
def test_statistics_that_are_not_there_or_garbage_are_errors(tmp_path: Path, kind: str, file: str) -> None:
    tree = Tree(tmp_path / "tree", kind)
    real = "blkio.throttle.io_serviced_recursive" if kind == "v1" else file
    tree.put(PATH, real, "garbage")
    with pytest.raises(CgroupError, match=rf"{real} holds 'garbage': expected lines of"):
        tree.cgroup().statistics(file)
    os.unlink(tree.file(PATH, real))
    with pytest.raises(CgroupError, match=rf"{real} does not exist: the kernel lacks it"):
        tree.cgroup().statistics(file)


@given(st.dictionaries(st.text("abc_", min_size=1), st.integers(0, 2**64 - 1)))
def test_flat_keys_are_read_as_the_kernel_shows_them(numbers: dict[str, int]) -> None:
    assert parse_flat("\n".join(f"{key} {number}" for key, number in numbers.items())) == numbers


@given(st.text())
def test_any_text_is_statistics_or_a_value_error(text: str) -> None:
    for read in (parse_flat, parse_io, parse, lambda each: parse_io_v1(each, "bytes")):
        try:
            read(text)
        except ValueError:
            continue
