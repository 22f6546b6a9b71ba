"""Nothing that a plugin has made outlives it, nor the bridge, whatever ends that."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from harness.processes import descendants, name
from nri.errors import NRIError
from nri.v2 import api
from tests.integration.v1bridge.bridge_process import BridgeProcess, slow, start_container
from tests.integration.v1bridge.site import entry, install
from tests.support.host import Host, plugin
from tests.support.pods import container, pod
from tests.support.processes import command_lines, has_zombie, is_running
from tests.support.runtime import Runtime
from tests.support.status_asking import status_of
from tests.support.waiting import SOON, wait_until

DAEMON = """#!/bin/sh
cat > /dev/null
setsid sh -c 'echo $$ >> {pids}; exec sleep 1000' < /dev/null > /dev/null 2>&1 &
while [ ! -s {pids} ]; do sleep 0.01; done
echo '{{}}'
"""
"""Leaves a process that is in no group, no session and no process of the plugin's."""

HANG = """
if request.id == "hang":
    if os.fork() == 0:
        os.setpgid(0, 0)
    note({pids!r}, str(os.getpid()))
    time.sleep(1000)
"""
"""Hangs with a child in a group of its own."""


def hanging(host: Host, *, resident: bool) -> Path:
    """Configure a plugin that hangs for one container; return the file with the numbers of its processes."""
    pids = host.root / "pids"
    install(host, "warm")
    host.configure(entry("warm", HANG.format(pids=str(pids)), resident=resident))
    return pids


def serve(bridge: BridgeProcess, how: str) -> Runtime:
    """The bridge's runtime: it launched the bridge, or the bridge found it, as a service or from a shell."""
    if how != "launched":
        return bridge.serve(
            **({"process_group": 0} if how == "in a shell" else {"start_new_session": True})
        )
    runtime = bridge.launch()
    runtime.start(config=bridge.settings())
    return runtime


def in_background(runtime: Runtime, id_: str) -> threading.Thread:
    def ask() -> None:
        request = api.StartContainerRequest(pod=pod(), container=container(id=id_))
        try:
            runtime.event(api.Event.START_CONTAINER, request, timeout=SOON)
        except NRIError:
            pass  # there is nobody left to answer

    thread = threading.Thread(target=ask)
    thread.start()
    return thread


def pids_in(file: Path, count: int) -> list[int]:
    assert wait_until(lambda: file.exists() and len(file.read_text().split()) == count)
    return [int(pid) for pid in file.read_text().split()]


def residents(host: Host) -> list[int]:
    mark = os.fsencode(host.root) + b"/"
    return [pid for pid, line in command_lines() if mark in line and b"\0serve\0" in line]


def children(bridge: BridgeProcess) -> list[int]:
    assert bridge.child is not None
    with open(
        f"/proc/{bridge.child.pid}/task/{bridge.child.pid}/children", encoding="ascii"
    ) as file:
        return [int(pid) for pid in file.read().split()]


def watchdog_of(bridge: BridgeProcess) -> int:
    """Return the watchdog once it has its name: then it waits."""

    def named() -> list[int]:
        return [
            pid
            for pid in children(bridge)
            if Path(f"/proc/{pid}/comm").read_text() == "nri-watchdog\n"
        ]

    assert wait_until(named)
    (watchdog,) = named()
    return watchdog


@pytest.mark.parametrize(
    ("how", "resident"), [("launched", True), ("outside", False), ("in a shell", True)]
)
def test_killed_bridge_leaves_no_process_and_no_signal_ends_its_watchdog(
    host: Host, bridge: BridgeProcess, how: str, resident: bool
) -> None:
    pids = hanging(host, resident=resident)
    runtime = serve(bridge, how)
    start_container(runtime)
    if resident:
        assert wait_until(lambda: len(residents(host)) > 0)
        start_container(runtime)
    asking = in_background(runtime, "hang")
    hang = pids_in(pids, 2)
    watchdog = watchdog_of(bridge)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM):
        os.kill(watchdog, number)  # it would end of that before it sees the end of the bridge
    bridge.signal(signal.SIGKILL)
    assert wait_until(lambda: not any(map(is_running, hang)))
    assert wait_until(lambda: not host.processes())
    asking.join(SOON)
    assert not asking.is_alive()  # the runtime has seen that the bridge is gone


