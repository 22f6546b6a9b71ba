"""Processes of a test and of this machine: their state, their descriptors, and their remains."""

from __future__ import annotations

import os
import resource
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from nri.process import children
from nri.process.children import stat_fields
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


MEASURED = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}
"""Environment variables that a test passes to a process for ``make coverage``; empty in other runs."""


def command_lines() -> Iterator[tuple[int, bytes]]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    yield int(name), file.read()
            except OSError:
                pass  # gone by now


def kill_all(argument: str) -> None:
    """Kill the processes that have this text in their command lines."""
    for pid, words in command_lines():
        if argument.encode() in words and pid != os.getpid():
            kill(pid)


def has_zombie() -> bool:
    """Return whether this process has a zombie child."""
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


def all_reaped() -> bool:
    """Wait until all ended children are reaped, also one that the kernel releases late; return whether they are."""

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
    """This process's descriptors and their targets, without the listing's own.

    Without those of gRPC, whose threads outlive the tests that use it, and make an eventfd when they like; this
    project makes none.
    """
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            pass
    return {fd: target for fd, target in found.items() if target != "anon_inode:[eventfd]"}


@contextmanager
def core_dumps() -> Iterator[None]:
    """Allow core dumps for this process and its children; a caller's limit of 0 would hide a fault."""
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
