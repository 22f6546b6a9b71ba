"""The chain and the changes that plugins ask for: what each plugin sees, and what a change that fails does."""

from typing import Any

import pytest

from nri.adjust import Changes, NRIAbilities
from nri.client import ChainError, Client, Step, results_of, spec_from_oci
from nri.config.entries import PluginEntry
from nri.types.v1 import Request, Result
from tests.unit.client.fake_invoker import FakeInvoker, output
from tests.unit.client.fake_invoker import client as client_of

OCI: dict[str, Any] = {
    "process": {"args": ["sh"], "env": ["A=0"]},
    "annotations": {"k": "v"},
    "mounts": [{"destination": "/proc"}],
    "hooks": {"prestart": []},
    "linux": {
        "cgroupsPath": "/x",
        "resources": {},
        "namespaces": [{"type": "pid"}],
        "sysctl": {"a": "0"},
    },
}
ENV = {"adjust": {"env": {"A": "1"}}}
SHARES = {"cpu": {"shares": 2}}


def client(invoker: FakeInvoker, *policies: str) -> Client:
    plugins = [
        PluginEntry(type=type_, states=("setup", "resize"), failure_policy=policy)
        for type_, policy in zip("abc", policies, strict=False)
    ]
    return client_of(invoker, *plugins)


def answers(**results: dict[str, Any]) -> FakeInvoker:
    return FakeInvoker(
        {plugin: output({"plugin": plugin} | result) for plugin, result in results.items()}
    )


def request(state: str = "setup") -> Request:
    return Request(state=state, id="self", spec=spec_from_oci(OCI, adjustable=state == "setup"))


def changes(config: dict[str, Any] | None = None) -> Changes:
    return Changes(NRIAbilities("containerd 2.3.0", (0, 12)), OCI if config is None else config)


def test_plugins_of_a_setup_see_all_earlier_changes() -> None:
    invoker = answers(a=ENV, b={"adjust": {"env": {"B": "2"}}, "cgroupsPath": "/y"})
    asked = changes()
    steps = client(invoker, "", "", "").invoke(request(), "setup", changes=asked)
    seen = [sent["spec"] for sent in invoker.requests]
    assert [spec["process"]["env"] for spec in seen] == [["A=0"], ["A=1"], ["A=1", "B=2"]]
    assert [spec["cgroupsPath"] for spec in seen] == ["/x", "/x", "/y"]
    assert seen[0]["mounts"] == OCI["mounts"]
    assert seen[0]["linux"] == {"sysctl": {"a": "0"}}
    assert invoker.requests[1]["results"] == [
        Result(plugin="a", version="", adjust=ENV["adjust"]).to_value()
    ]
    assert [result.adjust for result in results_of(steps)] == [
        ENV["adjust"],
        {"env": {"B": "2"}},
        None,
    ]
    assert asked.adjust == {"env": {"A": "1", "B": "2"}, "linux": {"cgroupsPath": "/y"}}


CONFLICT = "adjust.env A: already set by the plugin a; expected one plugin alone to set it"


def test_conflict_is_a_failure_of_the_second_plugin() -> None:
    invoker = answers(a=ENV, b=ENV)
    asked = changes()
    with pytest.raises(ChainError) as caught:
        client(invoker, "", "", "").invoke(request(), "setup", changes=asked)
    assert str(caught.value) == f"plugin b: {CONFLICT}"
    assert invoker.ran == ["a", "b"]
    first, second = caught.value.steps
    assert first.error is None
    assert (second.result, second.error and second.error.reason) == (None, CONFLICT)
    assert asked.adjust == ENV["adjust"]


NO_MEMORY_POLICY = {"adjust": {"linux": {"memoryPolicy": {"mode": "MPOL_BIND"}}}}


