"""The watchdog of a hook: whatever ends the hook, its plugin ends with it, and nothing else does."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.processes import name
from tests.integration.hook.running import ended, give, hanging, make_hang, start
from tests.support.processes import has_zombie, is_running
from tests.support.waiting import SOON, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.host import Host

PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture
def host(host: Host) -> Host:
    return make_hang(host)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("how", ["by a runtime", "in a shell"])
def test_a_hook_that_a_signal_ends_leaves_no_plugin(host: Host, number: int, how: str) -> None:
    # A shell makes a job the leader of a process group: it can't have a session of its own then.
    process = start(host, process_group=0 if how == "in a shell" else None)
    give(process, host.state())
    pids = hanging(host)
    process.send_signal(number)
    assert ended(process) == (-number, "")
    assert wait_until(lambda: not any(map(is_running, pids)), SOON)
    assert wait_until(lambda: not host.processes(), SOON)


def watchdog_of(process: subprocess.Popen[bytes]) -> int:
    """The hook's watchdog, which takes its name when it has started."""

    def found() -> list[int]:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        return [int(pid) for pid in children if name(int(pid)) == "nri-watchdog"]

    assert wait_until(lambda: len(found()) == 1)
    return found()[0]


def test_the_watchdog_holds_nothing_that_a_runtime_waits_for(host: Host) -> None:
    process = start(host, cwd=host.root)
    give(process, host.state())
    hanging(host)
    watchdog = watchdog_of(process)
    held = {int(fd): os.readlink(f"/proc/{watchdog}/fd/{fd}") for fd in os.listdir(f"/proc/{watchdog}/fd")}
    assert [held.pop(number) for number in (0, 1, 2)] == ["/dev/null"] * 3
    assert [each.partition(":")[0] for each in held.values()] == ["pipe"]  # by which it knows that the hook is there
    assert os.readlink(f"/proc/{watchdog}/cwd") == "/"
    os.kill(watchdog, signal.SIGSTOP)  # it can't end now, and the end of stderr comes all the same
    process.kill()
    for pid in hanging(host):
        os.kill(pid, signal.SIGKILL)
    assert ended(process) == (-signal.SIGKILL, "")
    os.kill(watchdog, signal.SIGKILL)


@pytest.fixture
def subreaper() -> Iterator[None]:
    """Orphans become children of the test's process."""
    prctl = ctypes.CDLL(None).prctl
    assert prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    assert prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) == 0


@pytest.mark.parametrize("how", ["by a runtime", "in a shell"])
@pytest.mark.parametrize("does", [["put", "a", "b"], ["error", "no"]], ids=["succeeds", "fails"])
def test_a_hook_that_ends_by_itself_leaves_neither_watchdog_nor_zombie(
    host: Host, subreaper: None, how: str, does: list[Any]
) -> None:
    host.install("hanging", do=[does])
    process = start(host, process_group=0 if how == "in a shell" else None)
    give(process, host.state())
    assert ended(process)[0] == (does[0] == "error")
    assert host.processes() == []
    assert not has_zombie()


def test_without_plugins_there_is_no_watchdog(host: Host, subreaper: None) -> None:
    host.configure()
    process = start(host)
    give(process, host.state())
    assert ended(process) == (0, "")
    assert not has_zombie()


def test_the_runtimes_own_processes_are_left_alone(host: Host) -> None:
    bystander = subprocess.Popen(["sleep", "1000"])
    other_group = subprocess.Popen(["sleep", "1000"], process_group=0)
    for how in (None, 0):
        (host.root / "pids").unlink(missing_ok=True)
        process = start(host, process_group=how)
        give(process, host.state())
        pids = hanging(host)
        process.kill()
        ended(process)
        assert wait_until(lambda: not any(map(is_running, pids)), SOON)  # noqa: B023
        assert wait_until(lambda: not host.processes(), SOON)
    for each in (bystander, other_group):
        assert each.poll() is None
        each.kill()
        each.wait()
