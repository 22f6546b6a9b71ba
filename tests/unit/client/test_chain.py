"""The chain on an invoker that starts no process: which plugins run, with which requests, and what errors do."""

from __future__ import annotations

import errno
import json
import logging
import os
import time
from typing import Any

import pytest

from nri.client import ChainError, Client, Sandbox, Step, Task, results_of
from nri.config.entries import ConfigList, PluginEntry
from nri.process.launch import BrokenOffError, Output
from nri.types import DecodeError
from nri.types.v1 import STATES, Request, Result, Spec
from tests.unit.client.fake_invoker import FakeInvoker, output

NO = output({"error": "no"})
IGNORED = "failed, ignored (failurePolicy: ignore): "


def entries(*types: str, **options: Any) -> list[PluginEntry]:
    return [PluginEntry(type=each, **options) for each in types]


def client(invoker: FakeInvoker, *plugins: PluginEntry, **options: Any) -> Client:
    return Client(ConfigList(plugins=plugins or entries("a", "b", "c")), invoker, **options)


def request(**changes: Any) -> Request:
    return Request(**{"state": "create", "id": "redis", "pid": 4711, **changes})


def failed(chain: Client, state: str = "create", **options: Any) -> ChainError:
    with pytest.raises(ChainError) as caught:
        chain.invoke(request(), state, **options)
    return caught.value


# Which plugins run


def test_plugins_run_in_the_order_of_the_configuration() -> None:
    invoker = FakeInvoker()
    steps = client(invoker, *entries("b", "a", "b")).invoke(request(), "create")
    assert invoker.ran == [step.plugin.type for step in steps] == ["b", "a", "b"]
    assert [result.plugin for result in results_of(steps)] == ["b", "a", "b"]


@pytest.mark.parametrize("state", STATES)
def test_create_and_delete_go_to_every_plugin_other_states_to_those_that_list_them(state: str) -> None:
    invoker = FakeInvoker()
    chain = client(invoker, *entries("a"), *entries("b", states=[state]), *entries("c", states=["setup"]))
    chain.invoke(request(), state)
    expected = {"create": ["a", "b", "c"], "delete": ["a", "b", "c"], "setup": ["b", "c"]}.get(state, ["b"])
    assert invoker.ran == [plugin.type for plugin in chain.chain(state)] == expected


def test_a_chain_without_plugins_has_no_steps() -> None:
    invoker = FakeInvoker()
    assert client(invoker, *entries("a")).invoke(request(), "pause") == []
    assert invoker.ran == []


# What each plugin is sent


def test_each_plugin_is_sent_its_conf_and_the_version_and_state_of_the_chain() -> None:
    invoker = FakeInvoker()
    plugins = [PluginEntry(type="a", conf={"x": [1, None]}), PluginEntry(type="b"), PluginEntry(type="c", conf=0)]
    client(invoker, *plugins).invoke(request(version="9.9", state="delete", conf="another's"), "create")
    assert [sent.get("conf", "none") for sent in invoker.requests] == [{"x": [1, None]}, "none", 0]
    assert {(sent["version"], sent["state"]) for sent in invoker.requests} == {("0.1", "create")}


def test_each_plugin_is_sent_the_results_of_those_before_it_after_those_of_the_request() -> None:
    invoker = FakeInvoker({"a": output({"plugin": "a", "x-vendor": {"deep": [1, None]}})})
    steps = client(invoker).invoke(request(results=[Result(plugin="earlier")]), "create")
    sent = [[result["plugin"] for result in each["results"]] for each in invoker.requests]
    assert sent == [["earlier"], ["earlier", "a"], ["earlier", "a", "b"]]
    assert invoker.requests[2]["results"][1]["x-vendor"] == {"deep": [1, None]}
    assert [result.plugin for result in results_of(steps)] == ["a", "b", "c"]


def test_the_result_of_a_plugin_that_failed_is_not_handed_on() -> None:
    invoker = FakeInvoker({"b": output({"plugin": "b", "error": "no"})})
    failed(client(invoker), "delete")
    assert [result["plugin"] for result in invoker.requests[2]["results"]] == ["a"]


