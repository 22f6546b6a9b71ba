"""Containers that start without a bridge get one late ``create``; a missed ``setup`` is refused or listed."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from nri.errors import NRIError
from nri.skel.scopes import container_name
from nri.types.v1 import Request
from nri.v1bridge import late
from nri.v1bridge.requests import name_of
from nri.v2 import api
from nri.v2.ttrpc import StatusError
from tests.integration.v1bridge.bridge_process import (
    BridgeProcess,
    create_container,
    slow,
    start_container,
    stop_container,
)
from tests.support.host import Host, plugin
from tests.support.node import Node, call
from tests.support.pods import container, pod
from tests.support.runtime import Runtime
from tests.support.waiting import SOON, wait_until

CREATED = api.ContainerState.CONTAINER_CREATED
RUNNING = container(state=api.ContainerState.CONTAINER_RUNNING)
OF_POD, OF_CONTAINER = ("create", "6efd"), ("create", "1f92")
MISSED = "its setup was missed: the container was created without it"


@pytest.fixture
def bridge(host: Host, bridge: BridgeProcess) -> BridgeProcess:
    """Not started yet; its runtime listens, and there is one plugin, which keeps its requests."""
    bridge.listen()
    host.configure(bridge.node.keeper())
    return bridge


def stop_pod(runtime: Runtime) -> None:
    runtime.event(
        api.Event.STOP_POD_SANDBOX, api.StopPodSandboxRequest(pod=api.PodSandbox(id="6efd"))
    )


def recorded(host: Host, id_: str) -> bool:
    """Return whether the record has that the pod or container has had its create."""
    file = host.root / f"v1bridge.record/{id_}.json"
    text = file.read_text() if file.exists() else ""  # a new file is there before its content is
    return text != "" and json.loads(text)["created"] is True


def has_steps(bridge: BridgeProcess, *steps: tuple[str, str]) -> bool:
    return wait_until(lambda: bridge.node.steps == [*steps])


def says(bridge: BridgeProcess, text: str) -> bool:
    return wait_until(lambda: text in bridge.log)


def listed(bridge: BridgeProcess) -> list[tuple[str, str, str, str]]:
    """Return the containers that run without a plugin, as the status has them."""
    found = bridge.status["withoutPlugins"]
    return [(each["id"], each["state"], each["plugin"], each["why"]) for each in found]


def test_missed_pod_and_container_are_served_late_once(bridge: BridgeProcess) -> None:
    there = [RUNNING, container(id="c0", state=CREATED)]
    runtime = bridge.connect(*there, pods=[pod(), pod(id="stopped", pid=0)])
    assert has_steps(bridge, OF_POD, OF_CONTAINER)
    assert [request["late"] for request in bridge.node.kept] == [True, True]
    assert says(bridge, "late: create succeeded for 2, failed for 0, in ")
    began = "late: 2 pods and containers have had no create; running create for them"
    assert f"warning {began}\n" in bridge.log
    line = (
        "info late: it has had no create state=create container=default/web/app id=1f92 late=true"
    )
    assert f"{line}\n" in bridge.log
    assert says(
        bridge, "info answered state=create container=default/web/app id=1f92 late=true ms="
    )

    runtime.close()
    runtime = bridge.connect(*there)  # the runtime has restarted
    stop_container(runtime)
    stop_pod(runtime)
    assert bridge.node.steps[2:] == [("delete", "1f92"), ("delete", "6efd")]
    assert "late" not in bridge.node.kept[-1]
    assert bridge.log.count("have had no create; running create") == 1


def test_served_containers_are_on_record_after_a_kill(bridge: BridgeProcess) -> None:
    runtime = bridge.connect(pods=[])
    runtime.event(api.Event.RUN_POD_SANDBOX, api.RunPodSandboxRequest(pod=pod()))
    start_container(runtime)
    bridge.kill()
    bridge.connect(RUNNING, pods=[pod(), pod(id="new", name="new")])
    assert says(bridge, "late: create succeeded for 1,")
    assert bridge.node.steps == [OF_POD, OF_CONTAINER, ("create", "new")]


def test_create_that_a_kill_cut_off_is_served_late(host: Host, bridge: BridgeProcess) -> None:
    host.configure(slow(host))
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(start_container, bridge.connect(pods=[]))
        assert wait_until((host.root / "begun").exists)
        bridge.kill()
    assert isinstance(answer.exception(), NRIError)
    host.configure(bridge.node.keeper())
    bridge.connect(RUNNING, pods=[])
    assert has_steps(bridge, OF_CONTAINER)
    assert bridge.node.kept[0]["late"] is True


def test_failed_late_create_is_tried_again_and_then_listed(
    host: Host, bridge: BridgeProcess
) -> None:
    host.configure(bridge.node.keeper("keeper", ["error", "no such device"]))
    runtime = bridge.connect(RUNNING)
    assert says(bridge, "warning late: create succeeded for 0, failed for 2, in ")
    assert (
        "error late create failed: it runs without its plugins state=create container=default/web/app id=1f92 "
        'late=true error="nri v0.1: plugin keeper: no such device"\n'
    ) in bridge.log
    assert sorted(bridge.node.steps) == [OF_CONTAINER] * 3 + [OF_POD] * 3

    def failed() -> list[tuple[str, str]]:
        return sorted((id_, why) for id_, _, _, why in listed(bridge))

    why = "the late create has failed: no such device"
    assert failed() == [("1f92", why), ("6efd", why)]
    with pytest.raises(StatusError, match="no such device"):
        stop_pod(runtime)
    assert failed() == [("1f92", why)]
    runtime.close()
    host.configure(bridge.node.keeper())
    bridge.connect(RUNNING)
    assert wait_until(lambda: listed(bridge) == [])


def test_ignored_failure_is_listed_also_by_the_next_bridge(
    host: Host, bridge: BridgeProcess
) -> None:
    host.configure(
        bridge.node.keeper("keeper", ["error", "no such device"], failure_policy="ignore")
    )
    start_container(bridge.connect(pods=[]))
    expected = [("1f92", "create", "keeper", "its failure is ignored: no such device")]
    assert listed(bridge) == expected
    bridge.kill()
    runtime = bridge.connect(RUNNING, pods=[])
    assert listed(bridge) == expected
    stop_container(runtime)
    assert listed(bridge) == []


# A create and a delete at once


def test_delete_that_waits_for_a_late_create_is_refused_in_time(
    host: Host, node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.runtime()
    host.configure(slow(host), node.keeper())
    node.bridge.synchronize([], [RUNNING])
    node.bridge.idle()
    assert wait_until((host.root / "begun").exists)
    said = "nri v0.1: the late create is still running; delete runs after it"
    with pytest.raises(StatusError, match=said.replace(".", r"\.")):
        node.stop(0.2)
    assert f"default/web/app: {said}" in caplog.text
    assert node.steps == []
    (host.root / "go").touch()
    assert wait_until(lambda: node.steps == [OF_CONTAINER, ("delete", "1f92")])
    assert node.bridge.chains.wait_until_idle(SOON)


def test_delete_runs_after_a_late_create(host: Host, bridge: BridgeProcess) -> None:
    host.configure(slow(host), bridge.node.keeper())
    runtime = bridge.connect(RUNNING, pods=[])
    assert wait_until((host.root / "begun").exists)
    with ThreadPoolExecutor(1) as threads:
        stopped = threads.submit(stop_container, runtime)
        (host.root / "go").touch()
    stopped.result()
    assert bridge.node.steps == [OF_CONTAINER, ("delete", "1f92")]


# The end of the connection or of the bridge


@pytest.mark.parametrize("ends", ["the connection", "the bridge"])
def test_late_create_that_has_not_begun_is_found_again(
    host: Host, bridge: BridgeProcess, ends: str
) -> None:
    host.configure(slow(host), bridge.node.keeper())
    runtime = bridge.connect(RUNNING)
    assert wait_until((host.root / "begun").exists)
    if ends == "the bridge":
        bridge.signal(signal.SIGTERM)
    else:
        runtime.close()
    assert says(bridge, "late: dropped 1 that have not begun")
    (host.root / "go").touch()
    if ends == "the bridge":
        assert bridge.wait() == 0
        assert bridge.node.steps == [OF_POD], "the running one is waited for"
        bridge.child = None
    bridge.connect(RUNNING)
    assert has_steps(bridge, OF_POD, OF_CONTAINER)


# Without late creates, plugins, or a valid configuration


def test_late_creates_that_are_off_run_nothing_and_are_counted(
    host: Host, bridge: BridgeProcess
) -> None:
    bridge.changes["lateCreate"] = False
    runtime = bridge.connect(RUNNING)
    why = 'no plugin runs for them ("lateCreate": false)'
    assert says(bridge, f"warning late: 2 pods and containers have had no create; {why}\n")
    start_container(runtime)
    assert bridge.node.steps == [OF_CONTAINER]
    assert recorded(host, "1f92")


def test_containers_wait_for_a_valid_configuration(host: Host, bridge: BridgeProcess) -> None:
    """Also those in a sandbox that their start has proven."""
    host.configure_text("{")
    idle = pod(id="idle", name="idle", pid=0)
    runtime = bridge.connect(RUNNING, pods=[pod(), idle])
    assert says(bridge, "; no plugin runs for them before there is a valid configuration\n")
    assert wait_until(lambda: [id_ for id_, *_ in listed(bridge)] == ["6efd", "1f92"])
    for id_ in ("c2", "ended"):
        started = container(id=id_, name=id_, pod_sandbox_id="idle")
        runtime.event(
            api.Event.START_CONTAINER, api.StartContainerRequest(pod=idle, container=started)
        )
    runtime.event(api.Event.STOP_CONTAINER, api.StopContainerRequest(pod=idle, container=started))
    assert wait_until(lambda: {id_ for id_, *_ in listed(bridge)} == {"6efd", "1f92", "idle", "c2"})
    counts = bridge.status["lateCreates"]
    assert counts == {"waiting": 4, "running": 0, "succeeded": 0, "failed": 0, "refused": 0}
    host.configure(bridge.node.keeper())
    expected = [("create", id_) for id_ in ("1f92", "6efd", "c2", "idle")]
    assert wait_until(lambda: sorted(bridge.node.steps) == expected)
    assert wait_until(lambda: listed(bridge) == [])


def test_late_creates_wait_for_the_end_of_an_edit(host: Host, bridge: BridgeProcess) -> None:
    bridge.outside()
    runtime = bridge.accept()
    runtime.configure()
    file = host.conf / "10-test.conf"
    away = file.rename(host.root / "away")
    runtime.synchronize([pod()], [RUNNING])
    stop_container(runtime)  # which is not served late
    away.rename(file)
    assert says(bridge, "late: create succeeded for 1, failed for 0, in ")
    assert [step for step in bridge.node.steps if step[0] == "create"] == [OF_POD]


def test_edit_that_outlasts_a_connection_keeps_late_creates(
    host: Host, bridge: BridgeProcess
) -> None:
    file = host.conf / "10-test.conf"
    bridge.outside()
    runtime = bridge.accept()
    away = file.rename(host.conf / "10-test.conf.new")
    runtime.configure()
    runtime.synchronize([pod()], [RUNNING])
    away.rename(file)
    runtime.close()
    bridge.connect(RUNNING)  # the next synchronization
    assert wait_until(lambda: OF_CONTAINER in bridge.node.steps), bridge.node.steps


# A missed setup


def want_setup(bridge: BridgeProcess, **options: Any) -> None:
    bridge.host.configure(bridge.node.keeper(states=["setup"], **options))


def is_refused(runtime: Runtime) -> bool:
    """Start the container; return whether that is refused in the plugin's name."""
    try:
        start_container(runtime)
    except StatusError as error:
        return "keeper" in str(error)
    return False


