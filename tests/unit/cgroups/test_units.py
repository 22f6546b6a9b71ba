"""Cgroups that are units of systemd: what systemd is asked and told, and what happens if it cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.cgroups import Cgroup, CgroupError, Mounts, Quota, Systemd, find, systemd_bus
from nri.cgroups.units import looks_like_unit
from nri.testing.cgroup_files import CgroupFiles
from nri.testing.fake_systemd import INFINITY, FakeSystemd

SLICE = "kubepods-burstable-pod0a1b.slice"
POD = f"/kubepods.slice/kubepods-burstable.slice/{SLICE}"
SCOPE = "cri-containerd-abc.scope"
CONTAINER = f"{POD}/{SCOPE}"
PATH = f"{SLICE}:cri-containerd:abc"


@pytest.fixture
def tree(tmp_path: Path) -> CgroupFiles:
    tree = CgroupFiles(tmp_path / "cgroup", "v2", "0-3")
    tree.make(CONTAINER)
    return tree


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[FakeSystemd]:
    with FakeSystemd(tmp_path / "run", CONTAINER, POD) as systemd:
        yield systemd


def look(tree: CgroupFiles, run: Path, path: str = PATH) -> Cgroup:
    return find(path, mounts=Mounts.parse(tree.mountinfo), systemd=Systemd(str(run)))


def test_a_quota_is_cleared_in_the_unit_and_in_the_file(tree: CgroupFiles, systemd: FakeSystemd) -> None:
    systemd.properties[SCOPE]["CPUQuotaPerSecUSec"] = 500_000
    tree.put(CONTAINER, "cpu.max", "50000 100000\n")
    cgroup = look(tree, systemd.run)
    assert cgroup.clear_cpu_quota() == Quota(50_000, 100_000)
    assert systemd.properties[SCOPE]["CPUQuotaPerSecUSec"] == INFINITY
    assert tree.get(CONTAINER, "cpu.max") == "max"
    assert cgroup.untold == ""
    assert systemd.calls == ["GetUnitByControlGroup", "Get", "SetProperties"]


def test_a_quota_that_only_the_unit_has_is_cleared_there(tree: CgroupFiles, systemd: FakeSystemd) -> None:
    systemd.properties[SCOPE]["CPUQuotaPerSecUSec"] = 200_000
    assert look(tree, systemd.run).clear_cpu_quota() == Quota(200_000, 1_000_000)
    assert systemd.properties[SCOPE]["CPUQuotaPerSecUSec"] == INFINITY


def test_a_unit_without_a_quota_is_left_alone(tree: CgroupFiles, systemd: FakeSystemd) -> None:
    assert look(tree, systemd.run).clear_cpu_quota().quota_us is None
    assert "SetProperties" not in systemd.calls


def test_a_pods_slice_is_told_as_well(tree: CgroupFiles, systemd: FakeSystemd) -> None:
    systemd.properties[SLICE]["CPUQuotaPerSecUSec"] = 500_000
    tree.put(POD, "cpu.max", "50000 100000\n")
    pod = look(tree, systemd.run).parent()
    assert pod is not None
    assert pod.clear_cpu_quota() == Quota(50_000, 100_000)
    assert systemd.properties[SLICE]["CPUQuotaPerSecUSec"] == INFINITY
    assert tree.get(POD, "cpu.max") == "max"


@pytest.mark.parametrize(
    ("cpus", "mask"), [({0}, b"\1"), ({1, 2, 3}, b"\x0e"), ({8}, b"\0\1"), ({0, 64}, b"\1" + bytes(7) + b"\1")]
)
def test_cpus_are_a_property_of_the_unit(
    tree: CgroupFiles, systemd: FakeSystemd, cpus: set[int], mask: bytes
) -> None:
    cgroup = look(tree, systemd.run)
    cgroup.set_cpus(frozenset(cpus))
    assert systemd.properties[SCOPE]["AllowedCPUs"] == mask
    assert cgroup.cpus() == cpus


def test_a_unit_that_lacks_the_cpus_of_its_file_is_given_them(tree: CgroupFiles, systemd: FakeSystemd) -> None:
    tree.put(CONTAINER, "cpuset.cpus", "1-3\n")
    cgroup = look(tree, systemd.run)
    cgroup.confine(frozenset({1, 2, 3}))
    assert systemd.properties[SCOPE]["AllowedCPUs"] == b"\x0e"
    systemd.calls.clear()
    cgroup.confine(frozenset({1, 2, 3}))
    assert systemd.calls == ["Get"]


def test_systemd_enables_the_controller_that_is_missing(
    tree: CgroupFiles, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    for knob in ("cpuset.cpus", "cpuset.cpus.effective"):
        Path(tree.file(CONTAINER, knob)).unlink()
    cgroup = look(tree, systemd.run)
    assert cgroup.cpus() == frozenset()
    assert cgroup.effective_cpus() == {0, 1, 2, 3}  # its parent's
    realize = systemd.set_properties

    def late(message: object) -> object:
        tree.put(CONTAINER, "cpuset.cpus", "1\n")
        return realize(message)

    monkeypatch.setattr(systemd, "set_properties", late)
    cgroup.confine(frozenset({1}))
    assert tree.get(CONTAINER, "cpuset.cpus").strip() == "1"


def test_v1_has_quotas_in_systemd_and_no_cpus(tmp_path: Path, systemd: FakeSystemd) -> None:
    tree = CgroupFiles(tmp_path / "v1", "v1", "0-3")
    tree.make(CONTAINER)
    tree.put(CONTAINER, "cpu.cfs_quota_us", "50000\n")
    systemd.properties[SCOPE]["CPUQuotaPerSecUSec"] = 500_000
    cgroup = look(tree, systemd.run)
    cgroup.clear_cpu_quota()
    assert systemd.properties[SCOPE]["CPUQuotaPerSecUSec"] == INFINITY
    systemd.calls.clear()
    cgroup.set_cpus(frozenset({1}))
    assert systemd.calls == []


def test_a_cgroup_of_the_cgroupfs_driver_asks_nobody(tree: CgroupFiles, systemd: FakeSystemd) -> None:
    tree.make("/kubepods/burstable/pod0a1b/abc")
    tree.put("/kubepods/burstable/pod0a1b/abc", "cpu.max", "50000 100000\n")
    cgroup = look(tree, systemd.run, "/kubepods/burstable/pod0a1b/abc")
    cgroup.clear_cpu_quota()
    cgroup.set_cpus(frozenset({1}))
    assert (systemd.calls, cgroup.untold) == ([], "")


def test_a_cgroup_that_only_has_the_name_of_a_unit_is_no_unit(tree: CgroupFiles, systemd: FakeSystemd) -> None:
    other = f"{POD}/other.scope"
    tree.make(other)
    tree.put(other, "cpu.max", "50000 100000\n")
    cgroup = look(tree, systemd.run, other)
    cgroup.clear_cpu_quota()  # systemd answers with the slice above
    assert tree.get(other, "cpu.max") == "max"
    assert (systemd.calls, cgroup.untold) == (["GetUnitByControlGroup"], "")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (CONTAINER, True),
        (POD, True),
        ("/system.slice", True),
        ("/system.slice/run-1.scope", True),
        ("/a.scope", True),
        (f"{CONTAINER}/container", False),
        (f"{CONTAINER}/a.scope", False),
        ("/kubepods/pod1/abc.scope", False),
        ("/system.slice/docker.service", False),
        ("/", False),
        ("", False),
    ],
)
def test_a_unit_is_a_scope_or_a_slice_below_slices(path: str, expected: bool) -> None:
    assert looks_like_unit(path) is expected


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
    tree: CgroupFiles, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch, fault: str, reason: str
) -> None:
    monkeypatch.setattr(systemd_bus, "TIMEOUT", 0.2)
    systemd.fault = fault
    tree.put(CONTAINER, "cpu.max", "50000 100000\n")
    cgroup = look(tree, systemd.run)
    cgroup.clear_cpu_quota()
    cgroup.set_cpus(frozenset({1}))
    assert tree.get(CONTAINER, "cpu.max") == "max"
    assert cgroup.cpus() == {1}
    assert reason in cgroup.untold


def test_a_unit_that_systemd_does_not_know_is_none(tree: CgroupFiles, systemd: FakeSystemd) -> None:
    systemd.fault = "org.freedesktop.systemd1.NoSuchUnit"
    cgroup = look(tree, systemd.run)
    cgroup.clear_cpu_quota()
    assert cgroup.untold == ""


def test_the_system_bus_is_asked_where_there_is_no_private_socket(tree: CgroupFiles, tmp_path: Path) -> None:
    tree.put(CONTAINER, "cpu.max", "50000 100000\n")
    with FakeSystemd(tmp_path / "run", CONTAINER, socket_name="dbus/system_bus_socket") as systemd:
        systemd.properties[SCOPE]["CPUQuotaPerSecUSec"] = 500_000
        cgroup = look(tree, systemd.run)
        cgroup.clear_cpu_quota()
        assert systemd.calls == ["Hello", "GetUnitByControlGroup", "Get", "SetProperties"]
        assert systemd.properties[SCOPE]["CPUQuotaPerSecUSec"] == INFINITY


@pytest.mark.parametrize(
    ("made", "reason"),
    [("", "systemd does not run here: there is no"), ("systemd/system", "systemd cannot be asked at ")],
)
def test_without_systemd_the_files_are_written_and_it_is_said(
    tree: CgroupFiles, tmp_path: Path, made: str, reason: str
) -> None:
    (tmp_path / "run" / made).mkdir(parents=True)
    tree.put(CONTAINER, "cpu.max", "50000 100000\n")
    cgroup = look(tree, tmp_path / "run")
    assert cgroup.clear_cpu_quota() == Quota(50_000, 100_000)
    assert tree.get(CONTAINER, "cpu.max") == "max"
    assert reason in cgroup.untold


def test_a_value_that_does_not_stay_is_an_error(
    tree: CgroupFiles, systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nri.cgroups import quota

    tree.put(CONTAINER, "cpu.max", "50000 100000\n")
    monkeypatch.setattr(quota, "clear", lambda *_: None)
    with pytest.raises(CgroupError, match="has a quota again right after it was cleared: expected none"):
        look(tree, systemd.run).clear_cpu_quota()


@pytest.mark.parametrize(
    ("unit", "path"),
    [
        ("a.scope", "a_2escope"),
        ("-.slice", "_2d_2eslice"),
        ("1a_é.slice", "_31a_5f_c3_a9_2eslice"),
    ],
)
def test_a_units_path_is_escaped_as_systemd_does(unit: str, path: str) -> None:
    assert systemd_bus.object_path(unit) == f"/org/freedesktop/systemd1/unit/{path}"
