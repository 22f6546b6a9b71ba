"""Knobs of cgroups that are units of systemd: the property is told, the file is written, and then read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nri.cgroups import Cgroup, CgroupError, Quota, Systemd, knobs
from nri.testing.fake_systemd import INFINITY, FakeSystemd
from tests.unit.cgroups.knob_trees import INNER, SCOPE, KnobTree, record

UNIT = "crun-abc.scope"

# name, its property, the property's first value, a value to write, what the property then is
V2: list[tuple[str, str, Any, Any, Any]] = [
    ("cpu.weight", "CPUWeight", INFINITY, 50, 50),
    ("cpu.max", "CPUQuotaPerSecUSec", INFINITY, Quota(12345, 100000), 123450),
    ("cpuset.cpus", "AllowedCPUs", b"", frozenset({1, 8}), b"\x02\x01"),
    ("cpuset.mems", "AllowedMemoryNodes", b"", frozenset({0}), b"\x01"),
    ("memory.min", "MemoryMin", 0, 4096, 4096),
    ("memory.low", "MemoryLow", 0, 4096, 4096),
    ("memory.high", "MemoryHigh", INFINITY, 4096, 4096),
    ("memory.max", "MemoryMax", 4096, None, INFINITY),
    ("memory.swap.max", "MemorySwapMax", INFINITY, 0, 0),
    ("pids.max", "TasksMax", 1000, 7, 7),
]
V1: list[tuple[str, str, Any, Any, Any]] = [
    ("cpu.weight", "CPUShares", INFINITY, 100, 1024),
    ("cpu.max", "CPUQuotaPerSecUSec", INFINITY, Quota(5000, 100000), 50000),
    ("memory.max", "MemoryLimit", INFINITY, 4096, 4096),
    ("pids.max", "TasksMax", 1000, None, INFINITY),
]


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[FakeSystemd]:
    with FakeSystemd(tmp_path / "run", SCOPE) as systemd:
        yield systemd


def look(tree: KnobTree, systemd: FakeSystemd) -> Cgroup:
    return tree.cgroup(SCOPE, Systemd(str(systemd.run)))


@pytest.mark.parametrize(
    ("kind", "name", "wanted", "first", "value", "told"),
    [("v2", *case) for case in V2] + [("v1", *case) for case in V1],
    ids=str,
)
def test_a_knob_is_a_property_and_a_file(
    tmp_path: Path, systemd: FakeSystemd, kind: str, name: str, wanted: str, first: Any, value: Any, told: Any
) -> None:
    tree = KnobTree(tmp_path / "tree", kind)
    systemd.properties[UNIT][wanted] = first
    cgroup = look(tree, systemd)
    previous = cgroup.read(name)
    assert systemd.calls == []
    assert cgroup.write(name, value) == previous
    assert systemd.properties[UNIT][wanted] == told
    assert cgroup.read(name) == value
    assert cgroup.untold == ""
    assert systemd.calls == ["GetUnitByControlGroup", "Get", "SetProperties"]
    systemd.calls.clear()
    cgroup.write(name, value)
    assert systemd.calls == ["Get"]


def test_the_default_weight_is_a_property_and_a_devices_is_not(tmp_path: Path, systemd: FakeSystemd) -> None:
    tree = KnobTree(tmp_path / "tree", "v1")
    systemd.properties[UNIT]["BlockIOWeight"] = INFINITY
    look(tree, systemd).write("io.weight", {"default": 10000})
    assert systemd.properties[UNIT]["BlockIOWeight"] == 1000
    tree = KnobTree(tmp_path / "tree2", "v2")
    tree.put(SCOPE, "io.weight", "default 100\n8:0 5\n")
    systemd.calls.clear()
    look(tree, systemd).write("io.weight", {"8:0": 5})
    assert systemd.calls == []


def test_a_period_that_is_not_systemds_own_is_told_too(tmp_path: Path, systemd: FakeSystemd) -> None:
    tree = KnobTree(tmp_path / "tree", "v2")
    systemd.properties[UNIT]["CPUQuotaPeriodUSec"] = INFINITY
    cgroup = look(tree, systemd)
    cgroup.write("cpu.max", Quota(10000, 30000))
    assert systemd.properties[UNIT]["CPUQuotaPerSecUSec"] == 333334
    assert systemd.properties[UNIT]["CPUQuotaPeriodUSec"] == 30000
    cgroup.write("cpu.max", Quota(None, 30000))
    assert systemd.properties[UNIT]["CPUQuotaPerSecUSec"] == INFINITY


@pytest.mark.parametrize("name", ["cpu.idle", "memory.oom.group", "cpu.uclamp.max", "hugetlb.2MB.max"])
def test_a_knob_without_a_property_is_written_only(tmp_path: Path, systemd: FakeSystemd, name: str) -> None:
    tree = KnobTree(tmp_path / "tree", "v2")
    cgroup = look(tree, systemd)
    value = {"cpu.idle": True, "memory.oom.group": True, "cpu.uclamp.max": 50, "hugetlb.2MB.max": 0}[name]
    cgroup.write(name, value)
    assert cgroup.read(name) == value
    assert systemd.calls == []


def test_a_value_that_only_the_file_has_is_told(
    tmp_path: Path, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = KnobTree(tmp_path / "tree", "v2")
    systemd.properties[UNIT]["MemoryHigh"] = INFINITY
    tree.put(SCOPE, "memory.high", "8192\n")
    written = record(monkeypatch)
    look(tree, systemd).write("memory.high", 8192)
    assert systemd.properties[UNIT]["MemoryHigh"] == 8192
    assert written == []


def test_systemd_enables_the_controller_that_is_missing(
    tmp_path: Path, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = KnobTree(tmp_path / "tree", "v2")
    systemd.properties[UNIT]["TasksMax"] = INFINITY
    os.unlink(tree.file(SCOPE, "pids.max"))
    realize = systemd.set_properties

    def enable(message: object) -> object:
        tree.put(SCOPE, "pids.max", "max\n")
        return realize(message)

    monkeypatch.setattr(systemd, "set_properties", enable)
    cgroup = look(tree, systemd)
    assert cgroup.write("pids.max", 9) is None
    assert cgroup.read("pids.max") == 9


def test_a_knob_that_systemd_does_not_enable_is_an_error(
    tmp_path: Path, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knobs, "APPEARS", 0.05)
    tree = KnobTree(tmp_path / "tree", "v2")
    systemd.properties[UNIT]["TasksMax"] = INFINITY
    os.unlink(tree.file(SCOPE, "pids.max"))
    with pytest.raises(CgroupError, match=r"pids.max does not exist: .*lacks pids"):
        look(tree, systemd).write("pids.max", 9)


def test_a_value_that_the_kernel_refuses_names_what_systemd_was_told(
    tmp_path: Path, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = KnobTree(tmp_path / "tree", "v2")
    systemd.properties[UNIT]["MemoryMax"] = INFINITY

    def refuse(path: str, value: str, *_: object) -> None:
        raise CgroupError(f"cannot write {value!r} to {path}")

    monkeypatch.setattr(knobs, "write", refuse)
    with pytest.raises(CgroupError, match=r"cannot write '4096' to .*; systemd was told of MemoryMax before that$"):
        look(tree, systemd).write("memory.max", 4096)


def test_a_value_that_does_not_stay_is_an_error(
    tmp_path: Path, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = KnobTree(tmp_path / "tree", "v2")
    systemd.properties[UNIT]["MemoryHigh"] = INFINITY
    monkeypatch.setattr(knobs, "write", lambda *_: None)
    with pytest.raises(
        CgroupError, match=r"memory.high has None right after it was given 4096: expected that it stays"
    ):
        look(tree, systemd).write("memory.high", 4096)


def test_a_share_of_another_period_that_systemd_wrote_stays(
    tmp_path: Path, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = KnobTree(tmp_path / "tree", "v2")
    systemd.properties[UNIT]["CPUQuotaPeriodUSec"] = INFINITY
    real = knobs.write

    def late(path: str, value: str, *rest: Any) -> None:
        real(path, "33334 100000", *rest)

    monkeypatch.setattr(knobs, "write", late)
    look(tree, systemd).write("cpu.max", Quota(10000, 30000))


@pytest.mark.parametrize("fault", ["closed", "garbage", "org.freedesktop.DBus.Error.UnknownProperty"])
def test_without_systemds_answer_the_file_is_written_and_it_is_said(
    tmp_path: Path, systemd: FakeSystemd, fault: str
) -> None:
    tree = KnobTree(tmp_path / "tree", "v2", child=True)
    systemd.fault = fault
    cgroup = look(tree, systemd)
    assert cgroup.write("memory.high", 4096) is None
    assert cgroup.write("pids.max", 5) is None
    assert tree.get(SCOPE, "memory.high") == "4096"
    assert tree.get(INNER, "memory.high") == "max"
    assert cgroup.untold != ""