@pytest.mark.parametrize("had_setup", [False, True])
def test_missed_setup_is_listed_after_a_late_create(bridge: BridgeProcess, had_setup: bool) -> None:
    want_setup(bridge)
    runtime = bridge.connect(pods=[])
    if had_setup:
        create_container(runtime)
    bridge.kill()
    bridge.connect(RUNNING)
    assert says(bridge, "late: create succeeded for 2,")
    assert listed(bridge) == ([] if had_setup else [("1f92", "setup", "keeper", MISSED)])


def test_container_created_between_two_bridges_is_refused(bridge: BridgeProcess) -> None:
    want_setup(bridge)
    bridge.end(bridge.connect())
    assert is_refused(bridge.connect(container(state=CREATED)))


def test_plugin_whose_condition_holds_since_setup_has_not_missed_it(host: Host, node: Node) -> None:
    """Another plugin adds an annotation at setup: the start has it, and the setup did not."""
    entry = node.keeper(states=["setup"], when={"annotations": {"x": {"equals": "1"}}})
    host.configure(entry)
    node.runtime()
    node.create()
    node.start(annotations={"x": "1"})
    assert node.steps == [("create", "1f92")]
    with pytest.raises(StatusError, match="its setup was missed"):
        node.start(id="other", annotations={"x": "1"})


