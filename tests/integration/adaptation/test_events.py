"""The events that plugins are sent, their order, and the use of the answers."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any

import pytest
from google.protobuf.message import Message

from nri.adaptation import AdaptationError, EventError, Exchange, Runtime
from nri.adaptation.lifecycle import Replayer
from nri.v2 import api
from nri.v2.api import Event, events
from nri.v2.ttrpc import Code, StatusError
from tests.support.pods import lives
from tests.support.v2_plugin import ALL, Plugin, adjusts, container, pod, quota, updates
from tests.support.waiting import SOON, wait_until

RPCS: dict[str, Any] = {method.rpc: method.response() for method in events.METHODS}
STATE_CHANGES = {method.rpc for method in events.METHODS if method.state_change}
OWN_CALLS = {rpc: answer for rpc, answer in RPCS.items() if rpc not in STATE_CHANGES}
FAILING = {
    "RunPodSandbox",
    "CreateContainer",
    "StartContainer",
    "UpdateContainer",
    "UpdatePodSandbox",
}
LIFE = [events.BY_EVENT[item.event].rpc for item in lives()]


def replay(runtime: Runtime, pods: int = 1, containers: int = 1) -> Replayer:
    replayer = Replayer(runtime)
    replayer.replay(lives(pods, containers))
    return replayer


def test_a_life_is_a_call_for_each_event_from_nri_0_12_on() -> None:
    with Runtime(request_timeout=1.5, registration_timeout=7) as runtime:
        plugin = Plugin(**RPCS, StateChange=api.Empty()).connect(runtime)
        assert replay(runtime).failed == 0
    assert plugin.events == LIFE
    request = plugin.requests("Configure")[0]
    assert (request.runtime_name, request.runtime_version) == ("nri-simulator", "v0.1.0")
    assert (request.NRI_version, request.request_timeout, request.registration_timeout) == (
        "v0.12.0",
        1500,
        7000,
    )


def test_a_life_is_mostly_state_changes_up_to_nri_0_11() -> None:
    with Runtime(nri_version=(0, 11)) as runtime:
        plugin = Plugin(**RPCS, StateChange=api.Empty()).connect(runtime)
        assert replay(runtime).failed == 0
    assert plugin.events == ["StateChange" if rpc in STATE_CHANGES else rpc for rpc in LIFE]
    told = [events.BY_EVENT[change.event].rpc for change in plugin.requests("StateChange")]
    assert told == [rpc for rpc in LIFE if rpc in STATE_CHANGES]
    assert plugin.requests("StateChange")[0].pod.name == "web-0"
    assert not plugin.requests("StateChange")[0].HasField("container")
    assert plugin.requests("StateChange")[1].container.name == "app-0"
    assert plugin.requests("Configure")[0].NRI_version == ""


def test_plugin_without_the_new_calls_gets_state_changes() -> None:
    exchanges: list[Exchange] = []
    with Runtime(on_exchange=exchanges.append) as runtime:
        plugin = Plugin(**OWN_CALLS, StateChange=api.Empty()).connect(runtime)
        assert replay(runtime).failed == 0
    assert plugin.events == ["StateChange" if rpc in STATE_CHANGES else rpc for rpc in LIFE]
    assert [exchange.event for exchange in exchanges][2:] == LIFE


def test_plugins_are_asked_in_the_order_of_their_indices() -> None:
    order: list[str] = []

    def answer(index: str, request: api.RunPodSandboxRequest) -> api.RunPodSandboxResponse:
        order.append(index)
        return api.RunPodSandboxResponse()

    with Runtime() as runtime:
        for index in ("50", "10", "99", "00"):
            Plugin(index, RunPodSandbox=partial(answer, index)).connect(runtime)
        assert runtime.plugins == ["00-test", "10-test", "50-test", "99-test"]
        runtime.run_pod_sandbox(pod())
    assert order == ["00", "10", "50", "99"]


def test_a_plugin_gets_only_the_events_that_it_wants() -> None:
    with Runtime() as runtime:
        some = Plugin("10", wants=(Event.STOP_CONTAINER,), **RPCS).connect(runtime)
        everything = Plugin("20", wants=(), **RPCS).connect(runtime)
        replay(runtime)
    assert some.events == ["StopContainer"]
    assert set(everything.events) == {*LIFE, "ValidateContainerAdjustment"}


def test_an_event_that_the_runtime_does_not_know_ends_the_plugin() -> None:
    with Runtime(nri_version=(0, 8)) as runtime:
        with pytest.raises(
            AdaptationError, match=r"10-test wants events that NRI 0.8 does not have: 0x1800"
        ):
            Plugin(wants=ALL).connect(runtime)
        assert runtime.plugins == []


# Time


@pytest.mark.parametrize("version", [(0, 12), (0, 11)])
def test_plugin_that_misses_its_deadline_is_cut_off(version: Any) -> None:
    release = threading.Event()

    def hang(request: Any) -> Any:
        release.wait(SOON)
        return api.Empty()

    exchanges: list[Exchange] = []
    with Runtime(nri_version=version, request_timeout=0.5, on_exchange=exchanges.append) as runtime:
        slow = Plugin("10", "slow", RunPodSandbox=hang, StateChange=hang).connect(runtime)
        quick = Plugin("20", "quick", **RPCS, StateChange=api.Empty()).connect(runtime)
        exchanges.clear()
        started = time.monotonic()
        runtime.run_pod_sandbox(pod())
        assert time.monotonic() - started >= 0.5
        assert slow.gone()
        assert runtime.plugins == ["20-quick"]
        runtime.create_container(pod(), container())
        release.set()
    assert len(quick.events) == 2
    assert [(exchange.event, exchange.plugin, exchange.cut_off) for exchange in exchanges] == [
        ("RunPodSandbox", "10-slow", True),
        ("RunPodSandbox", "20-quick", False),
        ("CreateContainer", "20-quick", False),
    ]
    assert "no answer within 0.5 s" in str(exchanges[0].error)


def test_deadline_exceeded_in_an_answer_is_an_ordinary_error() -> None:
    def late(request: Any) -> Any:
        raise StatusError(Code.DEADLINE_EXCEEDED, "not done")

    with Runtime() as runtime:
        Plugin(RunPodSandbox=late).connect(runtime)
        with pytest.raises(EventError, match="not done"):
            runtime.run_pod_sandbox(pod())
        assert runtime.plugins == ["10-test"]


def test_plugin_that_dies_within_an_event_is_dropped() -> None:
    def hang_up(request: api.StartContainerRequest) -> api.Empty:
        dying.hang_up()
        return api.Empty()

    with Runtime() as runtime:
        dying = Plugin("10", "dying", StartContainer=hang_up).connect(runtime)
        other = Plugin("20", "other", **RPCS).connect(runtime)
        runtime.start_container(pod(), container())
        assert (other.events, runtime.plugins) == (["StartContainer"], ["20-other"])


# Errors


def refuse(request: Any) -> Any:
    raise StatusError(Code.UNKNOWN, "not\ntoday")


REFUSALS: dict[str, Any] = dict.fromkeys(RPCS, refuse)


def test_error_fails_some_events_with_plugin_and_message() -> None:
    with Runtime() as runtime:
        Plugin("10", "no", **REFUSALS).connect(runtime)
        later = Plugin("20", "later", **RPCS).connect(runtime)
        for rpc in FAILING:
            with pytest.raises(EventError) as caught:
                runtime.send(rpc, pod(), container(), resources=api.LinuxResources())
            assert str(caught.value) == f"{rpc}: plugin 10-no: not\\ntoday"
            assert (caught.value.event, caught.value.plugin) == (rpc, "10-no")
        assert later.events == []
        assert runtime.plugins == ["10-no", "20-later"]


def test_error_at_any_other_event_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with Runtime() as runtime:
        Plugin("10", "no", **REFUSALS).connect(runtime)
        for rpc in set(LIFE) - FAILING:
            outcome = runtime.send(rpc, pod(), container())
            assert f"{rpc}: plugin 10-no: not\\ntoday" in caplog.text
            assert str(outcome.error) == f"{rpc}: plugin 10-no: not\\ntoday"


@pytest.mark.parametrize(
    ("refused", "undone"),
    [
        ("RunPodSandbox", ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"]),
        (
            "CreateContainer",
            ["RunPodSandbox"]
            + ["CreateContainer", "StopContainer", "RemoveContainer"] * 2
            + ["StopPodSandbox", "RemovePodSandbox"],
        ),
        (
            "StartContainer",
            ["RunPodSandbox"]
            + ["CreateContainer", "PostCreateContainer", "StartContainer"] * 2
            + ["StopPodSandbox", "RemoveContainer", "RemoveContainer", "RemovePodSandbox"],
        ),
    ],
)
def test_a_refused_pod_is_stopped_and_removed(refused: str, undone: list[str]) -> None:
    with Runtime() as runtime:
        earlier = Plugin("00", **RPCS).connect(runtime)
        refusing = Plugin("10", **{**RPCS, refused: refuse}).connect(runtime)
        later = Plugin("20", **RPCS).connect(runtime)
        assert replay(runtime, containers=2).failed == undone.count(refused)
        assert (runtime.store.pods, runtime.store.containers) == ({}, {})
    assert earlier.events == refusing.events == undone
    assert later.events == [event for event in undone if event != refused]
    subjects = [request.container.name for request in earlier.requests("RemoveContainer")]
    assert subjects == ([] if refused == "RunPodSandbox" else ["app-0", "app-1"])


# Adjusting


def test_a_later_plugin_sees_what_an_earlier_one_has_adjusted() -> None:
    with Runtime() as runtime:
        one = adjusts(
            annotations={"a": "1"},
            env=[{"key": "A", "value": "new"}],
            linux={"cgroups_path": "/moved"},
        )
        Plugin("10", CreateContainer=one).connect(runtime)
        later = Plugin("20", CreateContainer=adjusts(annotations={"b": "2"}, **quota(5))).connect(
            runtime
        )
        outcome = runtime.create_container(
            pod(), container(env=["A=old", "B=kept"], annotations={"c": "3"})
        )
    seen = later.requests("CreateContainer")[0].container
    assert (dict(seen.annotations), list(seen.env)) == ({"a": "1", "c": "3"}, ["B=kept", "A=new"])
    assert seen.linux.cgroups_path == "/moved"
    assert dict(outcome.adjustment.annotations) == {"a": "1", "b": "2"}
    assert outcome.adjustment.linux.resources.cpu.quota.value == 5
    assert outcome.container is not None
    assert dict(outcome.container.annotations) == {"a": "1", "b": "2", "c": "3"}


def test_adjustments_stay_for_the_rest_of_the_life() -> None:
    with Runtime() as runtime:
        plugin = Plugin(
            **{**RPCS, "CreateContainer": adjusts(annotations={"a": "1"}, **quota(7))}
        ).connect(runtime)
        replay(runtime)
    assert plugin.requests("StartContainer")[0].container.annotations["a"] == "1"
    assert plugin.requests("StartContainer")[0].container.linux.resources.cpu.quota.value == 7
    # The update's.
    assert plugin.requests("StopContainer")[0].container.linux.resources.cpu.quota.value == 100000


def test_an_update_can_be_changed_and_a_later_plugin_sees_it() -> None:
    answer = api.UpdateContainerResponse(update=updates(app=3, other=4))
    shares = api.LinuxResources(cpu={"shares": {"value": 9}, "quota": {"value": 1}})
    with Runtime() as runtime:
        runtime.create_container(pod(), container("other"))
        Plugin("10", UpdateContainer=answer).connect(runtime)
        later = Plugin("20", UpdateContainer=api.UpdateContainerResponse()).connect(runtime)
        outcome = runtime.update_container(pod(), container(), shares)
        assert runtime.store.containers["other"].linux.resources.cpu.quota.value == 4
    seen = later.requests("UpdateContainer")[0].linux_resources.cpu
    assert (seen.shares.value, seen.quota.value) == (9, 3)
    assert [update.container_id for update in outcome.updates] == ["other", "app"]
    assert outcome.container is not None
    assert outcome.container.linux.resources.cpu.quota.value == 3


def test_a_validator_sees_it_all_and_can_reject_it() -> None:
    reject = api.ValidateContainerAdjustmentResponse(reject=True, reason="too much")
    with Runtime() as runtime:
        Plugin("10", "setter", CreateContainer=adjusts(annotations={"a": "1"}, **quota(1))).connect(
            runtime
        )
        wants = (Event.VALIDATE_CONTAINER_ADJUSTMENT,)
        validator = Plugin(
            "20", "validator", wants=wants, ValidateContainerAdjustment=reject
        ).connect(runtime)
        with pytest.raises(EventError, match="20-validator: too much"):
            runtime.create_container(pod(), container())
    request = validator.requests("ValidateContainerAdjustment")[0]
    assert request.adjust.linux.resources.cpu.quota.value == 1
    assert "a" not in request.container.annotations
    owners = request.owners.owners["app"]
    assert owners.simple[api.Field.CPUQuota] == "10-setter"
    assert dict(owners.compound[api.Field.Annotations].owners) == {"a": "10-setter"}
    assert [(plugin.index, plugin.name) for plugin in request.plugins] == [
        ("10", "setter"),
        ("20", "validator"),
    ]


VALIDATES = (Event.CREATE_CONTAINER, Event.VALIDATE_CONTAINER_ADJUSTMENT)


@pytest.mark.parametrize("has_others", [False, True])
@pytest.mark.parametrize("leaves_at", ["CreateContainer", "ValidateContainerAdjustment", "before"])
def test_nothing_is_created_when_a_validator_gives_no_answer(
    leaves_at: str, has_others: bool
) -> None:
    def leave(request: object) -> Message:
        leaver.hang_up()
        return api.CreateContainerResponse()

    consent = api.ValidateContainerAdjustmentResponse()
    answers: dict[str, Any] = {"CreateContainer": api.CreateContainerResponse()}
    answers |= {"ValidateContainerAdjustment": consent} | (
        {leaves_at: leave} if leaves_at != "before" else {}
    )
    with Runtime() as runtime:
        if has_others:
            for index in ("05", "30"):
                Plugin(
                    index, "fine", wants=VALIDATES[1:], ValidateContainerAdjustment=consent
                ).connect(runtime)
        leaver = Plugin("10", "leaver", wants=VALIDATES, **answers).connect(runtime)
        if leaves_at == "before":
            leaver.hang_up()
            assert wait_until(lambda: "10-leaver" not in runtime.plugins)
        with pytest.raises(
            EventError, match="ValidateContainerAdjustment: plugin 10-leaver: gave no answer"
        ):
            runtime.create_container(pod(), container())
        assert runtime.store.containers == {}
        # It is not connected any more.
        assert runtime.create_container(pod(), container()).error is None


def test_validators_are_asked_side_by_side_and_all_of_them() -> None:
    """Each answers when the others have been asked."""
    together = threading.Barrier(3, timeout=5)

    def judge(request: object) -> Message:
        together.wait()
        return api.ValidateContainerAdjustmentResponse(reject=True, reason="too much")

    with Runtime() as runtime:
        validators = [
            Plugin(index, "judge", wants=VALIDATES[1:], ValidateContainerAdjustment=judge).connect(
                runtime
            )
            for index in ("10", "20", "30")
        ]
        with pytest.raises(EventError, match="10-judge: too much"):
            runtime.create_container(pod(), container())
        assert [validator.events for validator in validators] == [
            ["ValidateContainerAdjustment"]
        ] * 3


def test_runtime_sends_the_patch_level_of_its_nri() -> None:
    for version, sent in (((9, 8, 7), "v9.8.7"), ((0, 12), "v0.12.0")):
        with Runtime(nri_version=version) as runtime:
            plugin = Plugin().connect(runtime)
            assert plugin.requests("Configure")[0].NRI_version == sent


def test_conflicting_updates_at_a_stop_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    answer = api.StopContainerResponse(update=updates(other=4))
    with Runtime() as runtime:
        runtime.create_container(pod(), container("other"))
        for index in ("10", "20"):
            Plugin(index, StopContainer=answer).connect(runtime)
        outcome = runtime.stop_container(pod(), container())
        assert not runtime.store.containers["other"].linux.resources.cpu.HasField("quota")
    assert outcome.updates == ()
    assert (
        'StopContainer: plugins "20-test" and "10-test" both tried to set CPUQuota' in caplog.text
    )


# What there is


def test_a_plugin_that_connects_late_is_synchronized() -> None:
    with Runtime() as runtime:
        for name in ("one", "two"):
            runtime.run_pod_sandbox(pod(name))
        runtime.create_container(pod("one"), container("a"))
        runtime.start_container(pod("one"), container("a"))
        runtime.create_container(pod("one"), container("b"))
        runtime.create_container(pod("two"), container("c"))
        runtime.remove_container(pod("two"), container("c"))
        runtime.remove_pod_sandbox(pod("two"))
        plugin = Plugin().connect(runtime)
    (request,) = plugin.requests("Synchronize")
    assert [pod.name for pod in request.pods] == ["one"]
    states = {item.name: api.ContainerState.Name(item.state) for item in request.containers}
    assert states == {"a": "CONTAINER_RUNNING", "b": "CONTAINER_CREATED"}


def test_updates_asked_for_when_synchronized_are_carried_out() -> None:
    with Runtime() as runtime:
        runtime.create_container(pod(), container())
        Plugin(Synchronize=api.SynchronizeResponse(update=updates(app=8))).connect(runtime)
        assert runtime.store.containers["app"].linux.resources.cpu.quota.value == 8


def test_a_plugin_can_update_containers_at_any_time() -> None:
    with Runtime() as runtime:
        runtime.create_container(pod(), container())
        plugin = Plugin().connect(runtime)
        failed = plugin.update(*updates(app=8, gone=9))
        assert [update.container_id for update in failed] == ["gone"]
        assert runtime.store.containers["app"].linux.resources.cpu.quota.value == 8


def test_an_event_waits_for_the_one_before_it() -> None:
    entered, release = threading.Event(), threading.Event()

    def wait(request: Any) -> Any:
        entered.set()
        assert release.wait(SOON)
        return api.RunPodSandboxResponse()

    with Runtime(request_timeout=SOON) as runtime:
        plugin = Plugin(**{**RPCS, "RunPodSandbox": wait}).connect(runtime)
        first = threading.Thread(target=runtime.run_pod_sandbox, args=[pod()])
        first.start()
        assert entered.wait(SOON)
        second = threading.Thread(target=runtime.stop_pod_sandbox, args=[pod()])
        second.start()
        second.join(0.1)
        assert second.is_alive()
        assert plugin.events == ["RunPodSandbox"]
        release.set()
        first.join()
        second.join()
    assert plugin.events == ["RunPodSandbox", "StopPodSandbox"]
