"""What starts while no bridge is connected gets its create late, once; what was served is not served again."""

from __future__ import annotations

import signal
import threading
from typing import Any

import pytest

from nri.config.entries import PluginEntry
from nri.errors import NRIError
from nri.status import status
from nri.v2 import api
from nri.v2.ttrpc import StatusError
from tests.integration.v1bridge.bridge_process import COMMAND, BridgeProcess, slow, start_container
from tests.support.host import Host, plugin
from tests.support.node import Node
from tests.support.pods import container, pod
from tests.support.runtime import Runtime
from tests.support.waiting import SOON, wait_until

RUNNING = api.ContainerState.CONTAINER_RUNNING


@pytest.fixture
def bridge(host: Host, bridge: BridgeProcess) -> BridgeProcess:
    """Not started yet; its runtime listens."""
    bridge.listen()
    return bridge


def running(**changes: Any) -> api.Container:
    return container(state=RUNNING, **changes)


def connected(bridge: BridgeProcess, *pods: api.PodSandbox, containers: Any = ()) -> Runtime:
    """The bridge's next connection; the runtime has these pods and containers."""
    runtime = bridge.accept()
    runtime.configure()
    runtime.synchronize(pods, containers)
    return runtime


def kill(bridge: BridgeProcess) -> None:
    bridge.signal(signal.SIGKILL)
    assert bridge.wait() == -signal.SIGKILL
    bridge.child = None


def lost(runtime: Runtime) -> None:
    """A container starts, and there is no answer."""
    with pytest.raises(NRIError):
        start_container(runtime)


def stop_container(runtime: Runtime, seconds: float = SOON) -> None:
    request = api.StopContainerRequest(pod=pod(), container=container())
    runtime.event(api.Event.STOP_CONTAINER, request, timeout=seconds)


def stop_pod(runtime: Runtime) -> None:
    runtime.event(api.Event.STOP_POD_SANDBOX, api.StopPodSandboxRequest(pod=api.PodSandbox(id="6efd")))


def hanging(bridge: BridgeProcess) -> PluginEntry:
    """A keeper that then waits for the file ``go``."""
    root = bridge.host.root
    wait = f"#!/bin/sh\n: > {root}/begun\nwhile [ ! -e {root}/go ]; do sleep 0.01; done\necho '{{}}'\n"
    bridge.host.script("wait", wait)
    return plugin("wait")


def test_what_started_meanwhile_is_served_late_and_once(host: Host, bridge: BridgeProcess) -> None:
    host.configure(bridge.node.keeper())
    bridge.outside()
    created = container(id="c0", state=api.ContainerState.CONTAINER_CREATED)
    there = {"containers": [running(), created]}
    runtime = connected(bridge, pod(), pod(id="stopped", pid=0), **there)
    assert wait_until(lambda: bridge.node.steps == [("create", "6efd"), ("create", "1f92")])
    assert [request["late"] for request in bridge.node.kept] == [True, True]
    assert wait_until(lambda: "late: create succeeded for 2, failed for 0, in " in bridge.log)
    began = "late: 1 sandbox and 1 container have had no create; running create for them"
    assert f"warning {began}\n" in bridge.log
    line = "info late: it has had no create state=create container=default/web/app id=1f92 late=true"
    assert f"{line}\n" in bridge.log
    answered = "info answered state=create container=default/web/app id=1f92 late=true ms="
    assert wait_until(lambda: f"{answered}" in bridge.log)

    runtime.close()
    runtime = connected(bridge, pod(), **there)  # the runtime has restarted
    stop_container(runtime)
    stop_pod(runtime)
    assert bridge.node.steps[2:] == [("delete", "1f92"), ("delete", "6efd")]
    assert "late" not in bridge.node.kept[-1]
    assert bridge.log.count("have had no create; running create") == 1


def test_what_was_served_is_not_served_again_after_the_bridge_was_killed(host: Host, bridge: BridgeProcess) -> None:
    host.configure(bridge.node.keeper())
    bridge.outside()
    runtime = connected(bridge)
    runtime.event(api.Event.RUN_POD_SANDBOX, api.RunPodSandboxRequest(pod=pod()))
    start_container(runtime)
    kill(bridge)
    bridge.outside()
    runtime = connected(bridge, pod(), pod(id="new", name="new"), containers=[running()])
    assert wait_until(lambda: "late: create succeeded for 1," in bridge.log)
    assert bridge.node.steps == [("create", "6efd"), ("create", "1f92"), ("create", "new")]


