"""Processes of a test and of this machine: their state, their descriptors, and what is left of them."""

from __future__ import annotations

import os
import resource
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from nri.process import children
from nri.process.wait import stat_fields
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


def command_lines() -> Iterator[tuple[int, bytes]]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    yield int(name), file.read()
            except OSError:
                pass  # gone by now


def has_zombie() -> bool:
    """Whether this process has a child that has ended and was not waited for."""
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


def all_reaped() -> bool:
    """Wait until all that have ended are reaped, also one that the kernel lets go late; return whether they are."""

    def reaped() -> bool:
        children.reap_late()
        return not has_zombie()

    return wait_until(reaped)


def is_zombie(pid: int) -> bool:
    try:
        return stat_fields(pid)[0] == b"Z"
    except OSError:
        return False


def is_running(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}") and not is_zombie(pid)


def open_fds() -> dict[str, str]:
    """This process's descriptors and what they are, without that of the listing."""
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            pass
    return found


@contextmanager
def core_dumps() -> Iterator[None]:
    """Allow core dumps for this process and its children; a caller that forbids them would hide a fault."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    if before[1] == 0:
        pytest.skip("needs a hard limit of core dumps above 0 (ulimit -Hc)")
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
