"""Cgroups that are units of systemd: what systemd is asked and told, and what happens if it cannot be."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.fake_systemd import INFINITY, FakeSystemd
from nri.cgroups import Cgroup, CgroupError, Quota, Systemd, knobs, systemd_bus
from nri.cgroups.knob_table import TABLE
from nri.cgroups.units import looks_like_unit
from tests.unit.cgroups.trees import Tree

SLICE = "kubepods-burstable-pod0a1b.slice"
POD = f"/kubepods.slice/kubepods-burstable.slice/{SLICE}"
SCOPE = "cri-containerd-abc.scope"
CONTAINER = f"{POD}/{SCOPE}"
PATH = f"{SLICE}:cri-containerd:abc"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "v2", "v2", CONTAINER)


@pytest.fixture
def tree_v1(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "v1", "v1", CONTAINER)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake that answers late on a busy machine is no fault."""
    monkeypatch.setattr(systemd_bus, "TIMEOUT", 60)
    monkeypatch.setattr(knobs, "APPEARS", 60)


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[FakeSystemd]:
    """A systemd whose units have no limits."""
    with FakeSystemd(tmp_path / "run", CONTAINER, POD) as systemd:
        for name in ("CPUQuotaPeriodUSec", "MemoryHigh", "MemoryMax", "TasksMax"):
            systemd.properties[SCOPE][name] = INFINITY
        yield systemd


def look(tree: Tree, run: Path, path: str = PATH) -> Cgroup:
    return tree.cgroup(path, systemd=Systemd(str(run)))


@pytest.fixture
def cgroup(tree: Tree, systemd: FakeSystemd) -> Cgroup:
    return look(tree, systemd.run)


def test_a_quota_is_cleared_in_the_unit_and_in_the_file(
    tree: Tree, systemd: FakeSystemd, cgroup: Cgroup
) -> None:
    unit = systemd.properties[SCOPE]
    unit["CPUQuotaPerSecUSec"] = 500_000
    tree.limit(CONTAINER, 50000)
    assert cgroup.clear_cpu_quota() == Quota(50_000, 100_000)
    assert (unit["CPUQuotaPerSecUSec"], tree.get(CONTAINER, "cpu.max"), cgroup.untold) == (
        INFINITY,
        "max 100000",
        "",
    )
    assert systemd.calls == ["GetUnitByControlGroup", "Get", "SetProperties"]
    unit["CPUQuotaPerSecUSec"] = 200_000  # of the unit only
    tree.put(CONTAINER, "cpu.max", "max 100000\n")
    assert cgroup.clear_cpu_quota() == Quota(None, 100_000)  # its file's
    assert unit["CPUQuotaPerSecUSec"] == INFINITY
    systemd.calls.clear()
    assert cgroup.clear_cpu_quota().quota_us is None
    assert systemd.calls == ["Get"]


def test_unit_that_lacks_the_value_of_its_file_is_given_it(
    tree: Tree, systemd: FakeSystemd, cgroup: Cgroup, written: list[str]
) -> None:
    tree.put(CONTAINER, "cpuset.cpus", "1-3\n")
    cgroup.confine(frozenset({1, 2, 3}))
    assert systemd.properties[SCOPE]["AllowedCPUs"] == b"\x0e"
    systemd.calls.clear()
    cgroup.confine(frozenset({1, 2, 3}))
    assert systemd.calls == ["Get"]
    tree.put(CONTAINER, "memory.high", "8192\n")
    written.clear()
    cgroup.write("memory.high", 8192)
    assert systemd.properties[SCOPE]["MemoryHigh"] == 8192
    assert written == []
    systemd.calls.clear()
    for name, value in {"cpu.idle": True, "cpu.max.burst": 50}.items():  # without a property
        cgroup.write(name, value)
        assert cgroup.read(name) == value
    assert systemd.calls == []