def test_late_creates_keep_to_conditions(
    host: Host, node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "nri.v1bridge")
    host.configure(node.keeper(when={"namespaces": ["default"], "sandbox": False}))
    node.runtime()
    other = container(id="x", pod_sandbox_id="other", state=RUNNING.state)
    node.bridge.synchronize([pod(), pod(id="other", namespace="other")], [RUNNING, other])
    node.bridge.idle()
    assert wait_until(lambda: "create succeeded for 1" in caplog.text)
    assert node.steps == [OF_CONTAINER]
    assert node.kept[0]["late"] is True


def test_containers_without_a_valid_configuration_are_listed_where_late_creates_are_off(
    host: Host, bridge: BridgeProcess
) -> None:
    host.configure_text('{"version": "0.1", "plugins": [{"typ": "keeper"}]}')
    bridge.changes = {"lateCreate": False}
    bridge.connect(RUNNING)
    assert wait_until(lambda: [each[0] for each in listed(bridge)] == ["6efd", "1f92"])


def test_a_launched_bridge_waits_for_the_late_creates_of_the_one_before(
    host: Host, bridge: BridgeProcess, second: BridgeProcess
) -> None:
    """containerd is restarted while they run: two for one container at a time are against the contract."""
    runs = host.root / "runs"
    script = (
        f"#!/bin/sh\ncat >/dev/null\necho begin >>{runs}\nsleep 1\necho end >>{runs}\necho '{{}}'\n"
    )
    host.script("slow", script)
    host.configure(plugin("slow"))
    for child in (bridge, second):
        runtime = child.launch()
        runtime.configure(child.settings())
        runtime.synchronize([pod()], [])
        if child is bridge:
            assert wait_until(runs.exists)
            runtime.close()
    assert wait_until(lambda: "late" in second.log or recorded(host, "6efd"))
    assert wait_until(lambda: runs.read_text().split() == ["begin", "end"])
    assert wait_until(lambda: recorded(host, "6efd"))
    counts = dict.fromkeys(("waiting", "running", "succeeded", "failed", "refused"), 0)
    assert wait_until(lambda: bridge.status["lateCreates"] == counts)
    assert runs.read_text().split() == ["begin", "end"]


