"""System calls that fail on a cgroup's files: errors have the file, the kernel's answer, and earlier changes."""

import errno
import os
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nri.cgroups import Cgroup, CgroupError, GoneError, Mounts, Quota, knobs, parse_cpus
from tests.support.processes import open_fds
from tests.support.system_faults import Failing, name_of
from tests.unit.cgroups.trees import INNER, PATH, SCOPE, SCOPED, Tree

VALUES: dict[str, Any] = {
    "cpu.weight": 7,
    "cpu.max": Quota(5000, 50000),
    "cpuset.mems": frozenset({1}),
    "memory.max": 1 << 20,
    "io.weight": 9,
    "pids.max": 5,
}
CPU_ACTIONS: dict[str, Callable[[Cgroup], object]] = {
    "cpu_quota": Cgroup.cpu_quota,
    "clear_cpu_quota": Cgroup.clear_cpu_quota,
    "cpus": Cgroup.cpus,
    "effective_cpus": Cgroup.effective_cpus,
    "parent_cpus": Cgroup.parent_cpus,
    "set_cpus": lambda cgroup: cgroup.set_cpus(parse_cpus("1-2")),
}
ACTIONS: dict[str, Callable[[Cgroup], object]] = {
    **CPU_ACTIONS,
    **{f"read {name}": partial(Cgroup.read, name=name) for name in VALUES},
    **{
        f"write {name}": partial(Cgroup.write, name=name, value=value)
        for name, value in VALUES.items()
    },
}


def with_values(tree: Tree) -> Tree:
    """Give a scope and crun's child a quota, CPUs and limits of their own."""
    for path in (SCOPE, INNER):
        tree.limit(path, 50000)
        tree.put(path, "cpuset.cpus", "0-1\n")
        tree.put(path, "pids.max", "50\n")
        if tree.kind == "v1":
            tree.put(path, "memory.limit_in_bytes", "4096\n")
            tree.put(path, "memory.memsw.limit_in_bytes", "8192\n")
    return tree