def test_process_that_waits_answers_and_ends_with_the_bridge(
    host: Host, bridge: BridgeProcess
) -> None:
    pids = host.root / "pids"
    answer = '{"plugin": "shell", "version": "0.1"}'
    script = f"#!/bin/sh\necho $$ >> {pids}\ncat > /dev/null\necho '{answer}'\n"
    host.script("shell", script)
    host.configure(plugin("shell", waiting=True))
    runtime = serve(bridge, "launched")
    assert wait_until(pids.exists)
    for count in (1, 2):
        pid = int(pids.read_text().split()[-1])
        assert pid in host.processes()
        start_container(runtime)
        assert wait_until(lambda: len(pids.read_text().split()) > count)  # noqa: B023
        assert not is_running(pid)
    (shown,) = status_of(host.root / "v1bridge.sock")["plugins"]
    assert shown["resident"] == {"state": "waiting", "reason": None}
    assert shown["runs"]["create"]["ok"] == 2
    bridge.signal(signal.SIGKILL)
    assert wait_until(lambda: not host.processes())


def _killed(bridge: BridgeProcess) -> int:
    return bridge.log.count("killed a process that a plugin has left behind")


def test_a_daemon_that_a_plugin_leaves_is_ended_and_reported(
    host: Host, bridge: BridgeProcess
) -> None:
    pids = host.root / "pids"
    host.script("leaves", DAEMON.format(pids=pids))
    host.configure(plugin("leaves"))
    runtime = serve(bridge, "launched")
    for number in range(1, 4):
        start_container(runtime)
        (daemon,) = pids_in(pids, 1)
        assert wait_until(lambda: not os.path.exists(f"/proc/{daemon}"))  # noqa: B023 - reaped as well
        assert wait_until(lambda: _killed(bridge) >= number)  # noqa: B023 - it is called here
        pids.unlink()


# The watchdog


def watchdogs(bridge: BridgeProcess) -> list[int]:
    """The watchdogs of a bridge's process, whichever thread has started them."""
    assert bridge.child is not None
    return [pid for pid in descendants(bridge.child.pid) if name(pid) == "nri-watchdog"]


def test_dead_watchdog_is_replaced_when_nothing_happens(host: Host, bridge: BridgeProcess) -> None:
    runtime = serve(bridge, "as a service")
    host.configure(slow(host))
    before = watchdog_of(bridge)
    os.kill(before, signal.SIGKILL)
    assert wait_until(lambda: before not in (found := watchdogs(bridge)) and len(found) == 1)
    assert not has_zombie()
    thread = in_background(runtime, "1f92")
    assert wait_until((host.root / "begun").exists)
    killed_with_its_plugins(host, bridge)
    thread.join(SOON)


def test_new_watchdog_kills_what_ran_before_it(host: Host, bridge: BridgeProcess) -> None:
    runtime = serve(bridge, "as a service")
    host.configure(slow(host))
    thread = in_background(runtime, "1f92")
    assert wait_until((host.root / "begun").exists)
    os.kill(watchdog_of(bridge), signal.SIGKILL)
    assert wait_until(lambda: not watchdogs(bridge))
    assert status_of(host.root / "v1bridge.sock")["watchdog"] is None
    assert wait_until(lambda: len(watchdogs(bridge)) == 1)  # it takes its name a moment later
    killed_with_its_plugins(host, bridge)
    thread.join(SOON)


def killed_with_its_plugins(host: Host, bridge: BridgeProcess) -> None:
    assert host.processes()
    bridge.signal(signal.SIGKILL)
    bridge.wait()
    assert wait_until(lambda: not host.processes())


def test_stopped_watchdog_goes_on_and_one_that_is_kept_stopped_is_reported(
    host: Host, bridge: BridgeProcess
) -> None:
    serve(bridge, "as a service")
    host.configure(slow(host))
    path = host.root / "v1bridge.sock"
    assert status_of(path)["watchdog"] is None
    pid = watchdog_of(bridge)
    os.kill(pid, signal.SIGSTOP)
    assert wait_until(lambda: status_of(path)["watchdog"] is None and state_of(pid) == "S")
    is_over = threading.Event()

    def keep_stopped() -> None:
        while not is_over.is_set():
            os.kill(pid, signal.SIGSTOP)

    thread = threading.Thread(target=keep_stopped)
    thread.start()
    try:
        stopped = f"its watchdog, process {pid}, is stopped"
        assert wait_until(lambda: status_of(path)["watchdog"] == stopped)
    finally:
        is_over.set()
        thread.join()
    assert wait_until(lambda: status_of(path)["watchdog"] is None)


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