def test_a_task_becomes_a_request() -> None:
    invoker = FakeInvoker()
    oci = {"annotations": {"k": "v"}, "linux": {"cgroupsPath": "/x", "resources": {"cpu": {"shares": 2}}}}
    client(invoker, *entries("a")).invoke(Task("redis", 4711, oci), "create", Sandbox("pod", {"app": "redis"}))
    (sent,) = invoker.requests
    assert sent == {
        "version": "0.1",
        "state": "create",
        "id": "redis",
        "sandboxID": "pod",
        "pid": 4711,
        "spec": {"resources": {"cpu": {"shares": 2}}, "cgroupsPath": "/x", "annotations": {"k": "v"}},
        "labels": {"app": "redis"},
    }


def test_a_task_may_have_the_spec_that_plugins_see() -> None:
    invoker = FakeInvoker()
    client(invoker, *entries("a")).invoke(Task("redis", 0, Spec(cgroups_path="/x")), "create")
    assert invoker.requests[0]["spec"] == {"resources": None, "cgroupsPath": "/x"}


def test_a_task_without_an_oci_configuration_runs_no_plugin() -> None:
    invoker = FakeInvoker()
    with pytest.raises(DecodeError, match="linux: found the number 3"):
        client(invoker).invoke(Task("redis", 0, {"linux": 3}), "create")
    assert invoker.ran == []


def test_a_sandbox_replaces_that_of_the_request() -> None:
    invoker = FakeInvoker()
    client(invoker, *entries("a")).invoke(request(sandbox_id="old", labels={"a": "b"}), "create", Sandbox("new"))
    assert invoker.requests[0]["sandboxID"] == "new"
    assert "labels" not in invoker.requests[0]


# The steps


def test_a_step_has_what_was_sent_and_what_came_back() -> None:
    invoker = FakeInvoker({"b": output(b"?")}, missing=("c",))
    a, b, c = failed(client(invoker), "delete").steps
    assert [json.loads(step.request)["id"] for step in (a, b, c)] == ["redis"] * 3
    assert [step.binary for step in (a, b, c)] == ["/bin/a", "/bin/b", ""]
    assert (json.loads(a.stdout), a.error, a.result) == ({"plugin": "a"}, None, Result(plugin="a", version=""))
    assert (b.stdout, b.result, b.error and b.error.reason[:17]) == (b"?", None, "no valid result: ")
    assert (c.stdout, c.result, str(c.error)) == (b"", None, "c: not found: nowhere")


def test_a_step_has_the_seconds_that_the_plugin_took() -> None:
    invoker = FakeInvoker()
    invoker.takes = 0.01
    (step,) = client(invoker, *entries("a")).invoke(request(), "create")
    assert 0.01 <= step.seconds < 30


def test_the_observer_sees_each_step_as_its_plugin_ends_before_the_log_tells_of_an_ignored_error() -> None:
    invoker = FakeInvoker({"b": NO})
    story: list[str] = []

    def on_step(step: Step) -> None:
        assert (step.result is None) == (step.error is not None)
        story.append(f"{step.plugin.type} of {len(invoker.ran)}")

    steps = client(invoker, failure_policy="ignore").invoke(
        request(), "create", on_step=on_step, log=lambda _plugin, line: story.append(line)
    )
    assert story == ["a of 1", "b of 2", f"{IGNORED}no", "c of 3"]
    assert len(steps) == 3


def test_all_plugins_have_run_when_the_steps_are_returned() -> None:
    invoker = FakeInvoker()
    assert isinstance(client(invoker).invoke(request(), "create"), list)
    assert invoker.ran == ["a", "b", "c"]


# The effect of an error


@pytest.mark.parametrize("state", [state for state in STATES if state != "delete"])
def test_the_first_error_stops_the_chain(state: str) -> None:
    invoker = FakeInvoker({"b": NO})
    error = failed(client(invoker, *entries("a", "b", "c", states=[state])), state)
    assert invoker.ran == ["a", "b"]
    assert str(error) == "plugin b: no"
    assert [(each.plugin, each.reason) for each in error.errors] == [("b", "no")]
    assert [step.plugin.type for step in error.steps] == ["a", "b"]
    assert [result.plugin for result in results_of(error.steps)] == ["a"]