@pytest.mark.parametrize(
    ("first", "second", "is_refused"),
    [
        (ENV, ENV, False),
        (ENV, ENV | {"podAsked": True}, True),
        (ENV | {"podAsked": True}, ENV, True),
        (ENV, NO_MEMORY_POLICY, False),
        (ENV | {"podAsked": True}, NO_MEMORY_POLICY, False),
        (ENV, NO_MEMORY_POLICY | {"podAsked": True}, True),
        ({}, {"adjust": {"env": 1}, "podAsked": True}, True),
    ],
)
@pytest.mark.parametrize("policy", ["fail", "ignore"])
def test_what_a_pod_asks_for_and_cannot_have_is_a_refusal(
    first: dict[str, Any], second: dict[str, Any], is_refused: bool, policy: str
) -> None:
    older = Changes(NRIAbilities("containerd 2.2.1", (0, 11)), OCI)
    chain = client(answers(a=first, b=second), policy, policy)
    steps: list[Step] = []
    refused = False
    try:
        chain.invoke(request(), "setup", changes=older, on_step=steps.append)
    except ChainError as error:
        refused = error.errors[0].refused
    assert steps[1].error is not None
    assert steps[1].error.refused == is_refused
    assert refused == (is_refused and policy == "fail")


def test_ignored_conflict_drops_the_whole_result() -> None:
    second = {
        "adjust": {"env": {"A": "2"}, "annotations": {"b": "1"}},
        "updates": [{"id": "x", "resources": SHARES}],
    }
    invoker = answers(a=ENV, b=second, c={"adjust": {"annotations": {"b": "2"}}})
    asked, lines = changes(), list[tuple[str, str]]()
    steps = client(invoker, "", "ignore", "").invoke(
        request(), "setup", changes=asked, log=lambda *line: lines.append(line)
    )
    assert [result.plugin for result in results_of(steps)] == ["a", "c"]
    assert [result["plugin"] for result in invoker.requests[2]["results"]] == ["a"]
    assert invoker.requests[2]["spec"]["annotations"] == {"k": "v"}
    assert asked.adjust == {"env": {"A": "1"}, "annotations": {"b": "2"}}
    assert asked.updates == {}
    assert lines == [("b", f"setup of self failed, ignored (failurePolicy: ignore): {CONFLICT}")]


@pytest.mark.parametrize(("state", "key"), [("setup", "adjust"), ("delete", "updates")])
def test_host_without_changes_refuses_a_result_with_some(state: str, key: str) -> None:
    asked: dict[str, Any] = ENV if key == "adjust" else {"updates": [{"id": "x", "resources": {}}]}
    with pytest.raises(ChainError) as caught:
        client(answers(a=asked), "").invoke(request(state), state)
    message = f"plugin a: {key}: found it in answer to {state}, which this host cannot apply"
    assert str(caught.value) == message
    nothing: list[dict[str, Any]] = [
        {"adjust": {}, "updates": []},
        {"adjust": None},
        {"cgroupsPath": "/y"},
    ]
    for empty in nothing:
        (step,) = client(answers(a=empty), "").invoke(request(), "setup")
        assert step.error is None


def test_create_shows_no_adjustable_parts_and_accepts_no_changes() -> None:
    invoker = answers()
    client(invoker, "").invoke(
        Request(state="create", id="self", pid=1, spec=spec_from_oci(OCI)),
        "create",
        changes=changes(),
    )
    assert set(invoker.requests[0]["spec"]) == {
        "resources",
        "namespaces",
        "cgroupsPath",
        "annotations",
    }
    with pytest.raises(
        ChainError,
        match=r"^plugin a: adjust: found it in answer to create, expected it in answer to",
    ):
        client(answers(a=ENV), "").invoke(request("create"), "create", changes=changes())


def test_dropped_update_is_logged() -> None:
    update = {"id": "x", "resources": SHARES}
    invoker = answers(a={"updates": [update]}, b={"updates": [update | {"ignoreFailure": True}]})
    lines: list[tuple[str, str]] = []
    steps = client(invoker, "", "").invoke(
        request(), "setup", changes=changes(), log=lambda *line: lines.append(line)
    )
    assert [step.error for step in steps] == [None, None]
    ((plugin, line),) = lines
    assert plugin == "b"
    assert line.startswith(
        "updates[0] of x.linux.resources.cpu.shares: already set by the plugin a; "
    )