def test_systemd_enables_a_controller_that_is_missing(
    tree: Tree, systemd: FakeSystemd, cgroup: Cgroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    for knob in ("cpuset.cpus", "cpuset.cpus.effective", "pids.max"):
        Path(tree.file(CONTAINER, knob)).unlink()
    with (
        monkeypatch.context() as patch,
        pytest.raises(CgroupError, match=r"pids.max does not exist: .*lacks pids"),
    ):
        patch.setattr(knobs, "APPEARS", 0.05)
        cgroup.write("pids.max", 9)
    realize = systemd.set_properties

    def enable(message: object) -> object:
        tree.put(CONTAINER, "cpuset.cpus", "1\n")
        tree.put(CONTAINER, "pids.max", "max\n")
        tree.put(CONTAINER, "cpu.max", "max 100000\n")
        return realize(message)

    monkeypatch.setattr(systemd, "set_properties", enable)
    assert cgroup.cpus() == frozenset()
    assert cgroup.effective_cpus() == {0, 1, 2, 3}  # its parent's
    cgroup.confine(frozenset({1}))
    assert tree.get(CONTAINER, "cpuset.cpus").strip() == "1"
    Path(tree.file(CONTAINER, "pids.max")).unlink()
    assert cgroup.write("pids.max", 8) is None
    assert cgroup.read("pids.max") == 8
    Path(tree.file(CONTAINER, "cpu.max")).unlink()
    systemd.properties[SCOPE]["CPUQuotaPerSecUSec"] = 200_000
    assert cgroup.clear_cpu_quota() == Quota(None, 100_000)


def test_v1_has_quotas_in_systemd_and_no_cpus(tree_v1: Tree, systemd: FakeSystemd) -> None:
    cgroup = look(tree_v1, systemd.run)
    cgroup.set_cpus(frozenset({1}))
    assert systemd.calls == []
    tree_v1.limit(CONTAINER, 50000)
    systemd.properties[SCOPE]["CPUQuotaPerSecUSec"] = 500_000
    cgroup.clear_cpu_quota()
    assert systemd.properties[SCOPE]["CPUQuotaPerSecUSec"] == INFINITY


@pytest.mark.parametrize(
    ("path", "calls"),
    [
        ("/kubepods/burstable/pod0a1b/abc", []),
        (f"{POD}/other.scope", ["GetUnitByControlGroup"]),
    ],  # the slice's
)
def test_a_cgroup_that_is_no_unit_is_only_written(
    tree: Tree, systemd: FakeSystemd, path: str, calls: list[str]
) -> None:
    tree.make(path, cpu__max="50000 100000\n")
    cgroup = look(tree, systemd.run, path)
    cgroup.clear_cpu_quota()
    cgroup.set_cpus(frozenset({1}))
    assert (tree.get(path, "cpu.max"), systemd.calls, cgroup.untold) == ("max 100000", calls, "")


def test_a_unit_is_a_scope_or_a_slice_below_slices() -> None:
    for path in (CONTAINER, POD, "/system.slice", "/system.slice/run-1.scope", "/a.scope"):
        assert looks_like_unit(path), path
    for path in (
        f"{CONTAINER}/container",
        f"{CONTAINER}/a.scope",
        "/kubepods/pod1/abc.scope",
        "/",
        "",
    ):
        assert not looks_like_unit(path), path
    assert not looks_like_unit("/system.slice/docker.service")
    escaped = {
        "a.scope": "a_2escope",
        "-.slice": "_2d_2eslice",
        "1a_é.slice": "_31a_5f_c3_a9_2eslice",
    }
    assert {unit: systemd_bus.object_path(unit).rpartition("/")[2] for unit in escaped} == escaped


FAULTS = {
    "silent": "no answer after",
    "closed": "the connection was closed",
    "garbage": "systemd did not answer GetUnitByControlGroup",
    "endless": "expected at most 65536",
    "org.freedesktop.DBus.Error.AccessDenied": "systemd refused GetUnitByControlGroup: "
    "org.freedesktop.DBus.Error.AccessDenied: 'not today'",
}


@pytest.mark.parametrize(("fault", "reason"), FAULTS.items())
def test_a_systemd_that_does_not_answer_leaves_the_files(
    tree: Tree,
    systemd: FakeSystemd,
    cgroup: Cgroup,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    reason: str,
) -> None:
    if fault == "silent":
        monkeypatch.setattr(systemd_bus, "TIMEOUT", 0.2)
    systemd.fault = fault
    tree.limit(CONTAINER, 50000)
    cgroup.clear_cpu_quota()
    cgroup.set_cpus(frozenset({1}))
    assert tree.get(CONTAINER, "cpu.max") == "max 100000"
    assert cgroup.cpus() == {1}
    assert reason in cgroup.untold


def test_unit_that_systemd_does_not_know_is_no_fault(systemd: FakeSystemd, cgroup: Cgroup) -> None:
    systemd.fault = "org.freedesktop.systemd1.NoSuchUnit"
    cgroup.clear_cpu_quota()
    assert cgroup.untold == ""


def test_system_bus_is_asked_if_there_is_no_private_socket(tree: Tree, tmp_path: Path) -> None:
    tree.limit(CONTAINER, 50000)
    with FakeSystemd(tmp_path / "run", CONTAINER, socket_name="dbus/system_bus_socket") as systemd:
        systemd.properties[SCOPE]["CPUQuotaPerSecUSec"] = 500_000
        look(tree, systemd.run).clear_cpu_quota()
        assert systemd.calls == ["Hello", "GetUnitByControlGroup", "Get", "SetProperties"]
        assert systemd.properties[SCOPE]["CPUQuotaPerSecUSec"] == INFINITY


def test_without_systemd_files_are_written_and_the_metadata_has_the_reason(
    tree: Tree, tmp_path: Path
) -> None:
    for made, reason in (
        ("", "systemd does not run here: there is no"),
        ("systemd/system", "systemd cannot be asked"),
    ):
        (tmp_path / "run" / made).mkdir(parents=True, exist_ok=True)
        tree.limit(CONTAINER, 50000)
        cgroup = look(tree, tmp_path / "run")
        assert cgroup.clear_cpu_quota() == Quota(50_000, 100_000)
        assert tree.get(CONTAINER, "cpu.max") == "max 100000"
        assert reason in cgroup.untold


def test_a_value_that_does_not_stay_is_an_error(
    tree: Tree, systemd: FakeSystemd, cgroup: Cgroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.limit(CONTAINER, 50000)
    tree.put(CONTAINER, "cpuset.cpus", "0-3\n")
    monkeypatch.setattr(knobs, "write", lambda *_: None)
    with pytest.raises(
        CgroupError, match=r"cpu.max has 50000/100000 right after it was given max/100000"
    ):
        cgroup.clear_cpu_quota()
    with pytest.raises(
        CgroupError, match=r"cpuset.cpus has 0-3 right after it was given 1: expected"
    ):
        cgroup.set_cpus(frozenset({1}))
    with pytest.raises(
        CgroupError, match=r"high has None right after it was given 4096: expected that it stays"
    ):
        cgroup.write("memory.high", 4096)


# Knobs by their names: the property is told, the file is written, and then read

# name, its property, the property's first value, a value to write, what the property then is
V2: list[tuple[str, str, Any, Any, Any]] = [
    ("cpu.weight", "CPUWeight", INFINITY, 50, 50),
    ("cpu.max", "CPUQuotaPerSecUSec", INFINITY, Quota(12345, 100000), 123450),
    ("cpuset.cpus", "AllowedCPUs", b"", frozenset({1, 8, 64}), b"\x02\x01" + bytes(6) + b"\x01"),
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
    ("io.weight", "BlockIOWeight", INFINITY, 10000, 1000),
    ("pids.max", "TasksMax", 1000, None, INFINITY),
]


@pytest.mark.parametrize(
    ("kind", "name", "wanted", "first", "value", "told"),
    [("v2", *case) for case in V2] + [("v1", *case) for case in V1],
    ids=str,
)
def test_a_knob_is_a_property_and_a_file(
    tmp_path: Path,
    systemd: FakeSystemd,
    kind: str,
    name: str,
    wanted: str,
    first: Any,
    value: Any,
    told: Any,
) -> None:
    tree = Tree(tmp_path / "tree", kind, CONTAINER)
    systemd.properties[SCOPE][wanted] = first
    cgroup = look(tree, systemd.run)
    previous = cgroup.read(name)
    assert systemd.calls == []
    assert cgroup.write(name, value) == previous
    assert systemd.properties[SCOPE][wanted] == told
    assert cgroup.read(name) == value
    assert cgroup.untold == ""
    assert systemd.calls == ["GetUnitByControlGroup", "Get", "SetProperties"]
    systemd.calls.clear()
    cgroup.write(name, value)
    assert systemd.calls == ["Get"]


def test_other_period_is_a_property_too(
    systemd: FakeSystemd, cgroup: Cgroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgroup.write("cpu.max", Quota(10000, 30000))
    assert systemd.properties[SCOPE]["CPUQuotaPerSecUSec"] == 333334
    assert systemd.properties[SCOPE]["CPUQuotaPeriodUSec"] == 30000
    unit = Systemd(str(systemd.run)).tell(CONTAINER, lambda unit: unit)
    assert unit is not None
    file = TABLE["cpu.max"].files[2]
    assert [file.tell(unit, Quota(quota, 30000)) for quota in (10000, 20000, 20000)] == [
        False,
        True,
        False,
    ]
    cgroup.write("cpu.max", Quota(10000, 30000))
    cgroup.write("cpu.max", Quota(None, 30000))
    assert systemd.properties[SCOPE]["CPUQuotaPerSecUSec"] == INFINITY
    real = knobs.write
    monkeypatch.setattr(
        knobs, "write", lambda path, value, *rest: real(path, "33334 100000", *rest)
    )
    # The same share of another period, as systemd writes it.
    cgroup.write("cpu.max", Quota(10000, 30000))


def test_refused_value_names_the_property_of_systemd(
    systemd: FakeSystemd, cgroup: Cgroup, monkeypatch: pytest.MonkeyPatch
) -> None:

    def refuse(path: str, value: str, *_: object) -> None:
        raise CgroupError(f"cannot write {value!r} to {path}")

    monkeypatch.setattr(knobs, "write", refuse)
    with pytest.raises(
        CgroupError, match=r"cannot write '4096' to .*; systemd was told of MemoryMax before that$"
    ):
        cgroup.write("memory.max", 4096)


def test_knob_is_written_if_systemd_refuses_it(
    tree: Tree, systemd: FakeSystemd, cgroup: Cgroup
) -> None:
    systemd.fault = "org.freedesktop.DBus.Error.UnknownProperty"
    assert (cgroup.write("memory.high", 4096), cgroup.write("pids.max", 5)) == (None, None)
    assert (tree.get(CONTAINER, "memory.high"), cgroup.untold != "") == ("4096", True)