@pytest.fixture
def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """No chain begins."""

    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("nri.v1bridge.chains.Client.invoke", fail)


@pytest.mark.usefixtures("no_memory")
def test_a_late_create_that_fails_before_its_first_plugin_is_listed(
    host: Host, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late, "PAUSES", (0.0, 0.0, 0.0))
    host.configure(node.keeper())
    node.runtime()
    node.bridge.synchronize([pod()], [RUNNING])
    node.bridge.idle()

    def reasons() -> list[tuple[str, str]]:
        return [
            (each["id"], each["why"]) for each in node.bridge.chains.describe()["withoutPlugins"]
        ]

    why = "the late create has failed: MemoryError: "
    assert wait_until(lambda: reasons() == [("6efd", why), ("1f92", why)])
    assert node.bridge.chains.wait_until_idle(SOON)


@pytest.mark.usefixtures("no_memory")
def test_a_start_that_cri_o_makes_in_spite_of_an_error_is_listed(host: Host, node: Node) -> None:
    host.configure(node.keeper())
    for name, refuses in (("containerd", True), ("cri-o", False)):
        node.runtime(name, "1.31.0")
        with pytest.raises(MemoryError):
            node.start()
        without = node.bridge.chains.describe()["withoutPlugins"]
        assert bool(without) != refuses


@pytest.mark.parametrize("is_on", [True, False])
def test_a_start_that_cri_o_has_given_up_gets_a_late_create(host: Host, is_on: bool) -> None:
    node = Node(host, late_create=is_on)
    host.configure(node.keeper(states=["update"]))
    node.runtime("cri-o", "1.31.0")
    late = call()
    late.is_late = True  # an earlier event has held it up until its deadline
    request = api.StartContainerRequest(pod=pod(), container=container())
    with pytest.raises(StatusError, match="not started"):
        node.bridge.start_container(request, late)
    assert (node.steps, len(node.bridge.chains.describe()["withoutPlugins"])) == ([], 1)
    node.bridge.idle()
    if is_on:
        assert wait_until(lambda: not node.bridge.chains.describe()["withoutPlugins"])
    assert [(kept["state"], kept.get("late")) for kept in node.kept] == (
        [("create", True)] if is_on else []
    )