@pytest.mark.parametrize(
    ("call", "number"),
    [("open", errno.EMFILE), ("read", errno.EIO), ("stat", errno.ENOMEM)],
    ids=name_of,
)
def test_a_failed_read_is_named_and_changes_nothing(
    scoped: Tree, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    cgroup, before, state = with_values(scoped).cgroup(SCOPED), open_fds(), scoped.state()
    doing = "look up" if call == "stat" else "read"
    for name, action in ACTIONS.items():
        if (name, call) == ("parent_cpus", "stat"):  # it looks at no child
            continue
        failing = Failing(os, call, number)
        with monkeypatch.context() as patch, pytest.raises(CgroupError) as caught:
            patch.setattr(knobs, "os", failing)
            action(cgroup)
        assert failing.failed == 1, name
        assert not isinstance(caught.value, GoneError)
        reason = re.escape(f"{os.strerror(number)} ({errno.errorcode[number]})")
        assert re.fullmatch(
            rf"cannot {doing} {re.escape(scoped.root)}/.*: {reason}", str(caught.value)
        ), name
        assert open_fds() == before
        assert scoped.state() == state
    for name, action in ACTIONS.items():
        if not name.startswith(("clear", "set", "write")):
            action(cgroup)


@pytest.mark.parametrize("call", ["open", "read"])
def test_unreadable_mounts_are_named(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    monkeypatch.setattr(knobs, "os", Failing(os, call, errno.EIO))
    with pytest.raises(CgroupError, match=r"^cannot read /proc/self/mountinfo .*\(EIO\)"):
        Mounts.read()
    Mounts.read()


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("kind", ["v1", "v2"])
def test_refused_write_names_the_file_and_earlier_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, name: str
) -> None:
    for nth in range(8):
        tree = Tree(tmp_path / f"{nth}", kind, SCOPE, INNER)
        failing, before = Failing(os, "write", errno.EIO, nth=nth), open_fds()
        text = ""
        with monkeypatch.context() as patch:
            patch.setattr(knobs, "os", failing)
            try:
                tree.cgroup(SCOPE).write(name, VALUES[name])
            except CgroupError as error:
                text = str(error)
        assert open_fds() == before
        if not failing.failed:  # there are no more writes
            assert nth > 0
            return
        assert re.match(rf"cannot write '.*' to {re.escape(tree.root)}/.*: ", text)
        assert "(EIO)" in text
        assert ("before that" in text) == (nth > 0)
    raise AssertionError("it never stops writing")


@pytest.mark.parametrize(
    ("nth", "done", "left"),
    [
        (0, None, {INNER: "0-1"}),
        (1, "{scope} was given 0-2 before that, it had 0-1", {SCOPE: "0-2"}),
        (2, "{scope}/container was given 1-2 before that, and {scope} has 0-2", {INNER: "1-2"}),
    ],
)
def test_a_refused_step_of_three_names_the_earlier_ones(
    scoped: Tree, monkeypatch: pytest.MonkeyPatch, nth: int, done: str | None, left: dict[str, str]
) -> None:
    cgroup, failing = (
        with_values(scoped).cgroup(SCOPED),
        Failing(os, "write", errno.ENOSPC, nth=nth),
    )
    monkeypatch.setattr(knobs, "os", failing)
    with pytest.raises(
        CgroupError, match=r"\(ENOSPC\): processes in the cgroup would be left without"
    ) as caught:
        cgroup.set_cpus(parse_cpus("1-2"))
    assert failing.failed == 1
    if done is None:
        assert "before that" not in str(caught.value)
    else:
        assert str(caught.value).endswith("; " + done.format(scope=cgroup.directory("cpuset")))
    # A made-up tree empties the file whose write is refused, unlike the kernel: the other one is compared.
    assert {path: scoped.get(path, "cpuset.cpus") for path in left} == left


def test_short_write_is_an_error_that_names_earlier_writes(
    scoped: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first write is taken whole, and one byte of the second."""
    cgroup, short = with_values(scoped).cgroup(SCOPED), Failing(os, "write", 0)
    taken: list[int] = []

    def write(descriptor: int, data: bytes) -> int:
        taken.append(os.write(descriptor, data[:1] if taken else data))
        return taken[-1]

    setattr(short, "write", write)  # noqa: B010
    monkeypatch.setattr(knobs, "os", short)
    with pytest.raises(
        CgroupError,
        match=r"took only 1 of \d+ bytes; cpu.max of .* was written before that, it was 50000/100000",
    ):
        cgroup.clear_cpu_quota()
    assert taken[1:] == [1]


def test_a_removed_cgroup_is_gone_for_every_method(tree: Tree) -> None:
    cgroup = tree.cgroup()
    for controller in ("cpu", "cpuset", "pids"):
        cgroup.directory(controller)
    for point in tree.points.values():
        shutil.rmtree(f"{point}{PATH}")
    actions = {name: action for name, action in CPU_ACTIONS.items() if name != "parent_cpus"}
    for name in ("read pids.max", "write pids.max"):
        actions[name] = ACTIONS[name]
    for action in actions.values():
        with pytest.raises(GoneError, match="does not exist any more"):
            action(cgroup)


@pytest.mark.parametrize("call", ["read", "write"])
def test_cgroup_removed_while_its_file_is_open_is_gone(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    cgroup = tree.cgroup()
    directory = cgroup.directory("pids")

    def remove_and_fail(*_: object) -> bytes:
        shutil.rmtree(directory)
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))

    failing = Failing(os, call, errno.ENODEV)
    setattr(failing, call, remove_and_fail)
    monkeypatch.setattr(knobs, "os", failing)
    with pytest.raises(GoneError, match=r"does not exist any more: .*\(ENODEV\)"):
        cgroup.write("pids.max", 5)


def test_a_file_that_is_too_long_is_not_read_to_its_end(tree: Tree) -> None:
    tree.put(PATH, "cpuset.cpus", "0," * 40000)
    with pytest.raises(CgroupError, match=r"cannot read .*/cpuset.cpus: more than 65536 bytes"):
        tree.cgroup().cpus()
