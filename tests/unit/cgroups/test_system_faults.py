"""Files of a cgroup that cannot be read or written: errors with the file, the kernel's answer, earlier changes."""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from nri.cgroups import Cgroup, CgroupError, GoneError, Mounts, find, knobs, parse_cpus
from nri.testing.cgroup_files import CgroupFiles
from tests.support.processes import open_fds
from tests.support.system_faults import ERRORS, Failing, name_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType


SCOPE = "/system.slice/crun-abc.scope"
REFUSALS = [errno.ENOSPC, errno.EBUSY, errno.EINVAL, errno.EIO, errno.ENOMEM]


@pytest.fixture(params=["v1", "v2"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> CgroupFiles:
    """A scope with crun's child, both with a quota and CPUs."""
    tree = CgroupFiles(tmp_path, request.param)
    for path in (SCOPE, f"{SCOPE}/container"):
        tree.make(path)
        limit(tree, path, "50000")
        tree.put(path, "cpuset.cpus", "0-1\n")
    return tree


def limit(tree: CgroupFiles, path: str, quota: str) -> None:
    if tree.kind == "v2":
        tree.put(path, "cpu.max", f"{quota} 100000\n")
    else:
        tree.put(path, "cpu.cfs_quota_us", f"{quota}\n")


def scope(tree: CgroupFiles) -> Cgroup:
    return find("system.slice:crun:abc", mounts=Mounts.parse(tree.mountinfo))


def quota_of(tree: CgroupFiles, path: str) -> str:
    return tree.get(path, "cpu.max" if tree.kind == "v2" else "cpu.cfs_quota_us").split()[0]


ACTIONS: dict[str, Callable[[Cgroup], Any]] = {
    "cpu_quota": Cgroup.cpu_quota,
    "clear_cpu_quota": Cgroup.clear_cpu_quota,
    "cpus": Cgroup.cpus,
    "effective_cpus": Cgroup.effective_cpus,
    "parent_cpus": Cgroup.parent_cpus,
    "set_cpus": lambda cgroup: cgroup.set_cpus(parse_cpus("1-2")),
}

CASES = [(action, call) for action in ACTIONS for call in ("open", "read", "stat")]
CASES.remove(("parent_cpus", "stat"))  # it looks at no child


@pytest.mark.parametrize("number", ERRORS, ids=name_of)
@pytest.mark.parametrize(("action", "call"), CASES)
def test_whatever_cannot_be_read_is_named_and_nothing_is_changed(
    tree: CgroupFiles, monkeypatch: pytest.MonkeyPatch, action: str, call: str, number: int
) -> None:
    before, seen, cgroup = open_fds(), Failing(os, call, number), scope(tree)
    with monkeypatch.context() as patch, pytest.raises(CgroupError) as caught:
        patch.setattr(knobs, "os", seen)
        ACTIONS[action](cgroup)
    assert seen.failed == 1
    assert not isinstance(caught.value, GoneError)
    doing = "look up" if call == "stat" else "read"
    why = re.escape(f"{os.strerror(number)} ({errno.errorcode[number]})")
    assert re.fullmatch(rf"cannot {doing} {re.escape(str(tree.root))}/.*cpu.*: {why}", str(caught.value))
    assert open_fds() == before
    assert [quota_of(tree, path) for path in (SCOPE, f"{SCOPE}/container")] == ["50000"] * 2
    assert [tree.get(path, "cpuset.cpus") for path in (SCOPE, f"{SCOPE}/container")] == ["0-1"] * 2
    ACTIONS[action](cgroup)


@pytest.mark.parametrize("number", ERRORS, ids=name_of)
def test_mounts_that_cannot_be_read_are_named(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    for call in ("open", "read"):
        monkeypatch.setattr(knobs, "os", Failing(os, call, number))
        with pytest.raises(CgroupError, match=f"^cannot read /proc/self/mountinfo .*{errno.errorcode[number]}"):
            Mounts.read()
        Mounts.read()


def refuse(monkeypatch: pytest.MonkeyPatch, number: int, nth: int) -> Failing:
    seen = Failing(os, "write", number, nth=nth)
    monkeypatch.setattr(knobs, "os", seen)
    return seen


@pytest.mark.parametrize("number", REFUSALS, ids=name_of)
def test_a_refused_first_write_changes_nothing(
    tree: CgroupFiles, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    seen = refuse(monkeypatch, number, 0)
    with pytest.raises(CgroupError, match=errno.errorcode[number]) as caught:
        scope(tree).clear_cpu_quota()
    assert seen.failed == 1
    assert "before that" not in str(caught.value)
    assert quota_of(tree, f"{SCOPE}/container") == "50000"


@pytest.mark.parametrize("number", REFUSALS, ids=name_of)
def test_a_refused_second_write_names_the_first(
    tree: CgroupFiles, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    seen, cgroup = refuse(monkeypatch, number, 1), scope(tree)
    with pytest.raises(CgroupError) as caught:
        cgroup.clear_cpu_quota()
    assert seen.failed == 1
    directory = cgroup.directory("cpu")
    none = "-1" if tree.kind == "v1" else "max"
    assert str(caught.value).startswith(f"cannot write {none!r} to {directory}/container/")
    assert f"({errno.errorcode[number]})" in str(caught.value)
    assert str(caught.value).endswith(f"; the quota of {directory} was cleared before that, it was 50000/100000")
    assert quota_of(tree, SCOPE) in ("-1", "max")


@pytest.mark.parametrize("number", REFUSALS, ids=name_of)
@pytest.mark.parametrize(
    ("nth", "done", "left"),
    [
        (0, None, ("0-1", "0-1")),
        (1, "{scope} was given 0-2 before that, it had 0-1", ("0-2", "0-1")),
        (2, "{scope}/container was given 1-2 before that, and {scope} has 0-2", ("0-2", "1-2")),
    ],
)
def test_a_refused_step_of_three_names_the_earlier_ones(
    tree: CgroupFiles, monkeypatch: pytest.MonkeyPatch, nth: int, done: str | None, left: tuple[str, str], number: int
) -> None:
    # A made-up tree is emptied when it is opened, unlike the kernel's: what was refused is not held against it.
    cgroup = scope(tree)
    seen = refuse(monkeypatch, number, nth)
    with pytest.raises(CgroupError, match=errno.errorcode[number]) as caught:
        cgroup.set_cpus(parse_cpus("1-2"))
    assert seen.failed == 1
    if done is None:
        assert "before that" not in str(caught.value)
    else:
        assert str(caught.value).endswith("; " + done.format(scope=cgroup.directory("cpuset")))
    refused = (0, 1, 0)[nth]
    held = [tree.get(path, "cpuset.cpus") for path in (SCOPE, f"{SCOPE}/container")]
    assert held[1 - refused] == left[1 - refused]


def test_a_short_write_names_the_earlier_changes(tree: CgroupFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0

    class Short(Failing):
        """Takes all of the first, and less of the second."""

        @staticmethod
        def write(descriptor: int, data: bytes) -> int:
            nonlocal count
            count += 1
            return os.write(descriptor, data if count == 1 else data[:1])

        def __init__(self, module: ModuleType) -> None:
            self._module = module

    cgroup = scope(tree)
    monkeypatch.setattr(knobs, "os", Short(os))
    with pytest.raises(CgroupError, match=r"took only 1 of [23] bytes; the quota of .* was cleared before"):
        cgroup.clear_cpu_quota()
    assert count == 2
