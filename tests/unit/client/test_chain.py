"""The chain on an invoker that starts no process: which plugins run, their requests, and the effect of errors."""

import errno
import json
import logging
import os
import time
from typing import Any

import pytest

from nri.client import ChainError, Client, Step, results_of
from nri.config.entries import PluginEntry
from nri.process.conversation import BrokenOffError, Output
from nri.types.v1 import Request, Result, Spec
from tests.unit.client.fake_invoker import FakeInvoker, client, entries, output

NO = output({"error": "no"})
IGNORED = "create of redis failed, ignored (failurePolicy: ignore): "


def request(**changes: Any) -> Request:
    return Request(**{"state": "create", "id": "redis", "pid": 4711, **changes})


def failed(chain: Client, state: str = "create", **options: Any) -> ChainError:
    with pytest.raises(ChainError) as caught:
        chain.invoke(request(), state, **options)
    return caught.value


# Which plugins run


@pytest.mark.parametrize(
    ("state", "expected"),
    [("create", "abc"), ("delete", "abc"), ("setup", "bc"), ("update", "b"), ("pause", "")],
)
def test_other_states_run_only_plugins_that_list_them(state: str, expected: str) -> None:
    invoker = FakeInvoker()
    chain = client(
        invoker,
        *entries("a"),
        *entries("b", states=["setup", "update"]),
        *entries("c", states=["setup"]),
    )
    assert len(chain.invoke(request(), state)) == len(expected)
    assert invoker.ran == [plugin.type for plugin in chain.chain(state)] == list(expected)


def test_plugin_with_a_false_condition_is_not_looked_for() -> None:
    invoker = FakeInvoker(missing=("b",))
    chain = client(
        invoker,
        PluginEntry(type="a", when={"annotations": {"qos.class": {"equals": "ls"}}}),
        PluginEntry(type="b", when={"annotations": {"qos.class": {"equals": "batch"}}}),
        PluginEntry(type="c", states=["update"], when={"sandbox": True}),
        PluginEntry(type="d"),
    )
    asked = request(spec=Spec(annotations={"qos.class": "ls"}))
    for state in ("create", "update", "delete"):
        chain.invoke(asked, state)
    assert invoker.ran == ["a", "d", "a", "d"]
    assert [plugin.type for plugin in chain.chain("create", asked)] == ["a", "d"]
    assert [plugin.type for plugin in chain.chain("update")] == ["c"]


@pytest.mark.parametrize(
    ("labels", "runs"), [({}, ["a", "b"]), ({"app": "web"}, ["b"])], ids=["hook", "labels"]
)
def test_conditions_see_the_labels_of_the_sandbox(labels: dict[str, str], runs: list[str]) -> None:
    invoker = FakeInvoker()
    chain = client(
        invoker, *entries("a", when={"labels": {"app": {"equals": "db"}}}), *entries("b")
    )
    chain.invoke(request(sandbox_id="pod", labels=labels, spec=Spec()), "create")
    assert invoker.ran == runs


# What each plugin is sent


def test_plugins_get_their_conf_and_the_chains_state() -> None:
    invoker = FakeInvoker()
    plugins = [
        PluginEntry(type="a", conf={"x": [1, None]}),
        PluginEntry(type="b"),
        PluginEntry(type="c", conf=0),
    ]
    client(invoker, *plugins).invoke(
        request(version="9.9", state="delete", conf="another's"), "create"
    )
    assert [sent.get("conf", "none") for sent in invoker.requests] == [{"x": [1, None]}, "none", 0]
    assert {(sent["version"], sent["state"]) for sent in invoker.requests} == {("0.1", "create")}


def test_plugins_get_all_earlier_results() -> None:
    invoker = FakeInvoker({"a": output({"plugin": "a", "x-vendor": {"deep": [1, None]}})})
    steps = client(invoker).invoke(request(results=[Result(plugin="earlier")]), "create")
    sent = [[result["plugin"] for result in each["results"]] for each in invoker.requests]
    assert sent == [["earlier"], ["earlier", "a"], ["earlier", "a", "b"]]
    assert invoker.requests[2]["results"][1]["x-vendor"] == {"deep": [1, None]}
    assert [result.plugin for result in results_of(steps)] == ["a", "b", "c"]


# The steps


