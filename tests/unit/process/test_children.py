"""The registry of children, and the list of those that are plugins."""

import os
import signal

from nri.process import children
from nri.process.children import has_exited
from nri.process.spawn import spawn
from tests.support.waiting import wait_until


def true() -> int:
    return spawn("/bin/true", ["true"], (0, 1, 2))


def test_child_is_registered_until_it_is_reaped() -> None:
    pid = spawn("/bin/sleep", ["sleep", "1000"], (0, 1, 2))
    assert children.reap(pid) is None
    assert pid in children.started
    os.kill(pid, signal.SIGTERM)
    assert wait_until(lambda: has_exited(pid))
    assert children.reap(pid) == -signal.SIGTERM
    assert pid not in children.started


def test_child_that_the_kernel_has_reaped_counts_as_ended() -> None:
    pid = true()
    os.waitpid(pid, 0)
    assert has_exited(pid)
    assert children.reap(pid) == 0
    assert pid not in children.started


def test_plugins_are_listed_until_they_are_reaped() -> None:
    fd = os.memfd_create("list")
    children.list_in(fd, forgets=True)
    try:
        first, second = true(), true()
        other = spawn("/bin/true", ["true"], (0, 1, 2), is_plugin=False)
        assert children.listed(fd) == ({first, second}, set())
        assert children.await_end(first, None) == 0
        assert children.listed(fd)[0] == {second}
        os.waitpid(second, 0)  # as the kernel does where SIGCHLD is ignored
        assert children.await_end(second, None) == children.await_end(other, None) == 0
        assert children.listed(fd)[0] == set()
    finally:
        children.list_in(-1)
        os.close(fd)


def test_full_list_keeps_no_plugin_from_starting() -> None:
    fd = os.open("/dev/full", os.O_WRONLY)
    children.list_in(fd)
    try:
        assert children.await_end(true(), None) == 0
    finally:
        children.list_in(-1)
        os.close(fd)