def test_one_whose_create_a_kill_has_cut_off_is_served_late(host: Host, bridge: BridgeProcess) -> None:
    host.configure(slow(host))
    bridge.outside()
    runtime = connected(bridge)
    thread = threading.Thread(target=lost, args=(runtime,))
    thread.start()
    assert wait_until((host.root / "begun").exists)
    kill(bridge)
    thread.join()
    host.configure(bridge.node.keeper())
    bridge.outside()
    connected(bridge, containers=[running()])
    assert wait_until(lambda: bridge.node.steps == [("create", "1f92")])
    assert bridge.node.kept[0]["late"] is True


def test_one_that_was_refused_is_not_on_record(host: Host, bridge: BridgeProcess) -> None:
    host.configure(plugin("missing"))
    bridge.outside()
    runtime = connected(bridge)
    with pytest.raises(StatusError):
        start_container(runtime)
    host.configure(bridge.node.keeper())
    runtime.close()
    connected(bridge, containers=[running()])
    assert wait_until(lambda: bridge.node.steps == [("create", "1f92")])


def test_a_late_create_that_fails_is_tried_again_and_then_listed(host: Host, bridge: BridgeProcess) -> None:
    host.configure(bridge.node.keeper("keeper", ["error", "no such device"]))
    bridge.outside()
    runtime = connected(bridge, pod(), containers=[running()])
    assert wait_until(lambda: "warning late: create succeeded for 0, failed for 2, in " in bridge.log)
    assert (
        "error late create failed: it runs without its plugins state=create container=default/web/app id=1f92 "
        'late=true error="nri v0.1: plugin keeper: no such device"\n'
    ) in bridge.log
    assert sorted(step[1] for step in bridge.node.steps) == ["1f92"] * 3 + ["6efd"] * 3

    def listed() -> list[tuple[str, str]]:
        found = status(str(host.root / "v1bridge.sock"))["withoutPlugins"]
        return sorted((each["id"], each["why"]) for each in found)

    why = "the late create has failed: no such device"
    assert listed() == [("1f92", why), ("6efd", why)]
    with pytest.raises(StatusError, match="no such device"):
        stop_pod(runtime)
    assert listed() == [("1f92", why)]
    runtime.close()
    host.configure(bridge.node.keeper())
    connected(bridge, pod(), containers=[running()])
    assert wait_until(lambda: listed() == [])


def listed(bridge: BridgeProcess) -> list[tuple[str, str, str, str]]:
    found = status(str(bridge.host.root / "v1bridge.sock"))["withoutPlugins"]
    return [(each["id"], each["state"], each["plugin"], each["why"]) for each in found]


def test_an_ignored_failure_is_listed_also_by_the_next_bridge(host: Host, bridge: BridgeProcess) -> None:
    host.configure(bridge.node.keeper("keeper", ["error", "no such device"]).replace(failure_policy="ignore"))
    bridge.outside()
    start_container(connected(bridge))
    expected = [("1f92", "create", "keeper", "its failure is ignored: no such device")]
    assert listed(bridge) == expected
    kill(bridge)
    bridge.outside()
    runtime = connected(bridge, containers=[running()])
    assert listed(bridge) == expected
    stop_container(runtime)
    assert listed(bridge) == []


@pytest.mark.parametrize("had_setup", [False, True])
def test_a_missed_setup_is_listed_though_the_late_create_succeeds(
    host: Host, bridge: BridgeProcess, had_setup: bool
) -> None:
    host.configure(bridge.node.keeper().replace(states=("setup", "create", "delete")))
    bridge.outside()
    runtime = connected(bridge)
    if had_setup:
        request = api.CreateContainerRequest(pod=pod(), container=container())
        runtime.event(api.Event.CREATE_CONTAINER, request)
    kill(bridge)
    bridge.outside()
    connected(bridge, pod(), containers=[running()])
    assert wait_until(lambda: "late: create succeeded for 2," in bridge.log)
    why = "its setup was missed: the container was created without it"
    assert listed(bridge) == ([] if had_setup else [("1f92", "setup", "keeper", why)])