def test_on_delete_every_plugin_runs_and_the_errors_are_reported_together() -> None:
    invoker = FakeInvoker({"a": NO}, missing=("c",))
    error = failed(client(invoker, *entries("a", "c", "d")), "delete")
    assert invoker.ran == ["a", "d"]
    assert str(error) == "plugin a: no; plugin c: not found: nowhere"
    assert [each.plugin for each in error.errors] == ["a", "c"]
    assert [step.plugin.type for step in error.steps] == ["a", "c", "d"]


@pytest.mark.parametrize(
    ("default", "own", "is_ignored"),
    [("fail", "", False), ("fail", "ignore", True), ("ignore", "", True), ("ignore", "fail", False)],
)
def test_the_policy_of_the_entry_goes_before_that_of_the_client(default: str, own: str, is_ignored: bool) -> None:
    invoker = FakeInvoker({"a": NO})
    lines: list[tuple[str, str]] = []
    chain = client(invoker, *entries("a", failure_policy=own), *entries("b"), failure_policy=default)
    if is_ignored:
        steps = chain.invoke(request(), "create", log=lambda *line: lines.append(line))
        assert [step.error is None for step in steps] == [False, True]
        assert (invoker.ran, lines) == (["a", "b"], [("a", f"{IGNORED}no")])
    else:
        assert str(failed(chain, log=lambda *line: lines.append(line))) == "plugin a: no"
        assert (invoker.ran, lines) == (["a"], [])


def test_an_ignored_error_is_not_among_the_errors_of_the_chain() -> None:
    invoker = FakeInvoker({"a": NO, "b": output({"error": "not me"})})
    error = failed(client(invoker, *entries("a", failure_policy="ignore"), *entries("b", "c")), "delete")
    assert [each.plugin for each in error.errors] == ["b"]
    assert [step.error is None for step in error.steps] == [False, False, True]