def test_step_has_the_request_the_output_and_the_outcome() -> None:
    invoker = FakeInvoker({"b": output(b"?")}, missing=("c",))
    invoker.takes = 0.01
    started = time.monotonic()
    a, b, c = failed(client(invoker), "delete").steps
    assert 0.01 <= a.seconds <= time.monotonic() - started
    assert [json.loads(step.request)["id"] for step in (a, b, c)] == ["redis"] * 3
    assert [step.binary for step in (a, b, c)] == ["/bin/a", "/bin/b", ""]
    assert (json.loads(a.stdout), a.error, a.result) == (
        {"plugin": "a"},
        None,
        Result(plugin="a", version=""),
    )
    assert (b.stdout, b.result, b.error and b.error.reason[:17]) == (
        b"?",
        None,
        "no valid result: ",
    )
    assert (c.stdout, c.result, str(c.error)) == (b"", None, "c: not found: nowhere")


def test_outcome_of_a_step_is_ok_error_killed_or_ignored() -> None:
    invoker = FakeInvoker({"b": NO, "c": output(stopped="deadline"), "d": NO})
    chain = client(invoker, *entries("a", "b", "c"), *entries("d", failure_policy="ignore"))
    assert [step.outcome for step in failed(chain, "delete").steps] == [
        "ok",
        "error",
        "killed",
        "ignored",
    ]


def test_observer_sees_each_step_when_its_plugin_ends() -> None:
    invoker = FakeInvoker({"b": NO})
    story: list[str] = []

    def on_step(step: Step) -> None:
        story.append(f"{step.plugin.type} is {step.outcome} after {len(invoker.ran)}")

    chain = client(invoker, failure_policy="ignore")
    chain.invoke(request(), "create", on_step=on_step, log=lambda _plugin, line: story.append(line))
    # And no line says it again.
    assert story == ["a is ok after 1", "b is ignored after 2", "c is ok after 3"]


# The effect of an error


def test_delete_runs_every_plugin_and_reports_all_errors() -> None:
    invoker = FakeInvoker({"a": output({"plugin": "a", "error": "no"})}, missing=("c",))
    error = failed(client(invoker, *entries("d", "c", "a", "d")), "delete")
    assert invoker.ran == ["d", "a", "d"]
    assert [result["plugin"] for result in invoker.requests[2]["results"]] == ["d"]
    assert str(error) == "plugin c: not found: nowhere; plugin a: no"
    assert [(each.plugin, each.reason) for each in error.errors] == [
        ("c", "not found: nowhere"),
        ("a", "no"),
    ]
    assert [step.plugin.type for step in error.steps] == ["d", "c", "a", "d"]
    assert [result.plugin for result in results_of(error.steps)] == ["d", "d"]


@pytest.mark.parametrize(
    ("default", "own", "is_ignored"),
    [("fail", "ignore", True), ("ignore", "", True), ("ignore", "fail", False)],
)
def test_failure_policy_of_the_entry_overrides_the_clients(
    default: str, own: str, is_ignored: bool
) -> None:
    invoker = FakeInvoker({"a": NO})
    lines: list[tuple[str, str]] = []
    chain = client(
        invoker, *entries("a", failure_policy=own), *entries("b"), failure_policy=default
    )
    if is_ignored:
        steps = chain.invoke(request(), "create", log=lambda *line: lines.append(line))
        assert [step.error is None for step in steps] == [False, True]
        assert (invoker.ran, lines) == (["a", "b"], [("a", f"{IGNORED}no")])
    else:
        assert str(failed(chain, log=lambda *line: lines.append(line))) == "plugin a: no"
        assert (invoker.ran, lines) == (["a"], [])