def test_a_delete_waits_for_a_running_late_create_and_is_refused_in_time_and_runs_after_it(
    host: Host, bridge: BridgeProcess, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(host)
    node.runtime()
    host.configure(hanging(bridge), node.keeper())
    node.bridge.synchronize([], [running()])
    node.bridge.after_synchronize()
    assert wait_until((host.root / "begun").exists)
    said = "nri v0.1: the late create is still running; delete runs after it"
    with pytest.raises(StatusError, match=said.replace(".", r"\.")):
        node.stop(0.2)
    assert f"default/web/app: {said}" in caplog.text
    assert node.steps == []
    (host.root / "go").touch()
    assert wait_until(lambda: node.steps == [("create", "1f92"), ("delete", "1f92")])
    assert node.bridge.wait_until_idle(SOON)


def test_a_delete_that_waits_for_a_late_create_is_answered_after_it(host: Host, bridge: BridgeProcess) -> None:
    host.configure(hanging(bridge), bridge.node.keeper())
    bridge.outside()
    runtime = connected(bridge, containers=[running()])
    assert wait_until((host.root / "begun").exists)
    thread = threading.Thread(target=stop_container, args=(runtime,))
    thread.start()
    (host.root / "go").touch()
    thread.join()
    assert bridge.node.steps == [("create", "1f92"), ("delete", "1f92")]


def test_a_delete_cancels_a_late_create_that_has_not_begun(host: Host, bridge: BridgeProcess) -> None:
    host.configure(hanging(bridge), bridge.node.keeper())
    bridge.outside()
    runtime = connected(bridge, pod(), containers=[running()])
    assert wait_until((host.root / "begun").exists)  # the sandbox's
    thread = threading.Thread(target=stop_container, args=(runtime,))
    thread.start()
    assert wait_until(lambda: len(host.processes()) == 2)  # and the delete's
    (host.root / "go").touch()
    thread.join()
    assert wait_until(lambda: "late: create succeeded for 1," in bridge.log)
    assert sorted(bridge.node.steps) == [("create", "6efd"), ("delete", "1f92")]


def test_many_pods_at_once(host: Host, bridge: BridgeProcess) -> None:
    host.configure(bridge.node.keeper())
    bridge.outside()
    pods = [pod(id=f"p{number}", name=f"web-{number}") for number in range(12)]
    containers = [running(id=f"c{number}", pod_sandbox_id=f"p{number}") for number in range(12)]
    runtime = bridge.accept()
    runtime.configure()
    assert runtime.synchronize(pods[:6], more=True).more
    runtime.synchronize(pods[6:], containers)
    start_container(runtime)  # events are served meanwhile
    assert wait_until(lambda: "late: create succeeded for 24, failed for 0, in " in bridge.log, 4 * SOON)
    late = [(request["state"], request["id"]) for request in bridge.node.kept if request.get("late")]
    assert sorted(late) == sorted(("create", f"{kind}{n}") for kind in "pc" for n in range(12))
    assert all(late.index(("create", f"p{n}")) < late.index(("create", f"c{n}")) for n in range(12))


def test_what_has_not_begun_when_the_connection_ends_is_found_again(host: Host, bridge: BridgeProcess) -> None:
    host.configure(hanging(bridge), bridge.node.keeper())
    bridge.outside()
    runtime = connected(bridge, pod(), containers=[running()])
    assert wait_until((host.root / "begun").exists)
    runtime.close()
    assert wait_until(lambda: "late: dropped 1 that have not begun" in bridge.log)
    (host.root / "go").touch()
    connected(bridge, pod(), containers=[running()])
    assert wait_until(lambda: bridge.node.steps == [("create", "6efd"), ("create", "1f92")])


def test_a_bridge_that_ends_waits_for_the_late_create_that_is_running_and_begins_no_other(
    host: Host, bridge: BridgeProcess
) -> None:
    host.configure(hanging(bridge), bridge.node.keeper())
    bridge.outside()
    connected(bridge, pod(), containers=[running()])
    assert wait_until((host.root / "begun").exists)
    bridge.signal(signal.SIGTERM)
    assert wait_until(lambda: "late: dropped 1 that have not begun" in bridge.log)
    (host.root / "go").touch()
    assert bridge.wait() == 0
    assert bridge.node.steps == [("create", "6efd")]
    bridge.child = None
    bridge.outside()
    connected(bridge, pod(), containers=[running()])
    assert wait_until(lambda: bridge.node.steps == [("create", "6efd"), ("create", "1f92")])


def test_a_record_that_others_can_write_to_counts_as_empty(host: Host, bridge: BridgeProcess) -> None:
    file = host.root / "v1bridge.record"
    file.write_bytes(b"6efd\n1f92\n")
    file.chmod(0o666)
    host.configure(bridge.node.keeper())
    bridge.outside()
    connected(bridge, pod(), containers=[running()])
    assert wait_until(lambda: bridge.node.steps == [("create", "6efd"), ("create", "1f92")])
    assert wait_until(lambda: file.read_text() == "6efd\n1f92\n")
    assert wait_until(lambda: "the record" in bridge.log)


def test_switched_off_it_runs_nothing_and_says_how_many(host: Host, bridge: BridgeProcess) -> None:
    host.configure(bridge.node.keeper())
    (host.root / "settings.json").write_text(bridge.settings(lateCreate=False))
    bridge.start(*COMMAND, "--socket", "nri.sock", "--config", "settings.json")
    runtime = connected(bridge, pod(), containers=[running()])
    assert wait_until(
        lambda: (
            (
                "warning late: 1 sandbox and 1 container have had no create; "
                'no plugin runs for them ("lateCreate": false)\n'
            )
            in bridge.log
        )
    )
    start_container(runtime)
    assert bridge.node.steps == [("create", "1f92")]
    assert "1f92\n" in (host.root / "v1bridge.record").read_text()


def test_without_plugins_everything_counts_as_served(host: Host, bridge: BridgeProcess) -> None:
    bridge.outside()
    runtime = connected(bridge, pod(), containers=[running()])
    said = "late: 1 sandbox and 1 container have had no create; no plugin is configured for them"
    assert wait_until(lambda: f"info {said}\n" in bridge.log)
    host.configure(bridge.node.keeper())
    runtime.close()
    start_container(connected(bridge, pod(), containers=[running()]))
    assert bridge.node.steps == [("create", "1f92")]


def test_what_starts_without_a_valid_configuration_is_listed_and_served_when_there_is_one(
    host: Host, bridge: BridgeProcess
) -> None:
    host.configure_text("{")
    bridge.outside()
    runtime = connected(bridge, pod(), containers=[running()])
    assert wait_until(lambda: "; no plugin runs for them before there is a valid configuration\n" in bridge.log)
    runtime.event(
        api.Event.START_CONTAINER, api.StartContainerRequest(pod=pod(), container=container(id="c2", name="two"))
    )
    path = str(host.root / "v1bridge.sock")
    assert wait_until(lambda: [each["id"] for each in status(path)["withoutPlugins"]] == ["6efd", "1f92", "c2"])
    assert bridge.node.steps == []
    host.configure(bridge.node.keeper())
    assert wait_until(lambda: len(bridge.node.steps) == 3)
    assert sorted(bridge.node.steps) == [("create", "1f92"), ("create", "6efd"), ("create", "c2")]
    assert wait_until(lambda: status(path)["withoutPlugins"] == [])


def test_what_has_ended_before_there_is_a_valid_configuration_is_not_served(
    host: Host, bridge: BridgeProcess
) -> None:
    host.configure_text("{")
    bridge.outside()
    runtime = connected(bridge, pod())
    start_container(runtime)
    stop_container(runtime)
    host.configure(bridge.node.keeper())
    assert wait_until(lambda: ("create", "6efd") in bridge.node.steps)
    stop_pod(runtime)
    assert bridge.node.steps == [("create", "6efd"), ("delete", "6efd")]


def test_a_sandbox_without_a_process_is_served_when_a_container_in_it_starts(
    host: Host, bridge: BridgeProcess
) -> None:
    """CRI-O drops the sandbox's process where it needs none."""
    host.configure(bridge.node.keeper())
    bridge.outside()
    runtime = connected(bridge, pod(pid=0), containers=[container(state=api.ContainerState.CONTAINER_CREATED)])
    start_container(runtime)
    assert wait_until(lambda: sorted(bridge.node.steps) == [("create", "1f92"), ("create", "6efd")])
    assert {request["id"]: request.get("late", False) for request in bridge.node.kept} == {
        "1f92": False,
        "6efd": True,
    }


def test_such_a_sandbox_is_not_served_if_late_creates_are_off(host: Host, bridge: BridgeProcess) -> None:
    host.configure(bridge.node.keeper())
    bridge.changes["lateCreate"] = False
    bridge.outside()
    runtime = connected(bridge, pod(pid=0), containers=[container(state=api.ContainerState.CONTAINER_CREATED)])
    start_container(runtime)
    start_container(runtime)  # what follows the first one has been done
    assert bridge.node.steps == [("create", "1f92")] * 2


def test_late_creates_wait_until_the_configuration_is_not_being_edited(host: Host, bridge: BridgeProcess) -> None:
    host.configure(bridge.node.keeper("a"), name="10.conf")
    bridge.outside()
    runtime = bridge.accept()
    runtime.configure()
    host.configure(bridge.node.keeper("a"), name="10.conf")
    away = (host.conf / "10.conf").rename(host.root / "away")
    runtime.synchronize([pod()], [running()])
    stop_container(runtime)  # which is not served late
    away.rename(host.conf / "10.conf")
    assert wait_until(lambda: "late: create succeeded for 1, failed for 0, in " in bridge.log)
    assert [step for step in bridge.node.steps if step[0] == "create"] == [("create", "6efd")]