@pytest.mark.parametrize("fault", ["fails", "is missing", "takes too long"])
def test_failed_delete_of_a_sandbox_lets_cri_o_stop_the_pod(
    host: Host, node: Node, fault: str
) -> None:
    """CRI-O returns the error before it marks the pod as stopped, at every try; containerd only logs it."""
    step = {"fails": ["error", "no"], "takes too long": ["hang"]}.get(fault, ["nothing"])
    host.configure(node.keeper("keeper", step, timeout=0.2))
    if fault == "is missing":
        (host.bin / "keeper").unlink()
    for name in ("containerd", "cri-o"):
        node.runtime(name, "1.36.3")
        with contextlib.nullcontext() if name == "cri-o" else pytest.raises(StatusError):
            node.stop_pod()
        with pytest.raises(StatusError):
            node.stop()  # CRI-O logs that of a container
    (about,) = json.loads(node.bridge.status.answer(""))["plugins"]
    assert about["lastError"]["state"] == "delete"


def test_container_without_a_label_has_the_name_of_cri_os_metadata(host: Host, node: Node) -> None:
    host.configure(node.keeper(states=["setup"]))
    annotations = {"io.kubernetes.cri-o.Metadata": '{"name":"app","attempt":1}'}
    node.create(name="", annotations=annotations)
    request = Request.from_json(json.dumps(node.kept[0]))
    assert container_name(request) == "app"
    assert name_of(pod(), container(name="", annotations=annotations)).endswith("/app")


def test_an_end_that_the_runtime_has_given_up_still_reaches_the_plugins(
    host: Host, node: Node
) -> None:
    host.configure(node.keeper())
    node.runtime()
    late = call(SOON)
    late.is_late, late.received, late.deadline = True, late.received - SOON, late.received
    node.bridge.stop_container(api.StopContainerRequest(pod=pod(), container=container()), late)
    assert node.steps == [("delete", "1f92")]


def test_own_pod_of_the_bridge_has_not_missed_its_setup(host: Host) -> None:
    """Its containers start before it does, so they would be listed on every node for ever."""
    node = Node(host)
    host.configure(node.keeper(states=["setup"]))
    node.runtime()
    others = [
        container(id="other", pod_sandbox_id="p2", state=api.ContainerState.CONTAINER_RUNNING)
    ]
    own = [
        container(id="init", pid=0, state=CREATED),
        container(id="bridge", pid=os.getppid(), state=api.ContainerState.CONTAINER_RUNNING),
        container(id="metrics", state=api.ContainerState.CONTAINER_RUNNING),
    ]
    pods = [pod(), pod(id="p2", name="other")]
    for containers in (others, [*own, *others]):
        node.bridge.synchronize(pods, containers)
        node.bridge.chains.late.judge()
    described = node.bridge.chains.describe()
    assert described["ownPod"] == "default/web"
    assert [entry["id"] for entry in described["withoutPlugins"] if entry["cause"] == "missed"] == [
        "other"
    ]
    node.start(id="init")  # it was created before the bridge was there
    with pytest.raises(StatusError, match=MISSED):
        node.start(id="p3", pod_sandbox_id="p2")


def test_container_that_crio_starts_in_spite_of_a_refusal_is_listed_and_no_fault(
    host: Host,
) -> None:
    node = Node(host)
    refusal = '{"error": "no CPU is free", "refused": true}'
    host.script("asking", f"#!/bin/sh\ncat >/dev/null\necho '{refusal}'\n")
    host.configure(plugin("asking"), node.keeper())
    node.runtime("cri-o", "1.36.3")
    node.bridge.synchronize([], [])
    node.bridge.idle()
    with pytest.raises(StatusError, match="no CPU is free"):
        node.start()
    chains = node.bridge.chains
    assert wait_until(lambda: chains.describe()["lateCreates"]["refused"] == 1)
    described = chains.describe()
    lacking = {(entry["plugin"], entry["cause"]) for entry in described["withoutPlugins"]}
    assert (lacking, described["lateCreates"]["failed"]) == (
        {("asking", "refused"), ("keeper", "refused")},
        0,
    )
    host.script("asking", "#!/bin/sh\necho '{}'\n")  # another executable: it is tried again
    assert wait_until(lambda: chains.describe()["without"]["containers"] == 0)
    assert node.steps == [("create", "1f92")]
