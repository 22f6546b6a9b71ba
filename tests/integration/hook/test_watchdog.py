"""The watchdog of a hook: whatever ends the hook, its plugin ends with it, and nothing else does."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.processes import name
from tests.integration.hook.running import ended, give, hanging, make_hang, start
from tests.support.host import Host, plugin
from tests.support.processes import has_zombie, is_running
from tests.support.waiting import wait_until

PR_SET_CHILD_SUBREAPER = 36
BY_A_RUNTIME, IN_A_SHELL = None, 0
"""Process groups. A shell makes a job the leader of a process group: it cannot have a session of its own then."""


@pytest.fixture
def host(host: Host) -> Host:
    return make_hang(host)


@pytest.mark.parametrize(
    ("group", "number"),
    [(BY_A_RUNTIME, signal.SIGTERM), (BY_A_RUNTIME, signal.SIGKILL), (IN_A_SHELL, signal.SIGKILL)],
)
def test_hook_ended_by_a_signal_leaves_no_plugin(
    host: Host, group: int | None, number: int
) -> None:
    bystanders = [subprocess.Popen(["sleep", "1000"], process_group=other) for other in (None, 0)]
    process = start(host, process_group=group)
    give(process, host.state())
    pids = hanging(host)
    process.send_signal(number)
    assert ended(process) == (-number, "")
    assert wait_until(lambda: not any(map(is_running, pids)))
    assert wait_until(lambda: not host.processes())
    for bystander in bystanders:
        assert bystander.poll() is None
        bystander.kill()
        bystander.wait()


def watchdog_of(process: subprocess.Popen[bytes]) -> int:
    """The hook's watchdog, which takes its name when it has started."""

    def found() -> list[int]:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        return [int(pid) for pid in children if name(int(pid)) == "nri-watchdog"]

    assert wait_until(lambda: len(found()) == 1)
    return found()[0]


def test_watchdog_holds_nothing_that_a_runtime_waits_for(host: Host) -> None:
    process = start(host, cwd=host.root)
    give(process, host.state())
    pids = hanging(host)
    watchdog = watchdog_of(process)
    held = {
        int(fd): os.readlink(f"/proc/{watchdog}/fd/{fd}")
        for fd in os.listdir(f"/proc/{watchdog}/fd")
    }
    assert [held.pop(number) for number in (0, 1, 2)] == ["/dev/null"] * 3
    # It knows by the pipe that the hook is there, and by the file what it runs.
    assert sorted(each.partition(":")[0] for each in held.values()) == ["/memfd", "pipe"]
    assert os.readlink(f"/proc/{watchdog}/cwd") == "/"
    os.kill(watchdog, signal.SIGSTOP)  # it cannot end now, and stderr is closed nevertheless
    process.kill()
    for pid in pids:
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


@pytest.mark.parametrize(
    ("group", "does"), [(BY_A_RUNTIME, ["put", "a", "b"]), (IN_A_SHELL, ["error", "no"])]
)
def test_hook_leaves_no_watchdog_and_no_zombie(
    host: Host, subreaper: None, group: int | None, does: list[str]
) -> None:
    host.install("hanging", do=[does])
    process = start(host, process_group=group)
    give(process, host.state())
    assert ended(process)[0] == (does[0] == "error")
    assert host.processes() == []
    assert not has_zombie()


def test_failed_plugin_leaves_no_child_in_another_group(host: Host) -> None:
    fails = "if pid := os.fork():\n    os.setpgid(pid, pid)\n    os._exit(3)\ntime.sleep(1000)"
    host.script("hanging", f"#!{sys.executable} -IS\nimport os, time\n{fails}\n")
    host.configure(plugin("hanging", failure_policy="ignore"))
    process = start(host)
    give(process, host.state())
    status, stderr = ended(process)
    assert status == 0
    assert "nri: hanging: create of redis failed, ignored " in stderr
    assert wait_until(lambda: not host.processes())
