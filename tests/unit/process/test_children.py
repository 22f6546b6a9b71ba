"""Children: waited for, killed and reaped, with and without a pidfd; the list of those that are plugins."""

import os
import time
from collections.abc import Iterator

import pytest

from nri.process import children
from nri.process.spawn import spawn
from tests.support.processes import is_running
from tests.support.waiting import SOON, wait_until


def shell(text: str) -> int:
    null = os.open(os.devnull, os.O_RDWR)
    try:
        return spawn("/bin/sh", ["sh", "-c", text], (null, null, null))
    finally:
        os.close(null)


@pytest.fixture(params=["pidfd", "no pidfd"], autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel with or without pidfds."""

    def pidfd_open(_pid: int) -> int:
        raise OSError(38, "Function not implemented")

    if request.param == "no pidfd":
        monkeypatch.setattr(os, "pidfd_open", pidfd_open)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    before = set(children.started)
    yield
    children.reap_late()
    assert children.started == before


def test_late_child_is_killed_with_its_group() -> None:
    pid = shell("sleep 1000 & sleep 1000")
    assert wait_until(lambda: len(group(pid)) == 3)
    started = time.monotonic()
    assert children.end_child(pid, 0.05) == -children.SIGKILL
    assert time.monotonic() - started >= 0.05
    assert wait_until(lambda: group(pid) == [])


def test_rest_of_the_group_of_an_ended_child_is_killed() -> None:
    pid = shell("sleep 1000 & exit 3")
    assert children.end_child(pid, SOON) == 3
    assert wait_until(lambda: group(pid) == [])


def group(leader: int) -> list[int]:
    """The running processes of a group."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.getpgid(int(name)) == leader and is_running(int(name)):
                found.append(int(name))
        except OSError:
            pass
    return found


def test_fields_of_stat_begin_with_the_state_for_any_name() -> None:
    assert children.stat_fields(os.getpid())[:4] == [
        b"R",
        *[b"%d" % number for number in (os.getppid(), os.getpgrp(), os.getsid(0))],
    ]
    with open("/proc/self/comm", "r+", encoding="ascii") as file:
        name = file.read().rstrip()
        file.write("a) Z (b")
    try:
        assert children.stat_fields("self")[1] == b"%d" % os.getppid()
    finally:
        with open("/proc/self/comm", "w", encoding="ascii") as file:
            file.write(name)
    with pytest.raises(FileNotFoundError):
        children.stat_fields(1 << 30)


def true() -> int:
    return spawn("/bin/true", ["true"], (0, 1, 2))


def test_plugins_are_listed_until_they_are_reaped() -> None:
    fd = os.memfd_create("list")
    children.list_in(fd, forgets=True)
    try:
        first, second = true(), true()
        other = spawn("/bin/true", ["true"], (0, 1, 2), is_plugin=False)
        assert children.listed(fd) == ({first, second}, set())
        assert children.await_end(first, (), time.monotonic() + 1) == 0
        assert children.listed(fd)[0] == {second}
        os.waitpid(second, 0)  # as the kernel does where SIGCHLD is ignored
        assert children.await_end(second, (), time.monotonic() + 1) == 0
        assert children.await_end(other, (), time.monotonic() + 1) == 0
        assert children.listed(fd)[0] == set()
    finally:
        children.list_in(-1)
        os.close(fd)


def test_full_list_keeps_no_plugin_from_starting() -> None:
    fd = os.open("/dev/full", os.O_WRONLY)
    children.list_in(fd)
    try:
        assert children.await_end(true(), (), time.monotonic() + 1) == 0
    finally:
        children.list_in(-1)
        os.close(fd)