BAD: dict[str, tuple[Output | OSError, str]] = {
    "an error": (output({"error": "no"}, stderr="why"), "no"),
    "an error and a status": (output({"error": "no"}, status=3), "no; exit status 3"),
    "nothing": (output(b" \n"), "no valid result: it wrote nothing to stdout, expected a result"),
    "no result": (
        output(b"[]", status=-11, stderr="x"),
        "no valid result: result: found an array, expected an object",
    ),
    "a status": (output(status=3, stderr="x"), "exit status 3, although it wrote a result without error; the end of"),
    "too much": (
        output(stopped="output"),
        "killed: it wrote more than 1048576 bytes to stdout, expected one result",
    ),
    "too late": (output(stopped="deadline", stderr="x"), "killed: no result after 10 s; the end of its stderr: x"),
    "not started": (OSError(errno.EACCES, "Permission denied"), "cannot be started: /bin/a: Permission denied"),
    "broken off": (
        BrokenOffError(errno.EIO, os.strerror(errno.EIO)),
        "killed: it could not be waited for or read: Input/output error",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_every_kind_of_failure_is_an_error_of_the_plugin(name: str) -> None:
    answer, reason = BAD[name]
    (error,) = failed(client(FakeInvoker({"a": answer}), *entries("a"))).errors
    assert error.plugin == "a"
    assert error.reason.startswith(reason)
    if isinstance(answer, OSError):
        assert error.__cause__ is answer


def test_another_exception_is_not_taken_for_a_plugins() -> None:
    class Broken(FakeInvoker):
        def find(self, plugin: str) -> str:
            raise KeyError(plugin)

    with pytest.raises(KeyError):
        client(Broken()).invoke(request(), "delete")


# Time and size


def test_a_timeout_of_the_entry_goes_before_that_of_the_client() -> None:
    invoker = FakeInvoker()
    client(invoker, *entries("a", timeout=1000), *entries("b"), timeout=100).invoke(request(), "create")
    a, b = invoker.seconds
    assert 900 < a <= 1000
    assert 50 < b <= 100


def test_the_deadline_of_the_chain_shortens_all_timeouts_and_lengthens_none() -> None:
    invoker = FakeInvoker()
    chain = client(invoker, *entries("a", timeout=1000), *entries("b", timeout=10))
    chain.invoke(request(), "create", deadline=time.monotonic() + 100)
    a, b = invoker.seconds
    assert 50 < a <= 100
    assert b <= 10


def test_no_plugin_is_started_after_the_deadline_of_the_chain() -> None:
    invoker = FakeInvoker()
    error = failed(client(invoker), "delete", deadline=time.monotonic())
    assert invoker.ran == []
    assert [each.reason for each in error.errors] == ["not started: no time is left"] * 3
    assert [step.binary for step in error.steps] == ["/bin/a", "/bin/b", "/bin/c"]


def test_the_limit_of_output_is_handed_to_the_invoker() -> None:
    invoker = FakeInvoker()
    client(invoker, *entries("a"), max_output=17).invoke(request(), "create")
    assert invoker.max_outputs == [17]


# The log


def test_lines_of_stderr_are_logged_with_their_plugin() -> None:
    invoker = FakeInvoker()
    invoker.lines = ["one", "two"]
    lines: list[tuple[str, str]] = []
    client(invoker, *entries("a", "b")).invoke(request(), "create", log=lambda *line: lines.append(line))
    assert lines == [("a", "one"), ("a", "two"), ("b", "one"), ("b", "two")]


def test_without_a_log_function_lines_go_to_the_logger(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "nri.client")
    invoker = FakeInvoker()
    invoker.lines = ["100 %s"]
    client(invoker, *entries("a")).invoke(request(), "create")
    assert caplog.messages == ["a: 100 %s"]


def test_one_client_serves_any_number_of_events() -> None:
    invoker = FakeInvoker()
    chain = client(invoker, *entries("a"))
    for state in ("create", "delete", "create"):
        assert len(chain.invoke(request(), state)) == 1
    assert [sent["state"] for sent in invoker.requests] == ["create", "delete", "create"]


# Conditions


def test_a_plugin_whose_condition_does_not_hold_is_not_run() -> None:
    invoker = FakeInvoker()
    plugins = [
        PluginEntry(type="a", when={"annotations": {"qos.class": {"equals": "ls"}}}),
        PluginEntry(type="b", when={"annotations": {"qos.class": {"equals": "batch"}}}),
        PluginEntry(type="c", states=["update"], when={"sandbox": True}),
    ]
    chain = client(invoker, *plugins)
    asked = request(spec=Spec(annotations={"qos.class": "ls"}))
    for state in ("create", "update", "delete"):
        chain.invoke(asked, state)
    assert invoker.ran == ["a", "a"]
    assert [plugin.type for plugin in chain.chain("create", asked)] == ["a"]
    assert [plugin.type for plugin in chain.chain("update")] == ["c"]


def test_a_plugin_that_is_not_run_can_be_one_that_does_not_exist() -> None:
    invoker = FakeInvoker(missing=("a",))
    plugins = [PluginEntry(type="a", when={"sandbox": True}), PluginEntry(type="b")]
    assert [step.plugin.type for step in client(invoker, *plugins).invoke(request(), "create")] == ["b"]


def test_what_a_plugin_asks_for_does_not_change_which_plugins_run_for_the_same_state() -> None:
    from nri.adjust import Changes, OCIAbilities

    invoker = FakeInvoker({"a": output({"plugin": "a", "adjust": {"annotations": {"team": "x"}}})})
    plugins = [
        PluginEntry(type="a", states=["setup"]),
        PluginEntry(type="b", states=["setup"], when={"annotations": {"team": {"present": True}}}),
    ]
    changes = Changes(OCIAbilities("runc", lambda: (1, 2), lambda _names, config: config), {"annotations": {}})
    client(invoker, *plugins).invoke(request(spec=Spec()), "setup", changes=changes)
    assert changes.config["annotations"] == {"team": "x"}
    assert invoker.ran == ["a"]


@pytest.mark.parametrize("labels", [{}, {"app": "web"}], ids=["hook", "with labels"])
def test_a_task_is_judged_by_its_specification_and_its_sandbox(labels: dict[str, str]) -> None:
    invoker = FakeInvoker()
    plugins = [PluginEntry(type="a", when={"labels": {"app": {"equals": "db"}}}), PluginEntry(type="b")]
    client(invoker, *plugins).invoke(Task("id", 1, Spec()), "create", Sandbox("pod", labels))
    assert invoker.ran == (["b"] if labels else ["a", "b"])