FAILURES: dict[str, tuple[Output | OSError, str]] = {
    "an error": (output({"error": "no\n"}, stderr="why"), "no\\n"),
    "an error and a status": (output({"error": "no"}, status=3), "no; exit status 3"),
    "nothing": (output(b" \n"), "no valid result: it wrote nothing to stdout, expected a result"),
    "no result": (
        output(b"[\x07]", status=-11, stderr="x"),
        (
            "no valid result: line 1 column 2: found '\\x07]', expected a value: [\\x07]; ended by signal 11; "
            "the end of its stderr: x"
        ),
    ),
    "a status": (
        output(status=3, stderr="x"),
        "exit status 3, although it wrote a result without error; the end of its stderr: x",
    ),
    "too much": (
        output(stopped="output", stderr="x"),
        "killed: it wrote more than 1048576 bytes to stdout, expected one result; the end of its stderr: x",
    ),
    "too late": (
        output(stopped="deadline", stderr="x"),
        "killed: no result after 10 s; the end of its stderr: x",
    ),
    "not started": (
        OSError(errno.EACCES, "Permission denied"),
        "cannot be started: /bin/a: Permission denied",
    ),
    "broken off": (
        BrokenOffError(errno.EIO, os.strerror(errno.EIO)),
        "killed: it could not be waited for or read: Input/output error",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_every_failure_is_an_error_of_the_plugin(name: str) -> None:
    answer, reason = FAILURES[name]
    (error,) = failed(client(FakeInvoker({"a": answer}), *entries("a"))).errors
    assert (error.plugin, error.reason) == ("a", reason)
    if isinstance(answer, OSError):
        assert error.__cause__ is answer


def test_other_exceptions_are_not_errors_of_the_plugin() -> None:
    class Broken(FakeInvoker):
        def find(self, plugin: str) -> str:
            raise KeyError(plugin)

    with pytest.raises(KeyError):
        client(Broken()).invoke(request(), "delete")


# Time and size


def test_timeout_of_the_entry_overrides_the_clients() -> None:
    invoker = FakeInvoker()
    chain = client(invoker, *entries("a", timeout=10_000), *entries("b"), timeout=1000)
    chain.invoke(request(), "create")
    chain.invoke(request(), "create", deadline=time.monotonic() + 2500)
    own, default, shortened, not_lengthened = invoker.seconds
    assert 9000 < own <= 10_000
    assert 500 < default <= 1000
    assert 1500 < shortened <= 2500
    assert 500 < not_lengthened <= 1000


def test_no_plugin_is_started_after_the_deadline_of_the_chain() -> None:
    invoker = FakeInvoker()
    error = failed(client(invoker), "delete", deadline=time.monotonic())
    assert invoker.ran == []
    assert [each.reason for each in error.errors] == ["not started: no time is left"] * 3
    assert [step.binary for step in error.steps] == ["/bin/a", "/bin/b", "/bin/c"]


def test_lines_of_stderr_are_logged_with_their_plugin(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "nri.client")
    invoker = FakeInvoker()
    invoker.lines = ["one", "100 %s"]
    lines: list[tuple[str, str]] = []
    chain = client(invoker, *entries("a", "b"))
    chain.invoke(request(), "create", log=lambda *line: lines.append(line))
    assert lines == [("a", "one"), ("a", "100 %s"), ("b", "one"), ("b", "100 %s")]
    assert caplog.messages == []
    chain.invoke(request(), "create")
    assert caplog.messages == ["a: one", "a: 100 %s", "b: one", "b: 100 %s"]


# Refusals


REFUSED = output({"error": "no CPU", "refused": True})


@pytest.mark.parametrize("policy", ["fail", "ignore"])
def test_refusal_stops_the_chain_as_an_error_does_and_is_told_apart(policy: str) -> None:
    chain = client(FakeInvoker({"b": REFUSED}), failure_policy=policy)
    steps: list[Step] = []
    if policy == "fail":
        error = failed(chain, on_step=steps.append)
        assert str(error) == "plugin b: no CPU"
    else:
        chain.invoke(request(), "create", on_step=steps.append)
    outcomes = {"fail": ["ok", "refused"], "ignore": ["ok", "refused", "ok"]}
    assert [step.outcome for step in steps] == outcomes[policy]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (output({"error": "no CPU", "refused": True}, status=3), "no CPU; exit status 3"),
        (output({"error": "no CPU", "refused": None}), "no CPU"),
        (
            output({"error": "", "refused": True}),
            "no valid result: found refused without an error, expected its reason",
        ),
        (
            output({"error": "no", "refused": "yes"}),
            "no valid result: result.refused: found the string 'yes', ",
        ),
    ],
)
def test_failure_is_no_refusal(answer: Output, reason: str) -> None:
    steps: list[Step] = []
    error = failed(client(FakeInvoker({"a": answer})), on_step=steps.append)
    assert str(error).startswith(f"plugin a: {reason}")
    assert [step.outcome for step in steps] == ["error"]


def test_contradiction_in_a_condition_is_a_refusal_of_its_plugin() -> None:
    entry = PluginEntry(type="b", when={"namespaces": ["shop"]})
    chain = client(FakeInvoker(), *entries("a"), entry)
    labels = {"io.kubernetes.pod.namespace": ""}
    forged = {"io.kubernetes.cri.sandbox-namespace": "other", "io.kubernetes.pod.namespace": "shop"}
    steps: list[Step] = []
    with pytest.raises(
        ChainError, match=r"^plugin b: when: found .* and .*; expected a container whose"
    ):
        chain.invoke(
            request(spec=Spec(annotations=forged), labels=labels), "create", on_step=steps.append
        )
    assert [(step.plugin.type, step.outcome) for step in steps] == [("b", "refused")]
