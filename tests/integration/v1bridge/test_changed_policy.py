"""A policy that changes under running containers: what is due, what is asked for, and what each plugin gets."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from nri.config import PluginEntry
from nri.status.judging import judge
from nri.v2 import api
from nri.v2.ttrpc import StatusError
from tests.integration.cli.running import Ran, inside
from tests.integration.v1bridge.bridge_process import BridgeProcess, start_container
from tests.support.host import Host, plugin
from tests.support.node import Node
from tests.support.pods import container, pod
from tests.support.waiting import SOON, wait_until

RUNNING = api.ContainerState.CONTAINER_RUNNING


@pytest.fixture
def bridge(host: Host, bridge: BridgeProcess) -> BridgeProcess:
    bridge.listen()
    return bridge


def keeper(bridge: BridgeProcess, type_: str, mark: int, **options: Any) -> Any:
    """An entry for a plugin that keeps its requests, with a conf that a test can change."""
    entry = bridge.node.keeper(type_, ["put", "metadata", {"mark": str(mark)}], **options)
    return PluginEntry.of_accepted(entry.to_value() | {"conf": entry.conf | {"mark": mark}})


def outdated(bridge: BridgeProcess) -> list[tuple[str, int, int]]:
    return [
        (each["plugin"], each["reapply"], each["release"]) for each in bridge.status["outdated"]
    ]


def reapply(bridge: BridgeProcess, *words: str) -> Ran:
    return inside("reapply", "--socket", str(bridge.host.root / "v1bridge.sock"), *words)


def test_changed_conf_is_counted_and_reapplied_when_asked_for(
    host: Host, bridge: BridgeProcess
) -> None:
    host.configure(keeper(bridge, "one", 1), keeper(bridge, "two", 1))
    start_container(bridge.connect())
    assert wait_until(lambda: bridge.status["lateCreates"]["succeeded"] == 1)  # the sandbox
    host.configure(keeper(bridge, "one", 2))
    assert wait_until(lambda: outdated(bridge) == [("one", 2, 0), ("two", 0, 2)])
    assert judge(bridge.status).code == 0
    before = len(bridge.node.kept)
    shown = reapply(bridge, "--dry-run")
    assert [line.split()[:3] for line in shown.stdout.splitlines()[1:]] == [
        ["one", "reapply", "default/web"],
        ["two", "release", "default/web"],
        ["one", "reapply", "default/web/app"],
        ["two", "release", "default/web/app"],
    ]
    assert len(bridge.node.kept) == before
    listed = reapply(bridge, "--dry-run", "-o", "json").json["due"]
    assert [[one["plugin"], one["what"]] for one in listed][::2] == [
        ["one", "reapply"],
        ["one", "reapply"],
    ]
    assert reapply(bridge, "--plugin", "none").stdout == "nothing to reapply or release\n"
    assert reapply(bridge, "--namespace", "other").stdout == "nothing to reapply or release\n"
    assert reapply(bridge, "--pod", "default/we").stdout == "nothing to reapply or release\n"
    assert (
        reapply(bridge, "--plugin", "one", "--pod", "default/web").stdout
        == "done for 2 pods and containers\n"
    )
    assert outdated(bridge) == [("two", 0, 2)]  # the command has waited
    for request in bridge.node.kept[before:]:
        assert (request["state"], request["late"], request["conf"]["mark"]) == ("create", True, 2)
        assert request["prevResult"]["metadata"] == {"mark": "1"}
    before = len(bridge.node.kept)
    assert reapply(bridge).stdout == "done for 2 pods and containers\n"
    assert wait_until(lambda: outdated(bridge) == [])
    for request in bridge.node.kept[before:]:
        assert (request["state"], request["release"], request["conf"]["mark"]) == (
            "delete",
            True,
            1,
        )
        assert request["prevResult"]["metadata"] == {"mark": "1"}
    assert reapply(bridge).stdout == "nothing to reapply or release\n"


def test_option_reapplies_each_change(host: Host, bridge: BridgeProcess) -> None:
    bridge.changes["reapply"] = True
    host.configure(keeper(bridge, "one", 1))
    start_container(bridge.connect())
    host.configure(keeper(bridge, "one", 2))
    assert wait_until(
        lambda: (
            [kept["conf"]["mark"] for kept in bridge.node.kept if kept["id"] == "1f92"] == [1, 2]
        )
    )
    host.configure()
    assert wait_until(lambda: bridge.node.kept[-1].get("release") is True)


def test_reapply_that_fails_is_told_and_stays_due(host: Host, bridge: BridgeProcess) -> None:
    host.configure(keeper(bridge, "one", 1))
    start_container(bridge.connect())
    assert wait_until(lambda: bridge.status["lateCreates"]["succeeded"] == 1)
    broken = bridge.node.keeper("one", ["error", "no"])
    host.configure(broken)
    assert wait_until(lambda: outdated(bridge) == [("one", 2, 0)])
    ran = reapply(bridge, "--pod", "default/web")
    assert (ran.status, ran.stderr) == (
        1,
        "2 of 2 pods and containers have failed: nri status lists them\n",
    )
    assert outdated(bridge) == [("one", 2, 0)]
    assert {entry["why"] for entry in bridge.status["withoutPlugins"]} == {
        "the late create has failed: no"
    }


@pytest.mark.parametrize("policy", ["fail", "ignore"])
def test_release_that_fails_is_reported_and_keeps_no_plugin_away(
    host: Host, bridge: BridgeProcess, policy: str
) -> None:
    bridge.changes["reapply"] = True
    host.configure(keeper(bridge, "one", 1, failure_policy=policy))
    start_container(bridge.connect())
    assert wait_until(lambda: bridge.status["lateCreates"]["succeeded"] == 1)
    (host.bin / "one").unlink()
    host.configure(keeper(bridge, "two", 7))
    assert wait_until(lambda: [kept["conf"]["mark"] for kept in bridge.node.kept].count(7) == 2)
    assert outdated(bridge) == [("one", 0, 2)]
    line = "degraded: pods and containers that one has not given back: 2"
    # The last one is entered after its run.
    assert wait_until(lambda: judge(bridge.status).line == line)


@pytest.mark.parametrize(
    "value", [["--pod", "web"], ["--pod", "default/web/app"], ["--namespace", "default/web"]]
)
def test_value_that_names_nothing_is_refused(host: Host, value: list[str]) -> None:
    ran = inside("reapply", "--socket", str(host.root / "none.sock"), *value)
    assert (ran.status, ran.stderr.count("expected ")) == (2, 1)


def test_without_a_bridge_there_is_nothing_to_ask(host: Host) -> None:
    ran = inside("reapply", "--socket", str(host.root / "none.sock"))
    assert (ran.status, ran.stderr) == (1, f"{host.root}/none.sock does not exist\n")


@pytest.mark.parametrize(
    "line", ['{"reapply"', '{"other": {}}', '{"reapply": {"plugin": 1}}', '{"reapply": {"x": ""}}']
)
def test_wrong_question_is_answered_with_what_is_right(
    host: Host, bridge: BridgeProcess, line: str
) -> None:
    from nri.status import ask

    host.configure()
    bridge.connect()
    assert wait_until((host.root / "v1bridge.sock").exists)
    assert "expected" in ask(str(host.root / "v1bridge.sock"), line)["error"]


# Failures that are over


def test_executable_that_is_replaced_while_it_fails_is_another_one(
    host: Host, bridge: BridgeProcess
) -> None:
    host.script("new", '#!/bin/sh\ncat >/dev/null\necho \'{"plugin": "one", "version": "0.1"}\'\n')
    host.script("one", f"#!/bin/sh\nmv {host.bin}/new {host.bin}/one\nexit 3\n")
    host.configure(plugin("one", failure_policy="ignore"))
    start_container(bridge.connect())
    assert wait_until(lambda: bridge.log.count("answered state=create") == 2)
    assert wait_until(lambda: bridge.status["without"]["containers"] == 0)


def test_start_that_cri_o_makes_all_the_same_is_tried_late(host: Host, node: Node) -> None:
    counter = host.root / "counter"
    fails_at_first = f"echo x >> {counter}\n[ $(wc -l < {counter}) -gt 2 ] || exit 3\n"
    host.script("one", f"#!/bin/sh\ncat >/dev/null\n{fails_at_first}echo '{{}}'\n")
    host.configure(plugin("one", ["x"]))
    node.runtime("cri-o", "1.36.3")
    with pytest.raises(StatusError):
        node.start()
    node.bridge.idle()
    chains = node.bridge.chains
    assert chains.describe()["without"]["containers"] == 1
    assert wait_until(lambda: chains.describe()["without"]["containers"] == 0)
    assert chains.wait_until_idle(SOON)


# What happened while no bridge was connected


def test_missed_update_is_made_up_for(host: Host, bridge: BridgeProcess) -> None:
    host.configure(bridge.node.keeper("one", states=["update"]), bridge.node.keeper("two"))
    runtime = bridge.connect()
    start_container(runtime)
    runtime.close()
    bridge.signal(signal.SIGTERM)
    assert bridge.wait() == 0
    bridge.child = None
    resized = container(state=RUNNING)
    resized.linux.resources.cpu.shares.value = 2048
    for _ in range(2):
        bridge.connect(resized)
        assert wait_until(lambda: ("update", "1f92") in bridge.node.steps)
        assert wait_until(lambda: bridge.status["lateCreates"]["waiting"] == 0)
        bridge.kill()
    (update,) = [kept for kept in bridge.node.kept if kept["state"] == "update"]
    assert update["spec"]["resources"]["cpu"]["shares"] == 2048
    assert update["prevResult"]["plugin"] == "one"


def test_all_containers_without_setup_are_counted(host: Host, node: Node) -> None:
    host.configure(node.keeper(states=["setup"]))
    node.runtime()
    chains = node.bridge.chains
    containers = [
        container(id=f"c{number}", name=f"c{number}", state=RUNNING) for number in range(1300)
    ]
    for each in containers:  # which have had their create, and no setup
        from nri.v1bridge.requests import Subject

        row = chains.memory.begin(Subject(pod(), each), SOON)
        assert row is not None
        row.facts.is_created = True
        chains.memory.ended(row, "succeeds")
    node.bridge.synchronize([], containers)
    chains.options.__dict__["late_create"] = False
    chains.late.judge()
    described = chains.describe()
    assert described["without"]["containers"] == 1300
    assert {"plugin": "keeper", "state": "setup", "cause": "missed", "count": 1300} in described[
        "without"
    ]["by"]
    assert len(described["withoutPlugins"]) == 1000


# prevResult of events


def test_events_bring_the_last_result(host: Host, node: Node) -> None:
    host.configure(
        node.keeper("one", ["put", "metadata", {"mark": "1"}], states=["setup", "resize", "update"])
    )
    node.runtime()
    node.create()
    node.start()
    node.update()
    node.stop()
    previous = [(kept["state"], "prevResult" in kept) for kept in node.kept]
    assert previous == [("setup", False), ("create", False), ("update", True), ("delete", True)]
    assert node.kept[-1]["prevResult"]["metadata"] == {"mark": "1"}


# Resources that a runtime remembers


def test_a_runtime_that_remembers_the_creation_alone_has_resized_nothing(
    host: Host, node: Node
) -> None:
    """As CRI-O, which writes a container's configuration once: its restart brings that."""

    def of(shares: int) -> dict[str, Any]:
        return {"linux": {"resources": {"cpu": {"shares": {"value": shares}}}}, "state": RUNNING}

    node.runtime("cri-o", "1.36.3")
    host.configure(node.keeper("one", states=["update"]))
    node.run_pod()
    node.start(**of(512))
    node.update(**of(1024))
    for _ in range(2):
        node.runtime("cri-o", "1.36.3")
        node.bridge.synchronize([pod()], [container(**of(512))])
        node.bridge.idle()
    host.configure()
    node.bridge.chains.late.judge()
    assert [step for step in node.steps if step[0] == "update"] == [("update", "1f92")]

    node.bridge.chains.reapply("", "", "", is_dry=False)
    assert wait_until(lambda: ("delete", "1f92") in node.steps)
    (released,) = [kept for kept in node.kept if kept["state"] == "delete" and kept["id"] == "1f92"]
    assert released["release"] is True
    assert released["spec"]["resources"]["cpu"]["shares"] == 1024
